"""The run's numbers in the trackers people already use, through accelerate's tracker classes.

Rank 0 alone talks to them, from a thread behind a queue, so that a slow or dead service costs the training nothing:
what the queue cannot hold is dropped, and a tracker that fails is left out. Both are said once. The run's folder
has all numbers anyway.
"""

from __future__ import annotations

import hashlib
import math
import queue
import threading
from collections.abc import Callable
from typing import Any

from engine.contract.preset import Preset
from engine.contract.run_dir import RunDir
from engine.life import Life
from engine.meter import Meter
from engine.process_group import Control

_QUEUE = 1000
#: A service that refuses this often in a row is not asked again.
_FAILURES = 3
#: The longest the end of a training waits for a service to take what is left, in seconds.
CLOSE_S = 30.0

Values = dict[str, float]


class Trackers:
    """Some trackers and the thread that talks to them. `starts` makes each by name, on that thread."""

    def __init__(self, starts: dict[str, Callable[[], Any]], warn: Callable[[str], None]):
        self._starts, self._warn = starts, warn
        self._queue: queue.Queue[tuple[Values, int] | None] = queue.Queue(_QUEUE)
        self._dropped = 0
        self._thread = threading.Thread(target=self._work, name="trackers", daemon=True)
        self._thread.start()

    def tell(self, values: Values, step: int) -> None:
        """Hand over what is to be told of `step`; never waits."""
        try:
            self._queue.put_nowait((values, step))
        except queue.Full:
            self._dropped += 1

    def close(self, limit_s: float = CLOSE_S) -> None:
        """Tell what is left and say good-bye, for at most `limit_s` seconds."""
        try:
            self._queue.put(None, timeout=limit_s)
            self._thread.join(limit_s)
        except queue.Full:
            pass
        if self._thread.is_alive():
            self._warn(f"not all numbers have reached {', '.join(self._starts)} within {limit_s:.0f} s; the run's folder has them all")
        elif self._dropped:
            self._warn(f"{self._dropped} records were left out, since {', '.join(self._starts)} took them too slowly; "
                       "the run's folder has them all")

    def _work(self) -> None:
        living: dict[str, Any] = {}
        failures = dict.fromkeys(self._starts, 0)
        for name, start in self._starts.items():
            try:
                living[name] = start()
            except Exception as error:
                self._warn(f"{name} cannot be used, the training goes on without it: {_one_line(error)}")
        while (record := self._queue.get()) is not None:
            for name, tracker in list(living.items()):
                try:
                    tracker.log(*record)
                    failures[name] = 0
                except Exception as error:
                    failures[name] += 1
                    if failures[name] == 1:
                        self._warn(f"{name} does not take the numbers, the training goes on: {_one_line(error)}")
                    if failures[name] == _FAILURES:
                        del living[name]
        for name, tracker in living.items():
            try:
                tracker.finish()
            except Exception as error:
                self._warn(f"{name} did not close: {_one_line(error)}")


