"""What can be advised for a person's own script: where and how many ranks run. What it trains is its own."""

from __future__ import annotations

from typing import Any

from engine.contract.findings import Decision
from wizard.advice.reasons import asked
from wizard.questions.needs import TrainingNeeds

_OWN = {
    "precision": "the script's own choice; accelerate is told none",
    "batch": "the script's own choice",
    "memory": "not known: what a script trains is its own",
    "speed": "not known: what a script trains is its own",
    "gradient_checkpointing": "the script's own choice",
    "max_length": "the script's own choice",
    "packing": "the script's own choice",
    "learning_rate": "the script's own choice",
}
#: Preset sections of which a script reads nothing.
_SECTIONS = ("data.", "training.")


def script_decisions(decisions: dict[str, Decision], needs: TrainingNeeds) -> dict[str, Decision]:
    """The decisions with those that are not ours to make left open, their value None."""
    found = dict(decisions)
    for name, reason in _OWN.items():
        if name == "precision" and asked(needs.precision):
            continue
        found[name] = Decision(value=None, reason=reason, confidence="high" if "own choice" in reason else "low")
    strategy = decisions["strategy"]
    if not asked(needs.strategy) and strategy.value != "single":
        found["strategy"] = Decision(value="ddp", confidence="high",
                                     reason="each rank runs the script, which joins them by itself (accelerate, torch.distributed)")
    return found


def script_settings(settings: dict[str, Any], needs: TrainingNeeds) -> dict[str, Any]:
    """Only what the launch itself needs; fp32 is how accelerate is told no precision."""
    found = {key: value for key, value in settings.items() if not key.startswith(_SECTIONS)}
    if not asked(needs.strategy) and found["distributed.strategy"] != "single":
        found["distributed.strategy"] = "ddp"
    return {**found, "training.precision": needs.precision if asked(needs.precision) else "fp32"}


def script_unknown(unknown: list[str]) -> list[str]:
    """What is not known, without the model and the data that nobody can name."""
    return [text for text in unknown if not text.startswith(("model", "data"))]
