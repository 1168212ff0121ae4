"""The model to train: loaded or made from a configuration, with its adapter, ready to be wrapped."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from engine.contract.preset import Preset
from engine.errors import ModelError

_DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}


@dataclass(frozen=True)
class Family:
    """What kind of model a task trains: the class that loads it, peft's word for it, and options of the loading."""

    auto_class: str
    peft_task: str
    options: dict[str, Any] = field(default_factory=dict)


CAUSAL_LM = Family("AutoModelForCausalLM", "CAUSAL_LM", {"attn_implementation": "sdpa"})


def build_model(preset: Preset, tokenizer: Any, family: Family = CAUSAL_LM, config_values: dict[str, Any] | None = None) -> Any:
    """The model for `preset`, trainable weights in fp32. `config_values`: what the task decides of the configuration.

    With an adapter the frozen base is held in the training precision; without one all weights are fp32 and the
    forward pass runs under autocast. New weights, such as those of a head that the model did not have, come from the
    seed. Raises ModelError.
    """
    import transformers

    auto = getattr(transformers, family.auto_class)
    choice = preset.model
    config = _config(preset, tokenizer)
    for name, value in (config_values or {}).items():
        setattr(config, name, value)
    torch.manual_seed(preset.training.seed)
    if choice.from_config is not None:
        known = {name: value for name, value in family.options.items() if name == "attn_implementation"}
        try:
            model = auto.from_config(config, dtype=torch.float32, **known)
        except ValueError as error:
            raise ModelError(f"model.from_config: {_first_line(error)}") from error
    else:
        dtype = _DTYPES[preset.training.precision] if choice.adapter else torch.float32
        options: dict[str, Any] = dict(family.options)
        options |= {"quantization_config": _quantization(preset)} if choice.quantization else {}
        try:
            model = auto.from_pretrained(
                choice.path, config=config, dtype=dtype, trust_remote_code=choice.trust_remote_code, **options)
        except (OSError, ValueError, RuntimeError) as error:
            raise ModelError(f"model.path: {choice.path} cannot be loaded: {_first_line(error)}") from error
        if len(tokenizer) > model.get_input_embeddings().num_embeddings:
            model.resize_token_embeddings(len(tokenizer))
    longest = _positions(model)
    if longest and preset.data.max_length > longest:
        raise ModelError(f"data.max_length: {preset.data.max_length} is longer than the {longest} positions of the model")
    model.config.use_cache = False
    if choice.adapter:
        model = _with_adapter(model, preset, family)
    if preset.training.gradient_checkpointing:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        if choice.adapter:
            model.enable_input_require_grads()
    return model


def _config(preset: Preset, tokenizer: Any) -> Any:
    from transformers import AutoConfig

    choice = preset.model
    try:
        if choice.path is not None:
            return AutoConfig.from_pretrained(choice.path, trust_remote_code=choice.trust_remote_code)
        if isinstance(choice.from_config, str):
            config = AutoConfig.from_pretrained(choice.from_config, trust_remote_code=choice.trust_remote_code)
        else:
            values = dict(choice.from_config)
            kind = values.pop("model_type", None)
            if kind is None:
                raise ModelError("model.from_config: no model_type; name the architecture, for example `model_type: llama`")
            config = AutoConfig.for_model(kind, **values)
    except (OSError, ValueError, KeyError) as error:
        where = "model.path" if choice.path is not None else "model.from_config"
        raise ModelError(f"{where}: no usable configuration: {_first_line(error)}") from error
    if config.vocab_size < len(tokenizer):
        raise ModelError(f"model.from_config: vocab_size {config.vocab_size} is smaller than the tokenizer's {len(tokenizer)}")
    for name in ("bos_token_id", "eos_token_id", "pad_token_id"):
        setattr(config, name, getattr(tokenizer, name))
    return config


def _positions(model: Any) -> int | None:
    """The longest input, in tokens; None where there is no limit. RoBERTa and its kin count positions from behind the
    number of the padding token, and have that many fewer than their table."""
    limit = getattr(model.config, "max_position_embeddings", None)
    table = next((part for name, part in model.named_modules() if name.endswith("position_embeddings")), None)
    skipped = getattr(table, "padding_idx", None)
    return limit if not limit or skipped is None else limit - skipped - 1


def _quantization(preset: Preset) -> Any:
    from transformers import BitsAndBytesConfig

    if preset.distributed.num_gpus_per_node == 0:
        raise ModelError("model.quantization: needs a GPU (bitsandbytes); leave it out on a CPU")
    if preset.model.adapter is None:
        raise ModelError("model.quantization: quantized weights cannot be trained; add model.adapter")
    if preset.model.quantization == "int8":
        return BitsAndBytesConfig(load_in_8bit=True)
    return BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True,
                              bnb_4bit_compute_dtype=_DTYPES[preset.training.precision])


def _with_adapter(model: Any, preset: Preset, family: Family) -> Any:
    from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training

    adapter = preset.model.adapter
    if preset.model.quantization:
        model = prepare_model_for_kbit_training(
            model, use_gradient_checkpointing=preset.training.gradient_checkpointing,
            gradient_checkpointing_kwargs={"use_reentrant": False})
    torch.manual_seed(preset.training.seed)
    config = LoraConfig(task_type=family.peft_task, r=adapter.r, lora_alpha=adapter.alpha, lora_dropout=adapter.dropout,
                        target_modules=adapter.target_modules, use_dora=adapter.type == "dora")
    try:
        model = get_peft_model(model, config)
    except ValueError as error:
        raise ModelError(f"model.adapter.target_modules: {_first_line(error)}") from error
    for weight in model.parameters():
        if weight.requires_grad:
            weight.data = weight.data.float()
    return model


def parameter_counts(model: Any) -> tuple[int, int]:
    """(all, trainable) parameters; shared weights count once."""
    weights = list(model.parameters())
    return sum(weight.numel() for weight in weights), sum(weight.numel() for weight in weights if weight.requires_grad)


def flops_per_token(model: Any, max_length: int) -> float | None:
    """FLOPs of one trained token, embeddings' look-up left out (a tied output matrix still multiplies)."""
    from engine.contract.flops import train_flops_per_token

    config = model.config
    total, _ = parameter_counts(model)
    embeddings = model.get_input_embeddings()
    if not getattr(config, "tie_word_embeddings", False):
        total -= embeddings.weight.numel()
    return train_flops_per_token(total, getattr(config, "num_hidden_layers", None), getattr(config, "hidden_size", None),
                                 max_length)


def save_model(model: Any, tokenizer: Any, folder: Path, merge: bool, dtype: torch.dtype | None) -> None:
    """Write the trained model so that transformers (or peft, for an unmerged adapter) loads it from `folder`.

    `dtype`: the number format to save weights in, None for the one they have.
    """
    if merge and hasattr(model, "merge_and_unload"):
        model = model.merge_and_unload()
    if dtype is not None:
        model = model.to(dtype)
    model.config.use_cache = True
    model.save_pretrained(folder)
    if hasattr(model, "peft_config") and getattr(model.config, "problem_type", None):
        # no file of an adapter has the names of the classes, and with a config.json it would be taken for a whole model
        names = [model.config.id2label[number] for number in sorted(model.config.id2label)]
        (folder / "classes.json").write_text(json.dumps(names, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    tokenizer.save_pretrained(folder)


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
