"""`recommend`: what would be chosen for a machine and a training, and why."""

from __future__ import annotations

import argparse
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wizard.advice.recommend import Recommendation

HELP = "say how to train here, and why: backend, strategy, precision, batch, ..."


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("preset", nargs="?", help="a preset: a file, or the name of a shipped or saved one; without it a plain fine-tune is assumed")
    parser.add_argument("--inventory", metavar="FILE", help="decide for another machine: what `probe --json` printed there")
    parser.add_argument("--set", dest="overrides", metavar="KEY=VALUE", action="append", default=[], help="a preset value to assume, as in `run`")
    parser.add_argument("--json", action="store_true", help="print decisions, findings and what is unknown")


def run(args: argparse.Namespace) -> int:
    import json

    from wizard.advice.recommend import recommend
    from wizard.errors import UsageError
    from wizard.hardware.inventory import load_inventory
    from wizard.hardware.probe import read_inventory

    try:
        inventory = load_inventory(args.inventory) if args.inventory else read_inventory()
    except ValueError as error:
        raise UsageError(str(error), "`autotrain-wizard probe --json > FILE` writes an inventory") from None
    needs, model, data = _wishes(args.preset, _overrides(args.overrides))
    recommendation = recommend(inventory, needs, model, data)
    if args.json:
        print(json.dumps(recommendation.public(), indent=2, ensure_ascii=False))
    else:
        print(_text(recommendation))
    return 0


def _wishes(preset_ref: str | None, overrides: dict[str, Any]):
    """(needs, model facts, data facts); the latter are None where no preset names a model or data."""
    from engine.contract.load import load_preset
    from wizard.facts.data import read_data_facts
    from wizard.facts.model import read_model_facts
    from wizard.questions.needs import TrainingNeeds

    if preset_ref is None:
        base = Path.cwd()
        needs = TrainingNeeds.from_answers({"task": "llm-sft", **overrides})
        model = overrides.get("model.path"), overrides.get("model.from_config")
        train = overrides.get("data.train")
    else:
        from wizard.presets.find import find_preset

        path, base = find_preset(preset_ref)
        preset = load_preset(path, overrides)
        needs, model, train = TrainingNeeds.from_preset(preset), (preset.model.path, preset.model.from_config), preset.data.train
    facts = read_model_facts(*model, base) if any(model) else None
    return needs, facts, read_data_facts(train, base) if train else None


def _overrides(texts: list[str]) -> dict[str, Any]:
    from engine.contract.yaml_text import parse_scalar
    from wizard.errors import UsageError

    values = {}
    for text in texts:
        key, sign, value = text.partition("=")
        if not sign or not key:
            raise UsageError(f"--set {text}: expected KEY=VALUE", "for example --set distributed.num_gpus_per_node=2")
        values[key.strip()] = parse_scalar(value)
    return values


def _text(recommendation: Recommendation) -> str:
    from wizard.advice.words import TITLES, value_text

    lines = [f"{'':<13}{'':<22}{'why':<52}sure"]
    for name, title in TITLES.items():
        decision = recommendation.decisions[name]
        reason = textwrap.wrap(decision.reason, 62) or [""]
        lines.append(f"{title:<13}{value_text(name, decision):<22}{reason[0]:<64}{decision.confidence}")
        lines += [f"{'':<35}{line}" for line in reason[1:]]
        if decision.alternative is not None:
            lines += [f"{'':<35}{line}" for line in textwrap.wrap(f"else {_plain(decision.alternative.value)}: if {decision.alternative.when}", 62)]
    for finding in recommendation.findings:
        lines += ["", f"{finding.confidence}: {finding.summary}"]
        lines += [f"  seen   {item.text}" for item in finding.evidence]
        lines += [f"  do     {step}" for step in finding.fix]
    if recommendation.unknown:
        lines += ["", "not known"] + [f"  {text}" for text in recommendation.unknown]
    return "\n".join(lines)


def _plain(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:g}" if isinstance(value, float) else str(value)
