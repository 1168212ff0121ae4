"""A run as its events tell it: a reducer over plain event dicts, with bounded memory."""

from __future__ import annotations

import math
import statistics
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from engine.contract.run_dir import ENDED, Status
from wizard.monitor.ranks import RankState
from wizard.monitor.schedule import Schedule
from wizard.monitor.series import Series
from wizard.monitor.throughput import Throughput

#: Steps that wait for slow or dead ranks; beyond this the oldest are given up.
_MOST_PENDING = 10_000
#: One life of the ranks: (attempt, restart within the attempt). A later life wins for each step.
Life = tuple[int, int]


@dataclass(slots=True)
class StepTotal:
    """One optimizer step over all ranks. `loss` is None when it is not finite, and where nobody told one."""

    step: int
    attempt: int
    t_unix_s: float
    loss: float | None
    tokens: int
    samples: int
    learning_rate: float | None
    grad_norm: float | None
    tokens_per_s: float | None = None
    samples_per_s: float | None = None
    has_loss: bool = True


@dataclass(slots=True)
class _Pending:
    ranks: set[int] = field(default_factory=set)
    loss_sums: list[float | None] = field(default_factory=list)
    target_tokens: int = 0
    tokens: int = 0
    samples: int = 0
    first: dict[str, Any] | None = None


