"""Steps read off what a script prints, for one that tells nothing else.

A line counts when it names a step and a loss, in any of the usual spellings, and is not about evaluation:

    step 120: loss 2.345            Step 120/2000 | loss=2.345 | lr 3e-4 | tokens 16384
    {"step": 120, "loss": 2.345, "samples": 32}

`tokens` and `samples` are those since the line before; the steps between two lines took the time between them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, TextIO

_STEP = re.compile(r"\b(?:global_?step|step|iter|iteration)\b[\"']?\s*[:=#]?\s*\[?\s*(\d[\d,]*)\s*(?:(?:/|of)\s*(\d[\d,]*))?", re.I)
_VALUE = re.compile(r"\b(loss|train_loss|tokens|samples|lr|learning_rate|grad_norm)\b[\"']?\s*[:= ]\s*"
                    r"([-+]?(?:\d[\d,]*(?:\.\d*)?|\.\d+)(?:e[-+]?\d+)?|nan|[-+]?inf)\b(?![/\w])", re.I)
_OTHER = re.compile(r"\b(?:eval|evaluation|val|valid|validation|test|dev)\b", re.I)
_NAMES = {"train_loss": "loss", "lr": "learning_rate"}
_LONGEST = 2_000


def read_line(line: str) -> dict[str, Any] | None:
    """The step that a line tells of: `at`, `loss` and whatever of `total`, `tokens`, `samples`, `learning_rate` and
    `grad_norm` it says; None for any other line."""
    if len(line) > _LONGEST or _OTHER.search(line):
        return None
    step = _STEP.search(line)
    if step is None:
        return None
    found: dict[str, Any] = {}
    for name, text in _VALUE.findall(line):
        name = _NAMES.get(name.lower(), name.lower())
        value = float(text.replace(",", ""))
        if name in ("tokens", "samples"):
            if not math.isfinite(value):
                continue
            value = int(value)
        found.setdefault(name, value)
    if "loss" not in found:
        return None
    found["at"] = int(step[1].replace(",", ""))
    if step[2]:
        found["total"] = int(step[2].replace(",", ""))
    return found


class WatchedStream:
    """A text stream that passes everything on, and whole lines to `listen`. A progress bar's `\\r` ends a line as well."""

    def __init__(self, stream: TextIO, listen: Callable[[str], None]):
        self._stream, self._listen, self._part = stream, listen, ""

    def write(self, text: str) -> int:
        count = self._stream.write(text)
        if isinstance(text, str):
            *lines, self._part = re.split(r"[\r\n]", (self._part + text)[-4 * _LONGEST:])
            for line in lines:
                self._listen(line)
        return count

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
