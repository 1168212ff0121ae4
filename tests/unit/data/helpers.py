"""Presets and data files for the tests of the data rooms."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from engine.contract.preset import Preset
from engine.data.prepare import prepare_llm_data
from engine.data.store import LlmData, open_llm_data

TINY = {"model_type": "llama", "vocab_size": 400, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 512}


def preset(train: Path | str, task: str = "llm-pretrain", model: dict[str, Any] | None = None,
           training: dict[str, Any] | None = None, **data: Any) -> Preset:
    return Preset.model_validate({
        "name": "test", "task": task, "model": model or {"from_config": dict(TINY)},
        "data": {"train": str(train), "max_length": 64, "packing": True, **data},
        "training": {"global_batch": 1, "micro_batch": 1, **(training or {})}})


def prepared(folder: Path, *args: Any, **kwargs: Any) -> LlmData:
    prepare_llm_data(preset(*args, **kwargs), folder, lambda detail, share: None)
    return open_llm_data(folder)


def write_jsonl(path: Path, rows: list[Any]) -> Path:
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows), encoding="utf-8")
    return path


def sentences(count: int, words: int = 12) -> list[dict[str, str]]:
    """Rows of different text and length, always the same."""
    vocabulary = ("the", "a", "of", "ring", "node", "rank", "gradient", "bucket", "tensor", "loss", "token", "learns",
                  "waits", "sends", "sums", "over", "under")
    return [{"text": " ".join(vocabulary[(i * 7 + j * j + j) % len(vocabulary)] for j in range(3 + (i * 5) % words))
             + f" {i}."} for i in range(count)]


def talk(*turns: str, system: str | None = None) -> list[dict[str, str]]:
    """Messages of user and assistant in turn."""
    messages = [{"role": ("user", "assistant")[at % 2], "content": text} for at, text in enumerate(turns)]
    return [{"role": "system", "content": system}, *messages] if system else messages