class RunState:
    """Everything a watcher shows, from the events of all ranks and `status`. What was never told stays None."""

    def __init__(self) -> None:
        self.status: Status | None = None
        self.schedule = Schedule()
        self.name: str | None = None
        self.task: str | None = None
        self.world_size: int | None = None
        #: Ranks that write into this folder where other machines have theirs: sums and losses are then of these.
        self.ranks_here: range | None = None
        self.backend: str | None = None
        self.strategy: str | None = None
        self.precision: str | None = None
        self.plan: dict[str, Any] | None = None
        self.ranks: dict[int, RankState] = {}
        self.life: Life = (0, 0)
        self.resumed_from_step: int | None = None
        self.step = 0
        self.last_step: StepTotal | None = None
        self.throughput = Throughput()
        self.loss, self.eval_loss = Series(), Series()
        self.learning_rate, self.grad_norm = Series(), Series()
        #: In the throughput's unit a second.
        self.speed = Series()
        self.evaluation: dict[str, Any] | None = None
        self.checkpoint: dict[str, Any] | None = None
        self.evaluation_s, self.evaluations = 0.0, 0
        self.checkpoint_s, self.checkpoints = 0.0, 0
        self.generation: dict[str, Any] | None = None
        self.exported: dict[str, Any] | None = None
        self.pushed: dict[str, Any] | None = None
        self.warnings: deque[dict[str, Any]] = deque(maxlen=100)
        self.warnings_seen = 0
        self.lost_steps = 0
        self.unreadable = 0
        self.newer_version: int | None = None
        self._pending: dict[int, _Pending] = {}
        #: Ranks that tell steps at all, each with its newest: of a person's own script not all need to.
        self._tellers: dict[int, int] = {}
        self._told_total: int | None = None
        self._pauses: dict[int, float] = {}
        self._began = False
        self._clock_rank: int | None = None
        self._step_times: deque[float] = deque(maxlen=101)

    @property
    def attempt(self) -> int:
        return max(self.life[0], self.status.attempt if self.status else 0)

    @property
    def state(self) -> str:
        """The word of `status.json`; `starting` while there is none."""
        return self.status.state if self.status else "starting"

    @property
    def alive(self) -> bool:
        return self.state not in ENDED

    @property
    def total_steps(self) -> int | None:
        return self.plan.get("total_steps") if self.plan else self._told_total or self.schedule.max_steps

    @property
    def first_rank(self) -> int:
        """The rank that speaks for all that write here."""
        return self.ranks_here.start if self.ranks_here else 0

    def progress(self) -> float | None:
        """Share of the optimizer steps that all ranks completed."""
        return min(1.0, self.step / self.total_steps) if self.total_steps else None

    def epoch(self) -> float | None:
        """Passes over the training data so far."""
        per_epoch = self.plan.get("steps_per_epoch") if self.plan else None
        return self.step / per_epoch if per_epoch else None

    def median_step_s(self) -> float | None:
        """Median time of the last hundred steps."""
        return statistics.median(self._step_times) / 1000 if self._step_times else None

    def eta_s(self) -> float | None:
        """Seconds left: steps, and the evaluations and checkpoints between them at their mean time so far.

        None after the last step: how long it takes to write the model is not known.
        """
        per_step = self.throughput.s_per_step()
        if not self.total_steps or per_step is None or not self.alive or self.step >= self.total_steps:
            return None
        per_epoch = self.plan.get("steps_per_epoch") if self.plan else None
        left = max(0, self.total_steps - self.step) * per_step
        evaluations, checkpoints = self.schedule.left(self.step, self.total_steps, per_epoch, left)
        if self.evaluations:
            left += evaluations * self.evaluation_s / self.evaluations
        if self.checkpoints:
            left += checkpoints * self.checkpoint_s / self.checkpoints
        return left

    def elapsed_s(self, now_s: float) -> float | None:
        """Seconds since the launch, until the end where there was one (or the last sign of a run that is lost)."""
        if self.status is None:
            return None
        end = now_s
        if not self.alive:
            end = self.status.ended_unix_s or max((rank.last_seen_s or 0 for rank in self.ranks.values()), default=0)
        return max(0.0, end - self.status.started_unix_s)

    def apply(self, event: dict[str, Any], life: Life | None = None) -> StepTotal | None:
        """Take in one event; returns the step that it completed over all ranks, if it did.

        `life` says to which start of the ranks the event belongs (by default the first of its attempt). Events of
        an earlier life than the newest are ignored. Unknown events and fields are no error.
        """
        life = life or (event.get("attempt", 0), 0)
        if life < self.life:
            return None
        if life > self.life:
            self._new_life(life)
        rank = self.ranks.get(event["rank"])
        if rank is None:
            rank = self.ranks[event["rank"]] = RankState(event["rank"])
        rank.apply(event)
        handler = getattr(self, f"_on_{event['event']}", None)
        return handler(event) if handler is not None else None

    def _new_life(self, life: Life) -> None:
        self.life = life
        self.resumed_from_step = None
        self._pending.clear()
        self._tellers.clear()
        self._pauses.clear()
        self._began = False
        self._clock_rank = None
        for rank in self.ranks.values():
            rank.restart()

    def _go_back(self, step: int) -> None:
        """The new life starts with `step`: what an earlier one did from there on no longer counts."""
        for series in (self.loss, self.learning_rate, self.grad_norm, self.speed):
            series.truncate(step)
        self.eval_loss.truncate(step)
        if self.evaluation and self.evaluation.get("step", 0) >= step:
            self.evaluation = None

    def _on_run_started(self, event: dict[str, Any]) -> None:
        self.name, self.task = event.get("name") or self.name, event.get("task") or self.task
        self.world_size = event.get("world_size") or self.world_size
        self.resumed_from_step = event.get("resumed_from_step", self.resumed_from_step)

    def _on_rank_ready(self, event: dict[str, Any]) -> None:
        self.world_size = event.get("world_size") or self.world_size
        self.backend, self.strategy = event.get("backend"), event.get("strategy")
        self.precision = event.get("precision")

    def _on_plan(self, event: dict[str, Any]) -> None:
        self.plan = event

    def _on_phase(self, event: dict[str, Any]) -> None:
        # a script that goes on from a step of its own says which with the step itself
        if event.get("name") == "training" and not self._began and event["rank"] == self.first_rank and self.task != "script":
            self._begin(event["t_mono_s"], self.resumed_from_step or 0)

    def _begin(self, t: float, step: int) -> None:
        self._began = True
        self.step = step
        self._go_back(step + 1)
        self.throughput.begin(t, step)

    def _on_step(self, event: dict[str, Any]) -> StepTotal | None:
        step, rank = event.get("step"), event["rank"]
        if not isinstance(step, int):
            return None
        if self.task == "script":
            self._told_total = event.get("total_steps") or self._told_total
            self._tellers[rank] = max(step, self._tellers.get(rank, 0))
            if self._began and step <= self.step:
                return None
        pending = self._pending.setdefault(step, _Pending())
        if rank in pending.ranks:
            return None
        pending.ranks.add(rank)
        pending.loss_sums.append(event.get("loss_sum"))
        pending.target_tokens += event.get("target_tokens") or 0
        pending.tokens += event.get("tokens") or 0
        pending.samples += event.get("samples") or 0
        if pending.first is None or rank < pending.first["rank"]:
            pending.first = event
        if len(pending.ranks) >= (len(self.ranks_here) if self.ranks_here else self.world_size or 1):
            del self._pending[step]
            return self._complete(step, pending)
        if self.task == "script":
            return self._complete_told(step)
        if len(self._pending) > _MOST_PENDING:
            del self._pending[next(iter(self._pending))]
            self.lost_steps += 1
        return None

    def _complete_told(self, before: int | None = None) -> StepTotal | None:
        """Complete the steps before `before` (all without it) that every rank which tells steps has told or passed.

        A script may tell on one rank for all, so only a later step shows that nobody else has a word on this one.
        """
        total = None
        for step in sorted(self._pending):
            if before is not None and (step >= before or min(self._tellers.values()) < step):
                break
            total = self._complete(step, self._pending.pop(step))
        return total

    def _on_run_ended(self, event: dict[str, Any]) -> StepTotal | None:
        ended = all(rank.ended is not None for rank in self.ranks.values())
        return self._complete_told() if self.task == "script" and ended else None

    def _complete(self, step: int, pending: _Pending) -> StepTotal:
        first = pending.first
        if not self._began:
            self._begin(first["t_mono_s"] - (first.get("step_time_ms") or 0) / 1000, step - 1)
        has_loss = pending.target_tokens > 0
        finite = has_loss and None not in pending.loss_sums
        # an exact sum does not depend on which rank was read first, so the same run always gives the same digits
        loss = math.fsum(pending.loss_sums) / pending.target_tokens if finite else None
        excluded = sum(self._pauses.pop(at) for at in [at for at in self._pauses if at < step])
        unit = self.throughput.unit
        point = self.throughput.add(first["t_mono_s"], step, pending.tokens, pending.samples, excluded)
        if self.throughput.unit != unit:
            self.speed = Series()
        if point is not None:
            self.speed.add(*point)
        self.step = max(self.step, step)
        if has_loss:
            self.loss.add(step, loss)
        self.learning_rate.add(step, first.get("learning_rate"))
        self.grad_norm.add(step, first.get("grad_norm"))
        if isinstance(first.get("step_time_ms"), (int, float)):
            self._step_times.append(first["step_time_ms"])
        self.last_step = StepTotal(step, first.get("attempt", 0), first["t_unix_s"], loss, pending.tokens,
                                   pending.samples, first.get("learning_rate"), first.get("grad_norm"),
                                   self.throughput.tokens_per_s_now(), self.throughput.samples_per_s_now(), has_loss)
        return self.last_step

    def _on_evaluation(self, event: dict[str, Any]) -> None:
        self.evaluation = event
        if told_loss(event):
            self.eval_loss.add(event.get("step", 0), event.get("loss"))
        self.evaluations += 1
        self.evaluation_s += event.get("duration_s") or 0.0
        self._pause(event)

    def _on_checkpoint(self, event: dict[str, Any]) -> None:
        self.checkpoint = event
        self.checkpoints += 1
        self.checkpoint_s += event.get("duration_s") or 0.0
        self._pause(event)

    def _pause(self, event: dict[str, Any]) -> None:
        step = event.get("step", 0)
        self._pauses[step] = self._pauses.get(step, 0.0) + (event.get("duration_s") or 0.0)

    def _on_exported(self, event: dict[str, Any]) -> None:
        self.exported = event

    def _on_pushed(self, event: dict[str, Any]) -> None:
        self.pushed = event

    def _on_generation(self, event: dict[str, Any]) -> None:
        self.generation = event

    def _on_warning(self, event: dict[str, Any]) -> None:
        self.warnings.append(event)
        self.warnings_seen += 1


def told_loss(evaluation: dict[str, Any]) -> bool:
    """Whether an evaluation has a loss at all; of one over targets null means that it was not finite."""
    return evaluation.get("loss") is not None or bool(evaluation.get("target_tokens"))
