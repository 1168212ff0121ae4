"""Recorded machines and typical models for the tests of the advice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from wizard.advice.recommend import Recommendation, recommend
from wizard.facts.model import ModelFacts, read_model_facts
from wizard.hardware.inventory import HardwareInventory, load_inventory
from wizard.questions.needs import TrainingNeeds

FOLDER = Path(__file__).resolve().parents[2] / "recorded" / "machines"
NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))

TINY = {
    "model_type": "llama",
    "vocab_size": 4096,
    "hidden_size": 192,
    "intermediate_size": 512,
    "num_hidden_layers": 4,
    "num_attention_heads": 6,
    "num_key_value_heads": 3,
    "max_position_embeddings": 512,
    "tie_word_embeddings": True,
}
SMALL = {
    "model_type": "llama",
    "vocab_size": 49152,
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": True,
}
SEVEN_B = {
    "model_type": "qwen2",
    "hidden_size": 3584,
    "intermediate_size": 18944,
    "num_hidden_layers": 28,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
    "vocab_size": 152064,
}


def machine(name: str) -> HardwareInventory:
    return load_inventory(FOLDER / f"{name}.json")


def model(config: dict[str, Any], from_scratch: bool = False) -> ModelFacts:
    return read_model_facts(None, config, Path(".")).model_copy(update={"from_scratch": from_scratch})


def advise(name: str, config: dict[str, Any] | None = SMALL, data=None, **needs: Any) -> Recommendation:
    facts = model(config) if config else None
    return recommend(machine(name), TrainingNeeds(**{"task": "llm-sft", **needs}), facts, data)


def values(advice: Recommendation) -> dict[str, Any]:
    return {name: decision.value for name, decision in advice.decisions.items()}


def categories(advice: Recommendation) -> set[str]:
    return {finding.category for finding in advice.findings}
