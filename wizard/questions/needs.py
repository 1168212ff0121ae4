"""What the person wants, as far as it matters for the advice; whatever they left open is `auto` or None."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict

from engine.contract.preset import Preset


class TrainingNeeds(BaseModel):
    """A lenient view of a preset, possibly unfinished: the questions fill it while the person still answers."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    task: str | None = None
    adapter: str | None = None
    adapter_r: int | None = None
    quantization: str | None = None
    from_scratch: bool = False
    max_length: int | str = "auto"
    packing: bool | str = "auto"
    global_batch: int | str = "auto"
    micro_batch: int | str = "auto"
    gradient_accumulation: int | str = "auto"
    optimizer: str = "adamw"
    learning_rate: float | str = "auto"
    precision: str = "auto"
    gradient_checkpointing: bool | str = "auto"
    backend: str = "auto"
    strategy: str = "auto"
    num_nodes: int = 1
    num_gpus_per_node: int | str = "auto"
    num_processes_per_node: int | str = "auto"
    threads_per_process: int | str = "auto"
    main_address: str | None = None
    network_interface: str | None = None
    bucket_mb: int | str = "auto"
    compression: str = "none"
    env: dict[str, str] = {}

    @classmethod
    def from_preset(cls, preset: Preset) -> TrainingNeeds:
        return cls.from_answers(flatten(preset.model_dump()))

    @classmethod
    def from_answers(cls, answers: Mapping[str, Any]) -> TrainingNeeds:
        """From dotted preset keys to needs; keys that are missing or None keep their default."""
        values = {field: answers[key] for key, field in PRESET_KEYS.items() if answers.get(key) is not None}
        values["from_scratch"] = answers.get("model.from_config") is not None
        return cls(**values)


#: The preset key behind each need.
PRESET_KEYS = {
    "task": "task", "model.adapter.type": "adapter", "model.adapter.r": "adapter_r",
    "model.quantization": "quantization", "data.max_length": "max_length", "data.packing": "packing",
    **{f"training.{name}": name for name in (
        "global_batch", "micro_batch", "gradient_accumulation", "optimizer", "learning_rate", "precision",
        "gradient_checkpointing")},
    **{f"distributed.{name}": name for name in (
        "backend", "strategy", "num_nodes", "num_gpus_per_node", "num_processes_per_node", "threads_per_process",
        "main_address", "network_interface", "env")},
    "distributed.communication.bucket_mb": "bucket_mb", "distributed.communication.compression": "compression",
}

#: Mappings that are values, not sections.
_VALUES = {"distributed.env", "distributed.deepspeed", "model.from_config", "data.columns", "hardware"}


def flatten(data: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested sections as dotted keys: `{"training": {"seed": 1}}` to `{"training.seed": 1}`."""
    flat: dict[str, Any] = {}
    for key, value in data.items():
        full = f"{prefix}{key}"
        if isinstance(value, Mapping) and full not in _VALUES:
            flat |= flatten(value, f"{full}.")
        else:
            flat[full] = value
    return flat


def nest(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Dotted keys back to nested sections; None is left out."""
    data: dict[str, Any] = {}
    for key, value in flat.items():
        if value is None:
            continue
        *sections, last = key.split(".")
        here = data
        for section in sections:
            here = here.setdefault(section, {})
        here[last] = value
    return data
