"""`recommend`: what would be chosen for a machine and a training, and why."""

from __future__ import annotations

import argparse

# type checkers know the name; `typing` and `pathlib` would be a third of what `--help` waits for
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from wizard.advice.recommend import Recommendation

HELP = "say how to train here, and why: backend, strategy, precision, batch, ..."


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "preset",
        nargs="?",
        help="a preset: a file, or the name of a shipped or saved one; without it a plain fine-tune is assumed",
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--inventory",
        dest="inventories",
        metavar="FILE",
        action="append",
        default=[],
        help="decide for another machine: what `probe --json` printed there; once for each machine of a job on several",
    )
    where.add_argument(
        "--from-text",
        metavar="FILE",
        help="decide for a machine that text describes: nvidia-smi, topo -m, rocm-smi, ibstatus, lscpu, collect_env, "
        "plain words; - for standard input",
    )
    parser.add_argument(
        "--set",
        dest="overrides",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="a preset value to assume, as in `run`",
    )
    parser.add_argument("--json", action="store_true", help="print decisions, findings and what is unknown")


def run(args: argparse.Namespace) -> int:
    import json

    from wizard.advice.recommend import recommend
    from wizard.errors import UsageError
    from wizard.hardware.inventory import load_inventory
    from wizard.hardware.probe import read_inventory
    from wizard.launch.overrides import parse_settings

    settings, reading, others = parse_settings(args.overrides), None, []
    try:
        if args.from_text:
            from wizard.hardware.reading.source import read_machine_text

            reading = read_machine_text(args.from_text)
            inventory = reading.inventory
        elif args.inventories:
            inventory, *others = [load_inventory(path) for path in args.inventories]
        else:
            inventory = read_inventory()
    except ValueError as error:
        raise UsageError(str(error), "`autotrain-wizard probe --json > FILE` writes an inventory") from None
    needs, model, data = _wishes(args.preset, settings, elsewhere=bool(reading or args.inventories))
    if reading is not None:
        from wizard.advice.described import needs_of

        needs = needs_of(reading, needs)
    recommendation = recommend(inventory, needs, model, data, others)
    if args.json:
        print(json.dumps(recommendation.public(), indent=2, ensure_ascii=False))
    else:
        print(_text(recommendation))
    return 0


def _wishes(preset_ref: str | None, settings: dict[str, Any], elsewhere: bool):
    """(needs, model facts, data facts); facts are None where no model or data is named.

    `elsewhere`: the plan is for another machine, so what is not on this one may well be there.
    """
    from pathlib import Path

    from engine.contract.load import load_preset
    from wizard.facts.data import DataFacts, read_data_facts
    from wizard.facts.model import ModelFacts, read_model_facts
    from wizard.presets.find import find_preset
    from wizard.questions.needs import TrainingNeeds

    if preset_ref is None:
        base, needs = Path.cwd(), TrainingNeeds.from_preset(_assumed(settings))
        path, config, train = (settings.get(key) for key in ("model.path", "model.from_config", "data.train"))
    else:
        found = find_preset(preset_ref)
        preset, base = load_preset(found.path, settings), found.base
        needs, path, config, train = (
            TrainingNeeds.from_preset(preset),
            preset.model.path,
            preset.model.from_config,
            preset.data.train,
        )
    model = (
        _or_unknown(
            elsewhere,
            lambda: read_model_facts(path, config, base),
            lambda why: ModelFacts(source=str(path or config), found=False, unknown={"model": why}),
        )
        if path or config
        else None
    )
    data = (
        _or_unknown(
            elsewhere,
            lambda: read_data_facts(train, base),
            lambda why: DataFacts(source=train, found=False, unknown={"data": why}),
        )
        if train
        else None
    )
    return needs, model, data


def _assumed(settings: dict[str, Any]):
    """The settings as a preset, checked like one; what it must have and nobody named is filled in and not read."""
    from engine.contract.load import preset_from_data

    data: dict[str, Any] = {"version": 1, "name": "plan", "task": "llm-sft", "data": {"train": "builtin:python-docs"}}
    if settings.get("model.from_config") is None:
        data["model"] = {"path": "any/model"}
    return preset_from_data(data, overrides=settings)


def _or_unknown(elsewhere: bool, read, unknown):
    from wizard.errors import InvalidError

    try:
        return read()
    except InvalidError as error:
        if not elsewhere:
            raise
        return unknown(error.message)


def _text(recommendation: Recommendation) -> str:
    import textwrap

    from wizard.advice.words import TITLES, value_text

    lines = [f"{'':<35}{'why':<64}sure"]
    for name, title in TITLES.items():
        decision = recommendation.decisions[name]
        reason = textwrap.wrap(decision.reason, 62) or [""]
        lines.append(f"{title:<13}{value_text(name, decision):<22}{reason[0]:<64}{decision.confidence}")
        lines += [f"{'':<35}{line}" for line in reason[1:]]
        if decision.alternative is not None:
            lines += [
                f"{'':<35}{line}"
                for line in textwrap.wrap(
                    f"else {_plain(decision.alternative.value)}: if {decision.alternative.when}", 62
                )
            ]
    if recommendation.comparison is not None:
        from wizard.advice.comparison_words import lines as side_by_side

        lines += ["", *side_by_side(recommendation.comparison)]
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
