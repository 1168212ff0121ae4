"""Tokens and samples per second from step records that arrive in bursts."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

#: Ranks hold step records back and write several at once; what comes within this time is one moment.
BURST_S = 0.05
WINDOW_S = 10.0
#: A rate over less time than this says more about the clock than about the training.
SHORTEST_S = 0.05
BEST_OVER_S = 2.0
CHART_S = 1.0
#: Start-up (caches, allocator, first compilation) is not the speed of the training.
WARM_UP_S = 0.25


@dataclass(slots=True)
class Moment:
    """Totals when a burst of records was complete; `began` is when its first record came."""

    began: float
    t: float
    step: int
    tokens: int
    samples: int
    excluded: float


class Throughput:
    """Totals over all ranks against rank 0's clock, evaluation and checkpoints taken out.

    Rates are None until they can be known. `add` takes the totals of one optimizer step of all ranks. `unit` is what
    the training counts: `tokens`, else `samples` (a script may tell no tokens), else `steps`.
    """

    def __init__(self) -> None:
        self.tokens = self.samples = 0
        self.unit = "tokens"
        #: Highest rate over a window so far, in `unit` per second.
        self.best: float | None = None
        self._begin: Moment | None = None
        self._first: Moment | None = None
        self._warm: Moment | None = None
        self._charted: Moment | None = None
        self._window: deque[Moment] = deque()
        self._excluded = 0.0

    def begin(self, t: float, step: int) -> None:
        """Training starts or goes on now, after `step` steps: the clock of another process starts here."""
        self._begin = self._charted = Moment(t, t, step, self.tokens, self.samples, self._excluded)
        self._first = self._warm = None
        self._window.clear()

    def add(self, t: float, step: int, tokens: int, samples: int, excluded_s: float) -> tuple[int, float] | None:
        """Count one step of all ranks; `excluded_s` is what evaluation and checkpoints took since the step before.

        Returns a point (step, `unit` per second) for the chart when one is complete.
        """
        self._excluded += excluded_s
        self.tokens += tokens
        self.samples += samples
        unit = "tokens" if self.tokens else "samples" if self.samples else "steps"
        if unit != self.unit:
            self.unit, self.best = unit, None
        point = None
        last = self._window[-1] if self._window else None
        if last is not None and t - last.began < BURST_S and not excluded_s:
            last.t, last.step, last.tokens, last.samples = t, step, self.tokens, self.samples
        else:
            if last is not None:
                point = self._chart_point(last)
            self._window.append(Moment(t, t, step, self.tokens, self.samples, self._excluded))
        self._prune()
        now = self._window[-1]
        if self._first is None:
            self._first = now
        if self._warm is None or self._warm is now or now.t - self._first.began < WARM_UP_S:
            self._warm = now
        return point

    def _chart_point(self, moment: Moment) -> tuple[int, float] | None:
        start = self._charted
        if start is None:
            self._charted = moment
            return None
        if moment.t - start.t < CHART_S:
            return None
        rate = self._unit_rate(start, moment)
        first = start is self._begin
        self._charted = moment
        if rate is None or first:  # the first holds the start-up
            return None
        return moment.step, rate

    def _prune(self) -> None:
        newest = self._window[-1].t
        while len(self._window) > 2 and self._window[1].t <= newest - WINDOW_S:
            self._window.popleft()
        end, warm = self._window[-1], self._warm
        if warm is None or len(self._window) < 2:
            return
        start = self._window[0] if self._window[0].t >= warm.t else warm
        if end.t - start.t - (end.excluded - start.excluded) >= BEST_OVER_S:
            self.best = max(self._unit_rate(start, end) or 0.0, self.best or 0.0)

    def _now(self) -> tuple[Moment, Moment] | None:
        if len(self._window) > 1:
            return self._window[0], self._window[-1]
        if self._window and self._begin is not None:
            return self._begin, self._window[-1]
        return None

    def _all(self) -> tuple[Moment, Moment] | None:
        if not self._window:
            return None
        end = self._window[-1]
        if self._warm is not None and end.t - self._warm.t >= WARM_UP_S:
            return self._warm, end
        return (self._begin, end) if self._begin is not None else None

    def _unit_rate(self, start: Moment, end: Moment) -> float | None:
        counted = "step" if self.unit == "steps" else self.unit
        return _rate(start, end, getattr(end, counted) - getattr(start, counted))

    def now(self) -> float | None:
        """`unit` per second over the last 10 seconds, or between the last two bursts where they are further apart."""
        span = self._now()
        return span and self._unit_rate(*span)

    def mean(self) -> float | None:
        """`unit` per second over this attempt without its warm-up (all of it while there is nothing else)."""
        span = self._all()
        return span and self._unit_rate(*span)

    def tokens_per_s_now(self) -> float | None:
        """As `now`; None where no tokens are told."""
        span = self._now()
        return span and _rate(*span, span[1].tokens - span[0].tokens)

    def samples_per_s_now(self) -> float | None:
        span = self._now()
        return span and _rate(*span, span[1].samples - span[0].samples)

    def tokens_per_s_mean(self) -> float | None:
        """As `mean`; None where no tokens are told."""
        span = self._all()
        return span and _rate(*span, span[1].tokens - span[0].tokens)

    def samples_per_s_mean(self) -> float | None:
        """As `mean`; None where no samples are told."""
        span = self._all()
        return span and _rate(*span, span[1].samples - span[0].samples)

    def s_per_step(self) -> float | None:
        """Wall time of a step of this attempt, evaluation and checkpoints left out."""
        span = self._all()
        rate = span and _rate(*span, span[1].step - span[0].step)
        return 1 / rate if rate else None


def _rate(start: Moment, end: Moment, amount: float) -> float | None:
    seconds = end.t - start.t - (end.excluded - start.excluded)
    return amount / seconds if seconds >= SHORTEST_S and amount > 0 else None
