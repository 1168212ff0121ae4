"""What each rank writes while it trains: one JSON object a line in `ranks/rank-NNNNN.jsonl`.

Every record carries the stamp (`v`, `t_unix_s`, `t_mono_s`, `attempt`, `rank`, `seq`). Numbers that are not finite
are written as null, since JSON has no other word for them. Readers keep fields they do not know.
"""

from __future__ import annotations

import json
import math
import threading
import time
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict

VERSION = 1


class Event(BaseModel):
    """The stamp. `seq` counts from 0 in one attempt of one rank; `t_mono_s` is that rank's monotonic clock."""

    model_config = ConfigDict(extra="allow", protected_namespaces=())

    event: str
    v: int = VERSION
    t_unix_s: float
    t_mono_s: float
    attempt: int
    rank: int
    seq: int


class RunStarted(Event):
    event: Literal["run_started"] = "run_started"
    name: str
    task: str
    world_size: int
    versions: dict[str, str]
    resumed_from_step: int | None = None


class RankReady(Event):
    """What this rank asserted against the preset: these are facts, not wishes."""

    event: Literal["rank_ready"] = "rank_ready"
    world_size: int
    backend: str
    device: str
    strategy: str
    precision: str
    host: str
    pid: int
    create_time: float
    threads: int
    device_name: str | None = None


class Plan(Event):
    """The first rank of a run's folder, once model and data are known: all a reader needs for progress, ETA and MFU."""

    event: Literal["plan"] = "plan"
    total_steps: int
    steps_per_epoch: float
    global_batch: int
    micro_batch: int
    gradient_accumulation: int
    max_length: int
    packing: bool
    train_rows: int
    train_tokens: int
    valid_rows: int
    parameters: int
    trainable_parameters: int
    flops_per_token: float | None = None
    learning_rate: float
    log_every: int


class Phase(Event):
    """What the rank is doing, from now until its next phase. `progress` is 0 to 1, null where it cannot be known."""

    event: Literal["phase"] = "phase"
    name: str
    progress: float | None = None
    detail: str | None = None
    s_limit: float | None = None


class Step(Event):
    """One optimizer step of one rank. `step` counts completed steps from 1; the reader sums over ranks.

    `loss_sum` is the sum of the losses over this rank's targets, counted by `target_tokens` (a labelled text is one);
    `tokens` counts its non-padding inputs. Durations are milliseconds of this rank; `wait_ms` is null where it cannot be
    known. Of a person's own script all is null that it does not tell, a step may stand for several, and one rank may
    tell for all.
    """

    event: Literal["step"] = "step"
    step: int
    loss_sum: float | None
    target_tokens: int
    tokens: int | None
    samples: int | None
    learning_rate: float | None
    grad_norm: float | None
    step_time_ms: float | None
    data_ms: float | None = None
    compute_ms: float | None = None
    wait_ms: float | None = None
    optimizer_ms: float | None = None
    max_allocated_bytes: int | None = None
    total_steps: int | None = None


class Evaluation(Event):
    """The first rank of a run's folder: the result over all ranks after optimizer step `step`."""

    event: Literal["evaluation"] = "evaluation"
    step: int
    loss: float | None
    target_tokens: int
    duration_s: float
    metrics: dict[str, float | None] = {}


class Checkpoint(Event):
    event: Literal["checkpoint"] = "checkpoint"
    step: int
    path: str
    duration_s: float
    bytes: int


class Heartbeat(Event):
    """A thread of the rank is alive; says nothing about progress, which is `(phase, step)`."""

    event: Literal["heartbeat"] = "heartbeat"
    phase: str
    step: int
    s_in_phase: float


class Sample(Event):
    """Use of the machine: `host` from each node's first rank, `devices` from the rank that owns them."""

    event: Literal["sample"] = "sample"
    devices: list[dict[str, Any]] = []
    host: dict[str, Any] = {}


class Generation(Event):
    """Text that the model wrote, as a look at what it has learned."""

    event: Literal["generation"] = "generation"
    step: int
    prompt: str
    text: str


