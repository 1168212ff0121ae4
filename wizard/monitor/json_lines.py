"""The run's events for programs: one JSON object a line, the last one `run_ended` from the supervisor."""

from __future__ import annotations

import json
import time
from typing import Any, TextIO

from engine.contract.events import VERSION, finite
from engine.contract.run_dir import RunDir, Status
from wizard.monitor.follow import follow
from wizard.monitor.reader import RunReader
from wizard.monitor.state import StepTotal


def follow_json(run: RunDir, out: TextIO) -> Status:
    """Write the run's events to `out` until it ends; returns its final status.

    Step events are rank 0's (where each machine has its own folder, its first rank's, with the sums of its ranks) with
    the global `loss`, `tokens_per_s` and `samples_per_s` added, so one for each step that all ranks completed; a rate
    of what nobody counts is null. Other events pass as they are, but for the ranks' own `run_ended`: there is exactly one, the last
    line, also when every rank was killed. Raises OSError when `out` is closed.
    """
    lines = JsonLines(run, out)
    status = follow(lines.reader, lines.after_poll)
    lines.end(status)
    return status


class JsonLines:
    """Turns events into lines, each poll's in order of time."""

    def __init__(self, run: RunDir, out: TextIO, reader: RunReader | None = None):
        self.reader = reader or RunReader(run)
        self.reader._listener = self._listen
        self.run, self.out = run, out
        self._batch: list[dict[str, Any]] = []
        self._steps: dict[int, dict[str, Any]] = {}
        self._totals: dict[int, StepTotal] = {}
        self._life = self.reader.state.life

    def after_poll(self) -> None:
        """Write what the poll brought."""
        batch, self._batch = sorted(self._batch, key=lambda event: event["t_unix_s"]), []
        for event in batch:
            self._write(event)
        if batch:
            self.out.flush()

    def end(self, status: Status) -> None:
        """The supervisor's last word."""
        state = self.reader.state
        reason = status.exit_reason
        self._write({
            "event": "run_ended", "v": VERSION, "t_unix_s": status.ended_unix_s or time.time(), "attempt": status.attempt,
            "state": status.state, "model_path": status.model_path, "run_dir": str(self.run.root), "step": state.step,
            "tokens_per_s_mean": state.throughput.tokens_per_s_mean(),
            "samples_per_s_mean": state.throughput.samples_per_s_mean(),
            "exit_reason": reason.model_dump() if reason is not None else None,
        })
        self.out.flush()

    def _listen(self, event: dict[str, Any], total: StepTotal | None) -> None:
        if self.reader.state.life != self._life:
            self._life = self.reader.state.life
            self._steps.clear()
            self._totals.clear()
        if event["event"] == "step" and event["rank"] == self.reader.state.first_rank:
            self._steps[event.get("step", 0)] = event
        if total is not None:
            self._totals[total.step] = total
        # of a script a step is complete only with a later event
        for step in {total.step if total else None, event.get("step")} & self._totals.keys() & self._steps.keys():
            done = self._totals.pop(step)
            self._batch.append({**self._steps.pop(step), "loss": done.loss, "tokens_per_s": done.tokens_per_s,
                                "samples_per_s": done.samples_per_s})
        if event["event"] not in ("step", "run_ended"):
            self._batch.append(event)

    def _write(self, event: dict[str, Any]) -> None:
        self.out.write(json.dumps(finite(event), ensure_ascii=False) + "\n")
