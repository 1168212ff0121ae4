"""What a training script of one's own can tell, so that it is watched like any other training.

    from engine.report import step
    ...
    step(loss=loss.item(), tokens=batch["input_ids"].numel())

Outside of a run nothing here does anything, so the script still works by itself.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

#: Set by `engine.script` for the time of a run.
_teller: Any = None


def step(loss: float | None = None, *, tokens: int | None = None, samples: int | None = None,
         learning_rate: float | None = None, grad_norm: float | None = None, at: int | None = None,
         total: int | None = None) -> None:
    """An optimizer step is done. Call it on every rank, or on one for all of them.

    `loss` is the mean of this rank's step (a float: `loss.item()`); means of several ranks are weighted by `tokens`, else
    `samples`. `tokens` and `samples` are this rank's since its call before. `at` is the number of the step (from 1; it
    counts by itself), `total` how many there will be.
    """
    if _teller is not None:
        _teller.step(loss, tokens, samples, learning_rate, grad_norm, at, total)


def evaluation(loss: float | None = None, **metrics: float) -> None:
    """An evaluation after the last step gave this. Call it on one rank."""
    if _teller is not None:
        _teller.evaluation(loss, metrics)


def stop_requested() -> bool:
    """Whether the run is to end now: save what is worth it, and leave the loop.

    Call it on every rank at the same place, for instance once a step: where torch.distributed is used the ranks agree, so
    that none waits for one that left, and all get the same answer. A script that never calls this gets SIGTERM instead.
    """
    return _teller is not None and _teller.stop_requested()


def model_folder() -> Path | None:
    """Where the run looks for the trained model (the folder is the script's to make); None outside of a run."""
    return None if _teller is None else _teller.model_folder


def trainer_callback() -> Any:
    """For transformers' Trainer, which then tells its steps and evaluations, and saves and stops when asked to:

        Trainer(..., callbacks=[trainer_callback()])
    """
    from transformers import TrainerCallback

    class Tell(TrainerCallback):
        told = seen_tokens = 0

        def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **_: Any) -> None:
            logs = logs or {}
            if "loss" in logs:
                each = args.per_device_train_batch_size * args.gradient_accumulation_steps
                tokens = int(state.num_input_tokens_seen) - self.seen_tokens
                step(float(logs["loss"]), samples=each * (state.global_step - self.told), tokens=tokens or None,
                     learning_rate=logs.get("learning_rate"), grad_norm=logs.get("grad_norm"), at=state.global_step,
                     total=state.max_steps)
                self.told, self.seen_tokens = state.global_step, self.seen_tokens + tokens
            if "eval_loss" in logs and state.is_world_process_zero:
                evaluation(logs["eval_loss"], **{name.removeprefix("eval_"): value for name, value in logs.items()
                                                 if name.startswith("eval_") and name != "eval_loss"})

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if stop_requested():
                control.should_save = control.should_training_stop = True

    return Tell()
