"""Which evaluation was the best so far, and making its weights the result."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.loop import Training

#: Metrics that are better when they are smaller; any other is better when it is larger.
_SMALLER = frozenset({"loss", "perplexity", "mse", "rmse", "mae", "error", "wer", "cer"})


def note(training: Training, loss: float, metrics: dict[str, float | None]) -> bool:
    """Remember the evaluation at the present step if it is the best so far; whether it is. The same on all ranks."""
    progress, wanted = training.progress, training.preset.checkpoints.metric
    name = wanted.removeprefix("eval_")
    value = {"loss": loss, **metrics}.get(name)
    if value is None:
        if progress.best_step is None and training.accelerator.is_main_process:
            known = ", ".join(f"eval_{key}" for key in ("loss", *metrics))
            training.life.warn("best", f"checkpoints.metric: there is no {wanted} here ({known}); eval_loss decides what is best")
        name, value = "loss", loss
    before = progress.best_value
    if before is not None and not (value < before if name in _SMALLER else value > before):
        return False
    progress.best_step, progress.best_value, progress.best_metric = progress.step, value, f"eval_{name}"
    return True


def load_best(training: Training) -> int:
    """At the end of a training that keeps the best checkpoint: have its weights; entered by all ranks.

    Returns the step that the weights are of. Where the checkpoint is gone the last step's stay, and a warning says so.
    """
    progress, life = training.progress, training.life
    best = progress.best_step
    if not training.preset.checkpoints.keep_best or best in (None, progress.step):
        return progress.step
    if not training.control.all_ok(life.run.checkpoint(best).is_dir()):
        if training.accelerator.is_main_process:
            life.warn("best", f"the best checkpoint, of step {best}, is gone; the model is that of the last step, {progress.step}")
        return progress.step
    training.checkpointer.restore(best)
    return best


def tell(training: Training, step: int, path: Path) -> None:
    """Write `exported`: what the model in `path` is, with the weights of `step`; entered by rank 0 alone."""
    progress = training.progress
    chosen = training.preset.checkpoints.keep_best and step == progress.best_step
    training.life.events.write("exported", path=str(path), step=step, best=chosen, metric=progress.best_metric if chosen else None,
                               value=progress.best_value if chosen else None)
