"""A curve of bounded length: old points are averaged in pairs, so that a run of any length fits."""

from __future__ import annotations

import math
from bisect import bisect_left

MAX_POINTS = 2_000


class Series:
    """Points (x, y) with rising x, at most `max_points` of them.

    Each kept point is the mean of `stride` values; the stride doubles when the series is full. Values that are not
    finite are counted and their place is remembered, but they never enter the curve.
    """

    def __init__(self, max_points: int = MAX_POINTS):
        self.max_points = max_points
        self.stride = 1
        self.last: float | None = None
        self.lowest: float | None = None
        self.non_finite = 0
        self.first_non_finite: float | None = None
        self._x: list[float] = []
        self._y: list[float] = []
        self._sum, self._count, self._open_x = 0.0, 0, 0.0

    def __len__(self) -> int:
        return len(self._x) + (1 if self._count else 0)

    def add(self, x: float, y: float | None) -> None:
        """Append a value; None stands for one that is not finite."""
        if y is None or not math.isfinite(y):
            self.last = None
            self.non_finite += 1
            if self.first_non_finite is None:
                self.first_non_finite = x
            return
        self.last = y
        self.lowest = y if self.lowest is None else min(self.lowest, y)
        self._sum += y
        self._count += 1
        self._open_x = x
        if self._count >= self.stride:
            self._x.append(x)
            self._y.append(self._sum / self._count)
            self._sum, self._count = 0.0, 0
            if len(self._x) >= self.max_points:
                self._halve()

    def truncate(self, x: float) -> None:
        """Forget all points from `x` on: a resumed attempt goes over these steps again."""
        at = bisect_left(self._x, x)
        del self._x[at:], self._y[at:]
        if self._count and self._open_x >= x:
            self._sum, self._count = 0.0, 0
        if self.first_non_finite is not None and self.first_non_finite >= x:
            self.first_non_finite, self.non_finite = None, 0
        self.last = self._y[-1] if self._y else None
        self.lowest = min(self._y, default=None)

    def points(self) -> tuple[list[float], list[float]]:
        """(x, y), the newest value included even where its average is not complete."""
        x, y = list(self._x), list(self._y)
        if self._count:
            x.append(self._open_x)
            y.append(self._sum / self._count)
        return x, y

    def _halve(self) -> None:
        if len(self._x) % 2:  # the odd one goes back to being an average that is not complete
            self._open_x, value = self._x.pop(), self._y.pop()
            self._sum, self._count = value * self.stride, self.stride
        self._y = [(a + b) / 2 for a, b in zip(self._y[::2], self._y[1::2], strict=True)]
        self._x = self._x[1::2]
        self.stride *= 2


def thin(x: list[float], y: list[float], count: int) -> tuple[list[float], list[float]]:
    """At most `count` points: the mean of neighbouring ones. Leaves short curves as they are."""
    total = len(x)
    if total <= count or count < 1:
        return x, y
    edges = [round(i * total / count) for i in range(count + 1)]
    spans = [(a, b) for a, b in zip(edges, edges[1:], strict=False) if b > a]
    return [x[b - 1] for _, b in spans], [sum(y[a:b]) / (b - a) for a, b in spans]


def smooth(y: list[float], weight: float) -> list[float]:
    """Exponential moving average, started without bias; `weight` 0 leaves the curve as it is."""
    if not weight:
        return y
    out, mean, norm = [], 0.0, 0.0
    for value in y:
        mean = weight * mean + (1 - weight) * value
        norm = weight * norm + (1 - weight)
        out.append(mean / norm)
    return out
