"""What is wrong with a file a person wrote, said so that they can mend it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Problem:
    """One mistake: where it is, what was found, what would be right.

    `key` is dotted (`training.max_steps`); `line` counts from 1 and is None where the value has no place in a
    file (a `--set`, an answer in the wizard).
    """

    key: str
    found: str
    expected: str
    line: int | None = None
    nearest: str | None = None
    file: str | None = None

    def __str__(self) -> str:
        where = ":".join(str(part) for part in (self.file, self.line) if part is not None)
        text = f"{self.key}: found {self.found}; expected {self.expected}"
        if self.nearest:
            text += f" (did you mean `{self.nearest}`?)"
        return f"{where}: {text}" if where else text


class PresetError(ValueError):
    """A preset that cannot be used; carries every problem found, not only the first."""

    def __init__(self, problems: Iterable[Problem]):
        self.problems = list(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


def nearest_key(wrong: str, known: Sequence[str]) -> str | None:
    """The known key a person most likely meant, or None when nothing is close."""
    found = difflib.get_close_matches(wrong, known, n=1, cutoff=0.6)
    if found:
        return found[0]
    # `lr`, `bs`: initials of the parts of a key are a common shorthand
    initials = {"".join(part[0] for part in key.split("_") if part): key for key in known if "_" in key}
    return initials.get(wrong)


def shown(value: object, limit: int = 60) -> str:
    """A value as it is shown in a message: YAML-like, short, on one line."""
    if value is None:
        return "nothing"
    text = {True: "true", False: "false"}.get(value) if isinstance(value, bool) else None
    text = text if text is not None else (repr(value) if isinstance(value, str) else str(value))
    text = " ".join(text.split())
    return text if len(text) <= limit else text[: limit - 1] + "…"
