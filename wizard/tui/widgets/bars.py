"""Bars and curves one line high, as plain strings: eighths of a character are the smallest unit."""

from __future__ import annotations

from collections.abc import Sequence

_LEFT = " ▏▎▍▌▋▊▉█"
_UP = "▁▂▃▄▅▆▇█"


def bar(share: float, width: int) -> str:
    """A bar of `share` (0 to 1) of `width` cells, to an eighth of a cell; no padding behind it."""
    eighths = round(max(0.0, min(1.0, share)) * width * 8)
    full, rest = divmod(eighths, 8)
    return "█" * full + (_LEFT[rest] if rest else "")


def spark(values: Sequence[float], width: int, floor: float | None = None) -> str:
    """The last shape of a curve in `width` cells, between `floor` (else its lowest value) and its highest.

    The values must be finite; several values in one cell are averaged, and a short curve is stretched.
    """
    if not values or width < 1:
        return ""
    total = len(values)
    if total > width:
        edges = [round(i * total / width) for i in range(width + 1)]
        values = [sum(values[a:b]) / (b - a) for a, b in zip(edges, edges[1:], strict=False)]
    else:
        values = [values[i * total // width] for i in range(width)]
    low = min(values) if floor is None else floor
    high = max(values)
    span = high - low
    if span <= 0:
        return _UP[3] * len(values)
    return "".join(_UP[max(0, min(7, round((value - low) / span * 7)))] for value in values)
