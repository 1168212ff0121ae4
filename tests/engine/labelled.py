"""Labelled texts for tests, and presets that train on them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from engine.contract.preset import Preset
from engine.data.order import permutation
from tests.engine.trainings import tiny_preset

TINY_BERT = {"model_type": "bert", "vocab_size": 300, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
             "num_attention_heads": 2, "max_position_embeddings": 64, "hidden_dropout_prob": 0.0,
             "attention_probs_dropout_prob": 0.0}
_SAYS = {
    "praise": ("superb", "a delight", "moving and wise", "the best evening in years", "brilliant", "warmly recommended"),
    "blame": ("dreadful", "a bore", "clumsy and loud", "two hours I want back", "a failure", "best avoided"),
    "question": ("is it worth it?", "who wrote it?", "when does it start?", "are there seats left?", "how long is it?", "where is it?"),
}
_SUBJECTS = ("the film", "this play", "the new opera", "the concert", "her second novel", "the exhibition", "their third season")
_FILLERS = ("", "seen last night with friends", "in the old theatre by the river, after a long walk through the rain",
            "as the critics said")


def write_labelled(path: Path, rows: int = 120, first: int = 0) -> Path:
    """JSONL of `text` and `label`, the same each time: three classes in the shares 1/2, 1/4, 1/4, texts of uneven length.
    Rows from different `first` on are different."""
    lines = []
    for number in map(int, permutation(1200, 1, 0)[first: first + rows]):
        label = ("praise", "blame", "praise", "question")[number % 4]
        says = _SAYS[label][number // 4 % 6]
        text = f"{_SUBJECTS[number // 24 % 7]} {_FILLERS[number // 168 % 4]} {says}"
        lines.append(json.dumps({"text": " ".join(text.split()), "label": label}))
    path.write_text("\n".join(lines) + "\n")
    return path


def labelled_preset(data: Path, world: int, **overrides: Any) -> Preset:
    """A resolved preset: `world` CPU ranks, a tiny BERT, 6 steps of 8 texts."""
    values = {"task": "text-classification", "model": {"from_config": dict(TINY_BERT)},
              "data__max_length": 32, "data__packing": False} | overrides
    return tiny_preset(data, world, **values)
