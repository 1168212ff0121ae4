"""What one rank said last, and where its time goes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

#: Weight of the past in the moving means of a rank's step times: about the last ten steps.
_MEMORY = 0.9
PARTS = ("data", "compute", "wait", "optimizer")


@dataclass
class Split:
    """Mean milliseconds of a step by part, over about the last ten steps; a part that is not known is None."""

    step: float | None = None
    data: float | None = None
    compute: float | None = None
    wait: float | None = None
    optimizer: float | None = None

    def share(self, part: str) -> float | None:
        value = getattr(self, part)
        return value / self.step if value is not None and self.step else None


class _Mean:
    """Exponential mean that is right from its first value on."""

    __slots__ = ("_mean", "_norm")

    def __init__(self) -> None:
        self._mean = self._norm = 0.0

    def add(self, value: float | None) -> None:
        if isinstance(value, (int, float)):
            self._mean = _MEMORY * self._mean + (1 - _MEMORY) * value
            self._norm = _MEMORY * self._norm + (1 - _MEMORY)

    def value(self) -> float | None:
        return self._mean / self._norm if self._norm else None


@dataclass
class RankState:
    """One rank as a reader knows it. Times are Unix seconds of the rank's own clock; unknown is None."""

    rank: int
    host: str | None = None
    device: str | None = None
    device_name: str | None = None
    pid: int | None = None
    phase: str | None = None
    progress: float | None = None
    detail: str | None = None
    s_limit: float | None = None
    step: int = 0
    attempt: int = 0
    last_seen_s: float | None = None
    max_allocated_bytes: int | None = None
    devices: list[dict[str, Any]] = field(default_factory=list)
    machine: dict[str, Any] = field(default_factory=dict)
    ended: str | None = None
    exit_reason: dict[str, Any] | None = None
    _place: tuple[Any, ...] = ()
    _moved_mono: float = 0.0
    _seen_mono: float = 0.0
    _means: dict[str, _Mean] = field(default_factory=lambda: {part: _Mean() for part in ("step", *PARTS)})

    def apply(self, event: dict[str, Any]) -> None:
        """Take in one event of this rank."""
        kind = event["event"]
        self.attempt = event.get("attempt", self.attempt)
        handler = getattr(self, f"_on_{kind}", None)
        if handler is not None:
            handler(event)
        self.last_seen_s = event.get("t_unix_s", self.last_seen_s)
        self._seen_mono = event.get("t_mono_s", self._seen_mono)
        place = (self.phase, self.step, self.progress)
        if place != self._place:
            self._place, self._moved_mono = place, self._seen_mono

    def restart(self) -> None:
        """The rank's process was started anew: what it said before about its place no longer holds."""
        self.phase = self.progress = self.detail = self.s_limit = self.ended = self.exit_reason = None
        self.step = 0
        self._place = ()
        self._means = {part: _Mean() for part in self._means}

    def still_s(self, now_s: float) -> float | None:
        """Seconds since phase or step last changed.

        Between the rank's own records its monotonic clock counts, so that clocks which differ or jump do no harm;
        after the last record only the reader's clock is left.
        """
        if self.last_seen_s is None:
            return None
        return max(0.0, self._seen_mono - self._moved_mono) + max(0.0, now_s - self.last_seen_s)

    def silent_s(self, now_s: float) -> float | None:
        """Seconds since the rank wrote anything at all."""
        return None if self.last_seen_s is None else max(0.0, now_s - self.last_seen_s)

    def split(self) -> Split:
        return Split(**{part: mean.value() for part, mean in self._means.items()})

    def _on_rank_ready(self, event: dict[str, Any]) -> None:
        self.host, self.device, self.pid = event.get("host"), event.get("device"), event.get("pid")
        self.device_name = event.get("device_name")

    def _on_phase(self, event: dict[str, Any]) -> None:
        self.phase, self.progress = event.get("name"), event.get("progress")
        self.detail, self.s_limit = event.get("detail"), event.get("s_limit")

    def _on_step(self, event: dict[str, Any]) -> None:
        self.step = max(self.step, event.get("step", 0))
        self._means["step"].add(event.get("step_time_ms"))
        for part in PARTS:
            self._means[part].add(event.get(f"{part}_ms"))
        self.max_allocated_bytes = event.get("max_allocated_bytes") or self.max_allocated_bytes

    def _on_heartbeat(self, event: dict[str, Any]) -> None:
        self.step = max(self.step, event.get("step", 0))
        if event.get("phase") and event["phase"] != self.phase:
            self.phase, self.progress, self.detail, self.s_limit = event["phase"], None, None, None

    def _on_sample(self, event: dict[str, Any]) -> None:
        self.devices = event.get("devices") or []
        self.machine = event.get("host") or {}

    def _on_run_ended(self, event: dict[str, Any]) -> None:
        self.ended, self.exit_reason = event.get("state"), event.get("exit_reason")
