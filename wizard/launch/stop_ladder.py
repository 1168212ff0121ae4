"""Ending a run that is asked to stop: gently while that can still save something, then for certain."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from dataclasses import dataclass

import psutil

from wizard.launch import processes
from wizard.launch.rank_watch import RankWatch

#: Phases that end by themselves and may take minutes: writing gigabytes, or an evaluation to its end.
_SLOW = frozenset({"saving checkpoint", "saving model", "evaluating", "generating", "ending"})


@dataclass(frozen=True)
class Patience:
    """Seconds of waiting. A step boundary is waited for at least `boundary_s`, or three of the longest steps."""

    boundary_s: float = 60.0
    slow_phase_s: float = 1800.0
    before_training_s: float = 10.0
    leftovers_s: float = 15.0
    ended_s: float = 30.0
    folder_gone_s: float = 20.0


class StopLadder:
    """One stop request on its way: STOP file, SIGTERM, SIGKILL. `act` is called at every poll and never waits."""

    def __init__(self, watch: RankWatch, launcher: psutil.Process, everything: Callable[[], list[psutil.Process]],
                 patience: Patience):
        self._watch, self._launcher, self._everything, self._patience = watch, launcher, everything, patience
        self._rung_at = time.monotonic()
        self._terminated = False
        #: Whether something was ended that could not say its last word.
        self.killed = False

    def act(self, at_once: bool) -> None:
        """Take the next step if its time has come. The STOP file is already written."""
        if at_once:
            self._kill()
        elif not self._terminated and not self._watch.training_began:
            # nothing to save and no step boundary near; torchrun hands the signal on, a lone rank ends with its parent
            processes.send([self._launcher], signal.SIGTERM)
            self._rung(terminated=True)
            self.killed = True
        elif self._waited_enough():
            if self._terminated:
                self._kill()
            else:
                ranks = [found for record in self._watch.processes() if (found := processes.find(record))]
                processes.send(ranks, signal.SIGTERM)
                self._rung(terminated=True)

    def _waited_enough(self) -> bool:
        waited = time.monotonic() - self._rung_at
        if not self._watch.training_began:
            return waited > self._patience.before_training_s
        if any(trace.phase in _SLOW for trace in self._watch.traces.values()):
            return min(waited, self._watch.still_for_s()) > self._patience.slow_phase_s
        return waited > max(self._patience.boundary_s, 3 * self._watch.longest_step_s())

    def _rung(self, terminated: bool) -> None:
        self._terminated, self._rung_at = terminated, time.monotonic()

    def _kill(self) -> None:
        processes.send(self._everything(), signal.SIGKILL)
        self.killed = True
