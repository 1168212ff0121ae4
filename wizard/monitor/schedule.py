"""Which evaluations and checkpoints are still to come, from the resolved preset."""

from __future__ import annotations

from dataclasses import dataclass

from engine.contract.preset import Preset


@dataclass(frozen=True)
class Schedule:
    """Cadences of a run, and where it was planned to run. The end of the training brings one evaluation and one checkpoint of its own."""

    eval_every: int | str = "never"
    checkpoint_every_steps: int | None = None
    checkpoint_every_s: float | None = None
    log_every: int = 10
    on_cpu: bool = False
    max_steps: int | None = None

    @classmethod
    def from_preset(cls, preset: Preset) -> Schedule:
        minutes = preset.checkpoints.every_minutes
        has_valid = preset.data.valid is not None
        return cls(preset.training.eval_every if has_valid else "never", preset.checkpoints.every_steps,
                   minutes * 60 if minutes else None, preset.training.log_every,
                   preset.distributed.num_gpus_per_node == 0, preset.training.max_steps)

    def left(self, step: int, total: int, steps_per_epoch: float | None, s_left: float) -> tuple[int, int]:
        """(evaluations, checkpoints) after `step`, with `s_left` seconds of training to go."""
        if step >= total:
            return 0, 0
        evaluations = 0 if self.eval_every == "never" else self._crossed(self.eval_every, step, total, steps_per_epoch)
        checkpoints = 1
        if self.checkpoint_every_steps:
            checkpoints = self._crossed(self.checkpoint_every_steps, step, total, None)
        elif self.checkpoint_every_s:
            checkpoints = 1 + int(s_left // self.checkpoint_every_s)
        return evaluations, checkpoints

    @staticmethod
    def _crossed(every: int | str, step: int, total: int, steps_per_epoch: float | None) -> int:
        """How often a cadence comes in (step, total], the end always counted."""
        period = steps_per_epoch if every == "epoch" else every
        if not isinstance(period, (int, float)) or period <= 0:
            return 1
        return int(total // period) - int(step // period) + (1 if total % period else 0)