class Exported(Event):
    """Rank 0: the final model is on disk. `step` is the one its weights come from; `best` where they are the best
    checkpoint's and not the last step's, with the metric (`name` and `value`) it was chosen by."""

    event: Literal["exported"] = "exported"
    path: str
    step: int
    best: bool
    metric: str | None = None
    value: float | None = None


class Pushed(Event):
    """Rank 0: the final model is on the hub."""

    event: Literal["pushed"] = "pushed"
    repo: str
    url: str
    private: bool


class Warning_(Event):
    event: Literal["warning"] = "warning"
    kind: str
    message: str


class ExitReason(BaseModel):
    """Why a run or a rank ended. `message` is for people; `kind` is from a closed set."""

    model_config = ConfigDict(extra="forbid")

    kind: Literal[
        "completed", "early_stopped", "requested", "preset", "data", "model", "exception", "out_of_memory",
        "non_finite", "disk", "signal", "hung", "launch", "lost",
    ]
    rank: int | None = None
    step: int | None = None
    message: str = ""


class RunEnded(Event):
    """The last word of a rank that could still say one. `state`: finished | stopped | failed.

    `model_expected` is False where a finished run need not leave a model (a person's own script).
    """

    event: Literal["run_ended"] = "run_ended"
    state: Literal["finished", "stopped", "failed"]
    exit_reason: ExitReason
    step: int
    model_path: str | None = None
    model_expected: bool = True


AnyEvent = (RunStarted | RankReady | Plan | Phase | Step | Evaluation | Checkpoint | Heartbeat | Sample | Generation
            | Exported | Pushed | Warning_ | RunEnded)
EVENT_TYPES: dict[str, type[Event]] = {cls.model_fields["event"].default: cls for cls in get_args(AnyEvent)}


def finite(value: Any) -> Any:
    """`value` with every NaN and infinity, at any depth, replaced by None."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: finite(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(inner) for inner in value]
    return value


class EventWriter:
    """Appends one rank's events. A disk that is full loses events, never the training.

    Thread-safe: the heartbeat writes beside the loop. Each `write` is one `write(2)` of a whole line, so a reader
    sees at most one half line, at the end.
    """

    def __init__(self, path: Path, rank: int, attempt: int):
        self.rank, self.attempt, self.lost = rank, attempt, 0
        self._seq = 0
        self._half = False
        self._lock = threading.Lock()
        self._file = open(path, "ab", buffering=0)  # noqa: SIM115 (closed by close)
        if self._file.tell():  # a rank killed in the middle of a line must not spoil our first one
            with open(path, "rb") as reader:
                reader.seek(-1, 2)
                if reader.read(1) != b"\n":
                    self._file.write(b"\n")

    def write(self, event: str, **fields: Any) -> None:
        """Write one event; fields are those of its class in this module."""
        with self._lock:
            record = {"event": event, "v": VERSION, "t_unix_s": round(time.time(), 4),
                      "t_mono_s": round(time.monotonic(), 4), "attempt": self.attempt, "rank": self.rank,
                      "seq": self._seq, **fields}
            self._seq += 1
            line = (json.dumps(finite(record), ensure_ascii=False) + "\n").encode()
            if self._half:
                line = b"\n" + line
            try:
                # a disk takes what still fits: the rest of this line is lost, and must not spoil the next one
                self._half = self._file.write(line) < len(line)
            except OSError:
                self.lost += 1
            else:
                self.lost += self._half

    def close(self) -> None:
        self._file.close()


def parse_line(line: bytes | str) -> dict[str, Any] | None:
    """One line of an event file as a plain dict, or None when it is half-written or not an event.

    Plain dicts, since a monitor reads millions; `EVENT_TYPES` validates where that matters.
    """
    try:
        record = json.loads(line)
    except ValueError:
        return None
    if isinstance(record, dict) and isinstance(record.get("event"), str) and isinstance(record.get("rank"), int):
        return record
    return None