class Reporting:
    """Takes the place of a rank's event writer, listens to its steps and evaluations, and has rank 0 tell them.

    The sums over ranks are asked for once every `log_every` steps and travel while the next step is computed.
    """

    def __init__(self, life: Life, control: Control, log_every: int, trackers: Trackers | None):
        self._life, self._events, self._control = life, life.events, control
        self._log_every, self._trackers = log_every, trackers
        self._sums, self._ms, self._latest = [0.0] * 3, 0.0, {}
        self._steps_per_epoch: float | None = None
        self._coming: tuple[int, Values, float, Callable[[], list[float]]] | None = None
        life.events = self

    def write(self, event: str, **fields: Any) -> None:
        """As `EventWriter.write`."""
        self._events.write(event, **fields)
        if event == "step":
            for place, name in enumerate(("loss_sum", "target_tokens", "tokens")):
                self._sums[place] += fields[name]
            self._ms += fields["step_time_ms"]
            self._latest = {"train/learning_rate": fields["learning_rate"], "train/grad_norm": fields["grad_norm"]}
        elif event == "plan":
            self._steps_per_epoch = fields["steps_per_epoch"]
        elif event == "evaluation":
            found = {"loss": fields["loss"], **fields["metrics"]}
            self._tell({f"eval/{name}": value for name, value in found.items()}, fields["step"])

    def step_done(self, step: int, meter: Meter, last: bool = False) -> None:
        """After each optimizer step; entered by all ranks."""
        self._arrived()
        if step % self._log_every == 0 or last:
            meter.flush()  # a machine may have another cadence of its own
            self._coming = (step, self._latest, self._ms, self._control.total_later(*self._sums))
            self._sums, self._ms = [0.0] * 3, 0.0
        if last:
            self._arrived()

    def close(self, limit_s: float = CLOSE_S) -> None:
        self._life.events = self._events
        if self._trackers is not None:
            self._trackers.close(limit_s)

    def _arrived(self) -> None:
        if self._coming is None:
            return
        (step, values, ms, totals), self._coming = self._coming, None
        loss_sum, targets, tokens = totals()
        if targets:
            values = {"train/loss": loss_sum / targets, **values}
        if ms:
            values = {**values, "train/tokens_per_s": tokens / ms * 1e3}
        if self._steps_per_epoch:
            values = {**values, "train/epoch": step / self._steps_per_epoch}
        self._tell(values, step)

    def _tell(self, values: dict[str, float | None], step: int) -> None:
        plain = {name: float(value) for name, value in values.items() if value is not None and math.isfinite(value)}
        if self._trackers is not None and plain:
            self._trackers.tell(plain, step)


def begin_reporting(preset: Preset, run: RunDir, life: Life, control: Control, rank: int, resume_step: int | None) -> Reporting | None:
    """The reporting of this rank; None when rank 0's preset names no tracker. Entered by all ranks."""
    wanted = control.gather(len(preset.tracking.to), preset.training.log_every)
    count, log_every = wanted[0]
    if not count:
        return None
    trackers = None
    if rank == 0:
        trackers = Trackers(_starts(preset, run, resume_step), lambda text: life.warn("tracking", text))
    return Reporting(life, control, log_every, trackers)


def _starts(preset: Preset, run: RunDir, resume_step: int | None) -> dict[str, Callable[[], Any]]:
    project = preset.tracking.project or preset.name
    name = preset.tracking.run_name or run.root.name
    # the same for all attempts of a run, and for no other run: a resumed run goes on in its own curve
    identity = f"{name}-{hashlib.sha256(str(run.root).encode()).hexdigest()[:8]}"
    options: dict[str, dict[str, Any]] = {
        "tensorboard": {"purge_step": None if resume_step is None else resume_step + 1},
        "wandb": {"name": name, "id": identity, "resume": "allow"},
        "mlflow": {"run_name": name},
        "trackio": {"name": identity, "resume": "allow"},
    }

    def make(kind: str) -> Any:
        from accelerate.tracking import LOGGER_TYPE_TO_CLASS

        made = LOGGER_TYPE_TO_CLASS[kind]
        place = [str(run.root / kind)] if made.requires_logging_directory else []
        tracker = made(project, *place, **options[kind])
        tracker.start()
        tracker.store_init_configuration(settings(preset))
        return tracker

    return {kind: lambda kind=kind: make(kind) for kind in dict.fromkeys(preset.tracking.to)}


def settings(preset: Preset) -> dict[str, str | int | float | bool]:
    """What a tracker is told of the preset: flat, plain, without addresses, environment or anything of the hub."""
    kept = preset.model_dump(include={"name": True, "task": True, "model": True, "data": True, "training": True,
                                      "distributed": {"backend", "strategy", "num_nodes", "num_processes_per_node",
                                                      "num_gpus_per_node", "communication"}})
    found: dict[str, Any] = {}

    def walk(value: Any, path: str) -> None:
        if isinstance(value, dict):
            for key, inner in value.items():
                walk(inner, f"{path}.{key}" if path else str(key))
        elif value is not None:
            found[path] = value if isinstance(value, str | int | float | bool) else str(value)

    walk(kept, "")
    return found


def _one_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
