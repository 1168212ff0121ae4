"""Where a step's time goes, told without making the device wait."""

from __future__ import annotations

import resource
import sys
import time
from typing import Any

import torch

from engine.life import Life

FLUSH_S = 2.0


class Meter:
    """Marks moments of a step and writes `step` events, several at once.

    On CUDA a mark is an event on the stream, read when the records are flushed: the one synchronisation the loop
    has. Elsewhere a mark is the host's clock.
    """

    def __init__(self, life: Life, device: torch.device, log_every: int, distributed: bool):
        self.life, self.device, self.log_every, self.distributed = life, device, log_every, distributed
        self._cuda = device.type == "cuda"
        self._records: list[dict[str, Any]] = []
        self._flushed = time.monotonic()
        self._last_bucket: Any = None

    def mark(self) -> Any:
        if not self._cuda:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def last_bucket(self) -> None:
        """Called by the gradient hook when this rank's last gradient is ready: from here on it waits."""
        self._last_bucket = self.mark()

    def begin(self) -> None:
        self._marks: list[Any] = [self.mark()]
        self._data_s, self._last_bucket = 0.0, None

    def reading(self, seconds: float) -> None:
        self._data_s += seconds

    def computed(self) -> None:
        self._marks.append(self.mark())

    def end(self, step: int, loss: torch.Tensor, **facts: Any) -> None:
        """The step is over. `loss` is this rank's loss sum, `facts` the other fields of the step event."""
        self._marks.append(self.mark())
        self._records.append({"step": step, "loss": loss.detach(), "marks": self._marks, "bucket": self._last_bucket,
                              "data_s": self._data_s, **facts})
        due = step % self.log_every == 0 or step == 1 or time.monotonic() - self._flushed > FLUSH_S
        if due:
            self.flush()

    def flush(self) -> None:
        """Write all records held back. A device synchronisation when there are any."""
        if self._records and self._cuda:
            torch.cuda.synchronize(self.device)
        for record in self._records:
            begin, computed, end = record.pop("marks")
            bucket, data_ms, loss = record.pop("bucket"), record.pop("data_s") * 1e3, record.pop("loss")
            wait_ms = None if self.distributed else 0.0
            if bucket is not None:
                wait_ms = self._ms(bucket, computed)
            norm = record.pop("grad_norm")
            self.life.events.write(
                "step", step=record.pop("step"), loss_sum=float(loss), grad_norm=None if norm is None else float(norm),
                step_time_ms=round(self._ms(begin, end), 3), data_ms=round(data_ms, 3),
                compute_ms=round(self._ms(begin, computed) - data_ms - (wait_ms or 0.0), 3),
                wait_ms=None if wait_ms is None else round(wait_ms, 3), optimizer_ms=round(self._ms(computed, end), 3),
                max_allocated_bytes=self._memory(), **record)
        self._records.clear()
        self._flushed = time.monotonic()

    def _ms(self, begin: Any, end: Any) -> float:
        return begin.elapsed_time(end) if self._cuda else (end - begin) * 1e3

    def _memory(self) -> int | None:
        """Peak bytes: of the device's allocator, or on a CPU of the whole process."""
        if self._cuda:
            return torch.cuda.max_memory_allocated(self.device)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024
