"""The result: the final model in the run's folder."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import torch

from engine.checkpoint import disk_error
from engine.model import save_model
from engine.saved_state import trained
from engine.sharding import is_sharded, whole


def export_model(training: Any, tokenizer: Any) -> Path:
    """Write `model/` whole or not at all; entered by all ranks. Raises DiskError.

    Weights are saved in the number format the base model came in; a model made from a configuration keeps fp32.
    """
    run, accelerator, preset = training.life.run, training.accelerator, training.preset
    failure: Exception | None = None
    model = _whole_model(training, tokenizer)
    if accelerator.is_main_process:
        training.task.finish_model(model, training.data)
        partial = run.root / ".model.partial"
        try:
            shutil.rmtree(partial, ignore_errors=True)
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


def _whole_model(training: Any, tokenizer: Any) -> Any:
    """The trained model as one rank holds it; of a sharded one a copy in host memory on rank 0, None on the others."""
    model = training.accelerator.unwrap_model(training.model, keep_fp32_wrapper=False)
    if not is_sharded(model):
        return model
    copy, failure = None, None
    if training.accelerator.is_main_process:
        try:
            copy = training.task.build_model(training.preset, tokenizer, training.data)
        except Exception as error:
            failure = error
    if not training.control.all_ok(failure is None, long=True):
        raise failure or RuntimeError("rank 0 could not build the model to gather the shards in")
    targets = trained(copy) if copy is not None else {}
    with torch.no_grad():
        for name, value in trained(model).items():  # one at a time: no rank ever holds more than one gathered weight
            value = whole(value)
            if copy is not None:
                targets[name].copy_(value)
    return copy


def _original_dtype(model: Any, preset: Any) -> torch.dtype | None:
    if preset.model.path is None:
        return None
    # the configuration on disk, since the one in memory follows the weights as they were loaded for training
    from transformers import AutoConfig

    return getattr(AutoConfig.from_pretrained(preset.model.path, trust_remote_code=preset.model.trust_remote_code), "dtype", None)
