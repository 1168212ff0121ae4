"""What the supervisor knows of each rank: read from the events of one attempt as they are written."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine.contract.events import ExitReason, parse_line
from engine.contract.run_dir import Process, RunDir, boot_id
from wizard.monitor.tail import LineTail

#: Phases in which there is no step boundary to wait for and nothing that a stop could lose.
BEFORE_TRAINING = frozenset({
    "", "starting", "loading libraries", "connecting", "loading data", "loading model", "preparing"})


@dataclass
class RankTrace:
    """One rank in this attempt. `moved_at` (monotonic seconds) is when phase, progress or step last changed."""

    rank: int
    process: Process | None = None
    phase: str = ""
    step: int | None = None
    longest_step_s: float = 0.0
    ended: dict[str, Any] | None = None
    moved_at: float = field(default_factory=time.monotonic)
    seen: bool = False
    #: It only died because we ended it after another had failed.
    cleared: bool = False

    @property
    def reason(self) -> ExitReason | None:
        if self.ended is None:
            return None
        return ExitReason.model_validate(self.ended.get("exit_reason") or {"kind": "exception"})

    def take(self, event: dict[str, Any]) -> None:
        kind, self.seen = event["event"], True
        if event.get("seq") == 0:
            # a new process: the launcher has restarted the group, and what the old one said last no longer counts
            self.process, self.ended, self.cleared = None, None, False
        if kind == "phase":
            self.phase, self.moved_at = event.get("name") or "", time.monotonic()
        elif kind == "step":
            self.step, self.moved_at = event.get("step"), time.monotonic()
            self.longest_step_s = max(self.longest_step_s, (event.get("step_time_ms") or 0) / 1000)
        elif kind == "rank_ready":
            self.process = Process(pid=event["pid"], create_time=event["create_time"], host=event["host"],
                                   boot_id=boot_id(), rank=self.rank, role="rank")
        elif kind == "run_ended":
            self.ended = event


class RankWatch:
    """Tails the event files of the expected ranks, from where they ended when this attempt began."""

    def __init__(self, run: RunDir, attempt: int, ranks: range):
        self.attempt = attempt
        self.traces = {rank: RankTrace(rank) for rank in ranks}
        self._tails = {rank: _from_end(run.events(rank)) for rank in ranks}

    def poll(self) -> bool:
        """Read what is new; whether there was anything."""
        news = False
        for rank, tail in self._tails.items():
            for line in tail.poll():
                event = parse_line(line)
                if event and event.get("attempt") == self.attempt and event["rank"] == rank:
                    news = True
                    # a line that is not what the contract says must not end the one who watches
                    with contextlib.suppress(KeyError, TypeError, ValueError):
                        self.traces[rank].take(event)
        return news

    @property
    def all_ready(self) -> bool:
        return all(trace.process is not None for trace in self.traces.values())

    @property
    def all_ended(self) -> bool:
        return all(trace.ended is not None for trace in self.traces.values())

    @property
    def training_began(self) -> bool:
        """Whether any rank is or was past the phases in which a stop loses nothing."""
        return any(trace.phase not in BEFORE_TRAINING or trace.step is not None for trace in self.traces.values())

    def processes(self) -> list[Process]:
        return [trace.process for trace in self.traces.values() if trace.process]

    def still_for_s(self) -> float:
        """Seconds since any rank last moved."""
        return time.monotonic() - max(trace.moved_at for trace in self.traces.values())

    def longest_step_s(self) -> float:
        return max(trace.longest_step_s for trace in self.traces.values())


def _from_end(path: Path) -> LineTail:
    """A tail that leaves out what earlier attempts wrote."""
    tail = LineTail(path)
    with contextlib.suppress(OSError):
        tail.offset = path.stat().st_size
    return tail
