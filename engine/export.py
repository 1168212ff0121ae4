"""The result: the final model in the run's folder."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import torch

from engine.checkpoint import disk_error
from engine.model import save_model


def export_model(training: Any, tokenizer: Any) -> Path:
    """Write `model/` whole or not at all; entered by all ranks. Raises DiskError.

    Weights are saved in the number format the base model came in; a model made from a configuration keeps fp32.
    """
    run, accelerator, preset = training.life.run, training.accelerator, training.preset
    failure: Exception | None = None
    model = accelerator.unwrap_model(training.model, keep_fp32_wrapper=False)
    sharded = training.checkpointer.sharded
    weights = accelerator.get_state_dict(training.model) if sharded else None
    training.task.finish_model(model, training.data)
    if accelerator.is_main_process:
        partial = run.root / ".model.partial"
        try:
            shutil.rmtree(partial, ignore_errors=True)
            if sharded:
                model.save_pretrained(partial, state_dict=weights)
                tokenizer.save_pretrained(partial)
            else:
                merge = preset.model.adapter is not None and preset.model.adapter.merge
                save_model(model, tokenizer, partial, merge, _original_dtype(model, preset))
            if run.model.exists():
                shutil.rmtree(run.model)
            partial.rename(run.model)
        except Exception as error:
            shutil.rmtree(partial, ignore_errors=True)
            failure = disk_error(error, "the final model", run.root)
    if not training.control.all_ok(failure is None, long=True):
        raise failure or RuntimeError("rank 0 could not write the final model")
    return run.model


def _original_dtype(model: Any, preset: Any) -> torch.dtype | None:
    if preset.model.path is None:
        return None
    # the configuration on disk, since the one in memory follows the weights as they were loaded for training
    from transformers import AutoConfig

    return getattr(AutoConfig.from_pretrained(preset.model.path, trust_remote_code=preset.model.trust_remote_code), "dtype", None)
