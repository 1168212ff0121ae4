"""The preset as it will be saved: what is not a default is marked, problems stand on the line they are in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.text import Text
from textual.widgets import Static

from engine.contract import yaml_text
from engine.contract.problems import Problem
from wizard.questions.question import Answer

#: The mark of a line by where its value comes from; a default has none.
_MARKS = {"yours": "●", "preset": "○", "detected": "·"}
LEGEND = "● yours   ○ from the preset   · detected   ✗ problem"


class PresetView(Static):
    """YAML with a gutter."""

    DEFAULT_CSS = """
    PresetView { height: auto; }
    """
    COMPONENT_CLASSES = {"preset--key", "preset--value", "preset--comment", "preset--mark", "preset--problem"}

    def __init__(self, id: str | None = None):
        super().__init__(markup=False, id=id)

    def show(self, text: str, origins: Mapping[str, Answer], problems: Sequence[Problem]) -> None:
        """Show `text`; `origins` says for a dotted key where its value comes from."""
        self.update(self._marked(text, origins, problems))

    def _marked(self, text: str, origins: Mapping[str, Answer], problems: Sequence[Problem]) -> Text:
        style = self.get_component_rich_style
        _, lines = yaml_text.load(text)
        keys = {line: yaml_text.dotted(path) for path, line in sorted(lines.items(), key=lambda item: -len(item[0]))}
        out = Text()
        for number, line in enumerate(text.rstrip("\n").split("\n"), start=1):
            here = [problem for problem in problems if problem.line == number]
            origin = _origin(keys.get(number, ""), origins)
            mark = "✗" if here else _MARKS.get(origin, " ")
            out.append(f" {mark} ", style("preset--problem" if here else "preset--mark"))
            out.append_text(self._line(line)).append("\n")
            for problem in here:
                out.append(f"   {said(problem)}\n", style("preset--problem"))
        return out

    def _line(self, line: str) -> Text:
        style = self.get_component_rich_style
        if line.lstrip().startswith("#"):
            return Text(line, style("preset--comment"))
        key, colon, value = line.partition(":")
        if not colon:
            return Text(line, style("preset--value"))
        return Text().append(key + colon, style("preset--key")).append(value, style("preset--value"))


def said(problem: Problem) -> str:
    """A problem in words, without the place, which it stands on."""
    if not problem.expected:
        return problem.found
    nearest = f" (did you mean {problem.nearest}?)" if problem.nearest else ""
    if problem.found.endswith((".", "?")) or ":" in problem.found:
        return f"{problem.found}; {problem.expected}"
    return f"found {problem.found}; expected {problem.expected}{nearest}"


def _origin(key: str, origins: Mapping[str, Any]) -> str:
    """The origin of a key, or of a section below which it is."""
    while key:
        if key in origins:
            return origins[key].origin
        key = key.rpartition(".")[0]
    return ""
