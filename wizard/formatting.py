"""Numbers as people read them; unknown is `n/a`, never a made-up zero."""

from __future__ import annotations

import math

NA = "n/a"


def count(value: float | None) -> str:
    """12,480 below ten million, then 12.5 M, 1.24 B."""
    if not _known(value):
        return NA
    if abs(value) >= 1e9:
        return f"{value / 1e9:.3g} B"
    if abs(value) >= 1e7:
        return f"{value / 1e6:.3g} M"
    return f"{value:,.0f}"


def rate(value: float | None) -> str:
    """A rate with three significant figures below a thousand: 0.84, 12.6, 2,031."""
    if not _known(value):
        return NA
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def loss(value: float | None) -> str:
    """A loss: three decimals, scientific when tiny; None (not finite) is `n/a`."""
    if not _known(value):
        return NA
    return f"{value:.3f}" if abs(value) >= 0.01 or value == 0 else f"{value:.2e}"


def size(value: float | None) -> str:
    """Bytes in decimal units, as disks and networks are sold: 512 B, 61.2 GB."""
    if not _known(value):
        return NA
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if abs(value) < 1000 or unit == "TB":
            return f"{value:.0f} {unit}" if unit == "B" or abs(value) >= 100 else f"{value:.3g} {unit}"
        value /= 1000
    raise AssertionError("unreachable")


def gibibytes(value: float | None) -> str:
    """Memory in GiB, as devices report it."""
    return f"{value / 2**30:.3g} GiB" if _known(value) else NA


def duration(seconds: float | None) -> str:
    """At most two units: 850 ms, 14 s, 5 min 12 s, 3 h 10 min, 2 d 4 h."""
    if not _known(seconds):
        return NA
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    whole = round(seconds)
    for unit, length, small, part in (("d", 86400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1)):
        if whole >= length:
            rest = whole % length // part
            return f"{whole // length} {unit} {rest} {small}" if rest else f"{whole // length} {unit}"
    return f"{whole} s"


def percent(share: float | None) -> str:
    """0.21 as `21 %`."""
    return f"{share * 100:.0f} %" if _known(share) else NA


def _known(value: float | None) -> bool:
    return value is not None and math.isfinite(value)
