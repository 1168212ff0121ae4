"""What workers tell the screens. Threads never touch widgets: they post one of these."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from textual.message import Message


@dataclass
class MachineRead(Message):
    """The hardware of this machine is known."""

    inventory: Any


@dataclass
class ShelfRead(Message):
    """Presets and recent runs, for the first screen."""

    presets: list[Any]
    runs: list[Any]


@dataclass
class FactsRead(Message):
    """A model or data was looked at: `facts`, or in `problem` why it cannot be used."""

    kind: str
    source: Any
    facts: Any
    problem: str = ""


@dataclass
class PlanMade(Message):
    """What a launch would be, with everything that speaks against it."""

    plan: Any


@dataclass
class RunStarted(Message):
    """The training runs; its folder is known."""

    run: Any


@dataclass
class LaunchRefused(Message):
    """The training did not start. `problem` is for people."""

    problem: str
