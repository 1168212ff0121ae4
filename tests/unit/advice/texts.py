"""Machines as text, each with what a right answer holds, and the comparison of an answer with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from tests.unit.advice.machines import model
from wizard.advice.described import needs_of
from wizard.advice.recommend import Recommendation, recommend
from wizard.hardware.reading.read import read_text
from wizard.questions.needs import TrainingNeeds

FOLDER = Path(__file__).resolve().parents[2] / "recorded"


def entries(name: str) -> dict[str, dict[str, Any]]:
    return {entry["id"]: entry for entry in yaml.safe_load((FOLDER / f"{name}.yaml").read_text())}


def advise_text(text: str, config: dict[str, Any] | None = None, **needs: Any) -> Recommendation:
    reading = read_text(text)
    return recommend(
        reading.inventory, needs_of(reading, TrainingNeeds(**needs)), model(config) if config else None
    )


def answer_of(advice: Recommendation) -> dict[str, Any]:
    """The part of an answer that an `expect` block speaks of."""
    values = {name: decision.value for name, decision in advice.decisions.items()}
    devices = values["devices"]
    return {
        "backend": values["backend"],
        "devices": "cpu" if devices["count"] == 0 else "all" if devices["count"] is None else devices["count"],
        "listed": len(devices["indices"]),
        "indices": devices["indices"],
        "precision": values["precision"],
        "env": values["env"],
        "findings": {finding.category for finding in advice.findings},
        "processes": values["processes"],
        "nodes": advice.num_nodes,
    }


def mistakes(expect: dict[str, Any], answer: dict[str, Any]) -> list[str]:
    """Where an answer differs from what must hold; empty for a right one."""
    wrong = []
    for key in ("backend", "precision", "indices", "processes", "nodes"):
        if key in expect and answer[key] != expect[key]:
            wrong.append(f"{key}: {answer[key]}, not {expect[key]}")
    wanted = expect.get("devices")
    if wanted == "all":
        if answer["devices"] == "cpu":
            wrong.append("devices: cpu, not all")
    elif wanted is not None and answer["devices"] != wanted:
        wrong.append(f"devices: {answer['devices']}, not {wanted}")
    for variable in expect.get("env_must", []):
        name, _, value = variable.partition("=")
        if name not in answer["env"] or (value and answer["env"][name] != value):
            wrong.append(f"env lacks {variable}: {answer['env']}")
    for variable in expect.get("env_must_not", []):
        name, _, value = variable.partition("=")
        if name in answer["env"] and (not value or answer["env"][name] == value):
            wrong.append(f"env has {variable}")
    wrong += [f"no finding {name}" for name in expect.get("findings", []) if name not in answer["findings"]]
    wrong += [f"finding {name}" for name in expect.get("findings_not", []) if name in answer["findings"]]
    if expect.get("findings") == [] and answer["findings"]:
        wrong.append(f"findings {sorted(answer['findings'])}, not none")
    return wrong
