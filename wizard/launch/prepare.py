"""From a preset's name to everything a launch needs, or one clear error: nothing is started here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.contract.load import dump_preset, parse_preset, read_preset_text
from engine.contract.preset import Preset
from wizard.advice.recommend import Recommendation, hardware_summary, recommend
from wizard.advice.resolve import resolve
from wizard.facts.data import DataFacts, check_columns, read_data_facts
from wizard.facts.locate import absolute
from wizard.facts.model import ModelFacts, read_model_facts
from wizard.facts.script import check_script
from wizard.hardware.inventory import HardwareInventory
from wizard.hardware.probe import read_inventory
from wizard.launch.overrides import patched
from wizard.launch.rendezvous import numeric
from wizard.launch.supported import check_supported
from wizard.presets.find import find_preset
from wizard.questions.needs import TrainingNeeds


@dataclass(frozen=True)
class Prepared:
    """A preset as it would be launched here. `preset` is as given (plus --set), `resolved` has no `auto` left.

    Of a person's own script neither model nor data is known.
    """

    preset_text: str
    preset: Preset
    resolved: Preset
    inventory: HardwareInventory
    recommendation: Recommendation
    model: ModelFacts | None
    data: DataFacts | None
    base: Path


def prepare(preset_ref: str | Path | Preset, overrides: dict[str, Any] | None = None,
            base: Path | None = None) -> Prepared:
    """Find, load, check and resolve a preset on this machine.

    `overrides` are dotted keys; `base` is the folder that relative paths start from (by default the preset's own,
    or the current one for a shipped preset or a Preset object). Raises PresetError with every problem of the preset,
    InvalidError when preset, model or data cannot be found or used.
    """
    overrides = overrides or {}
    if isinstance(preset_ref, Preset):
        text, file, base = dump_preset(preset_ref), None, base or Path.cwd()
    else:
        found = find_preset(preset_ref)
        text, file, base = read_preset_text(found.path), str(found.path), base or found.base
    preset = parse_preset(text, file, overrides)
    check_supported(preset, file)
    return _prepared(patched(text, overrides), preset, absolute(preset, base), base)


def reprepare(text: str, preset: Preset) -> Prepared:
    """The same for a preset whose paths are absolute already (a run that is resumed)."""
    return _prepared(text, preset, preset, Path("/"))


def _prepared(text: str, preset: Preset, located: Preset, base: Path) -> Prepared:
    model, data = _facts(located, base)
    inventory = read_inventory()
    needs = TrainingNeeds.from_preset(located)
    if needs.main_address:  # the way to it is chosen by its number
        needs = needs.model_copy(update={"main_address": numeric(needs.main_address) or needs.main_address})
    recommendation = recommend(inventory, needs, model, data)
    # what a launch freezes says for which kind of machine it was decided, and why
    resolved = resolve(located, recommendation).model_copy(
        update={"hardware": hardware_summary(inventory), "why": recommendation.why()})
    return Prepared(text, preset, resolved, inventory, recommendation, model, data, base)


def _facts(located: Preset, base: Path) -> tuple[ModelFacts | None, DataFacts | None]:
    """What is known of model and data. Raises InvalidError when they, or the script, cannot be used."""
    if located.task == "script":
        check_script(Path(located.script.path or ""), Path(located.script.folder or "."))
        return None, None
    model = read_model_facts(located.model.path, located.model.from_config, base)
    data = read_data_facts(located.data.train, base)
    check_columns(located, data)
    if isinstance(located.data.valid, str):
        check_columns(located, read_data_facts(located.data.valid, base))
    return model, data
