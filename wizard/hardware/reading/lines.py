"""Pasted text as lines, and the facts that readers find in them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_ESCAPE = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
#: Frames of tables as people's terminals and web pages turn them; quotation marks of mail and issue threads.
_FRAMES = str.maketrans({"│": "|", "┃": "|", "║": "|", "×": "x", "\u00a0": " ", "\u200b": "", "–": "-", "—": "-", "\u2010": "-", "\u2011": "-"})
_QUOTE = re.compile(r"^(?:\s?>)+ ?")
_FENCE = re.compile(r"^\s*(```|~~~)\w*\s*$")


#: In a text of more lines than this, a log, only so many lines that differ in nothing but numbers are read.
_LONG, _ALIKE = 2000, 40
_DIGITS = re.compile(r"[\d.]+")


@dataclass(frozen=True)
class Line:
    """`number` counts from 1 in the text as it was pasted."""

    number: int
    text: str

    def __str__(self) -> str:
        return f"line {self.number}: {' '.join(self.text.split())[:160]}"


@dataclass(frozen=True)
class Fact:
    """One value with its place in the inventory and the line it was read from.

    Places: ("gpu", index, field), ("group",), ("link", first, second, "path" | "p2p"), ("nic", gpu, card),
    ("interface", name, field), ("rdma", device, port, field), ("cpu" | "memory" | "platform" | "torch", field),
    ("driver" | "package" | "env", name), ("sign", kind), ("route", network), ("nodes",), ("ranks",), ("model",).
    """

    place: tuple
    value: Any
    line: Line
    source: str


@dataclass(frozen=True)
class Group:
    """Devices that a text counts or names without numbering them; `count` is None where it names no number."""

    name: str
    count: int | None
    memory_bytes: int | None = None
    per_node: bool = True


class Paste:
    """Lines of a pasted text, without escape codes, frames, quotation marks and code fences."""

    def __init__(self, text: str):
        self.lines: list[Line] = []
        raw_lines = text.splitlines()
        shapes: dict[str, int] | None = {} if len(raw_lines) > _LONG else None
        for number, raw in enumerate(raw_lines, start=1):
            if _FENCE.match(raw):
                continue
            if shapes is not None:
                shape = _DIGITS.sub("0", raw[:200])
                shapes[shape] = shapes.get(shape, 0) + 1
                if shapes[shape] > _ALIKE:
                    continue
            clean = _QUOTE.sub("", _ESCAPE.sub("", raw)).translate(_FRAMES).expandtabs(8).rstrip()
            self.lines.append(Line(number, clean))
        self.text = "\n".join(line.text for line in self.lines)

    def find(self, pattern: str, flags: int = re.I) -> Iterator[tuple[Line, re.Match]]:
        """The first match of every line that has one."""
        compiled = re.compile(pattern, flags)
        for line in self.lines:
            if match := compiled.search(line.text):
                yield line, match

    def has(self, pattern: str, flags: int = re.I | re.M) -> bool:
        return re.search(pattern, self.text, flags) is not None


UNITS = {"": 1, "b": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


def size_bytes(number: str, unit: str) -> int:
    """`24`, `GiB` to bytes; decimal and binary units alike, as tools mix them."""
    return int(float(number.replace(",", "")) * UNITS[unit[:1].lower()])


def numbers(text: str) -> list[int]:
    """`0,1,2-4` to [0, 1, 2, 3, 4]; empty for anything else."""
    found: list[int] = []
    for part in re.split(r"\s*,\s*", text.strip()):
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", part)
        if not match:
            return []
        found += range(int(match[1]), min(int(match[2] or match[1]), int(match[1]) + 1024) + 1)
    return found
