"""The shipped presets: each loads, says what it is for, and resolves on a machine it is meant for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.contract.load import load_preset
from engine.contract.preset import Preset, unresolved
from engine.contract.run_dir import RunDir
from tests.unit.advice.machines import SMALL, machine
from wizard.advice.recommend import recommend
from wizard.advice.resolve import STAYS_AUTO, resolve
from wizard.commands.presets import _row
from wizard.facts.data import read_data_facts
from wizard.facts.locate import absolute
from wizard.facts.model import read_model_facts
from wizard.launch.command import launch_command
from wizard.launch.supported import check_supported
from wizard.paths import shipped_presets
from wizard.presets.find import list_presets
from wizard.questions.needs import TrainingNeeds

SHIPPED = sorted(shipped_presets().glob("*.yaml"))
#: What each is written for: (recorded machine, ranks of all its machines).
MACHINES = {
    "quickstart": ("cpu-2-cores", 2),
    "chat-lora-one-gpu": ("1x-rtx4090", 1),
    "full-finetune-gpus": ("8x-h100", 8),
    "continue-pretraining": ("4x-a100-nvlink", 4),
    "two-machines-ethernet": ("4x-v100-pcie", 8),
    "cpu-small": ("cpu-2-cores", 1),
    "classify-texts": ("cpu-2-cores", 1),
}


def names(preset: Path) -> str:
    return preset.stem


def test_each_has_a_machine_here():
    assert {path.stem for path in SHIPPED} == set(MACHINES)


@pytest.mark.parametrize("path", SHIPPED, ids=names)
def test_it_loads_and_its_first_line_says_what_it_is_for(path):
    check_supported(load_preset(path))
    first, second = path.read_text(encoding="utf-8").splitlines()[:2]
    assert first.startswith("# ") and second == "#"
    assert len(first) - 2 <= 70, "presets list cuts it there"
    found = next(each for each in list_presets() if each.path == path)
    assert _row(found)["about"] == first[2:]


@pytest.mark.parametrize("path", SHIPPED, ids=names)
def test_its_data_is_for_the_person_to_replace(path):
    preset = load_preset(path)
    assert preset.data.train.startswith(("./", "builtin:")), "a path relative to the current folder"


@pytest.mark.parametrize("path", SHIPPED, ids=names)
def test_it_resolves_on_the_machine_it_is_for(path, tmp_path):
    (tmp_path / "models" / "my-model").mkdir(parents=True)
    (tmp_path / "models" / "my-model" / "config.json").write_text(json.dumps(SMALL))
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "one.txt").write_text("A text.\n\n" * 200)
    row = {"messages": [{"role": "user", "content": "Which?"}, {"role": "assistant", "content": "This one."}]}
    (tmp_path / "dialogues.jsonl").write_text("".join(json.dumps(row) + "\n" for _ in range(200)))
    (tmp_path / "reviews.csv").write_text("text,label\n" + "Good.,yes\nBad.,no\n" * 100)
    name, ranks = MACHINES[path.stem]
    resolved = _resolved(absolute(load_preset(path), tmp_path), name, tmp_path)
    assert not [key for key in unresolved(resolved) if key not in STAYS_AUTO]
    how = resolved.distributed
    assert how.num_nodes * how.num_processes_per_node == ranks
    assert (how.strategy == "single") == (ranks == 1)
    for node_rank in range(how.num_nodes):
        assert launch_command(resolved, RunDir(tmp_path / "run"), 1, node_rank).local_ranks == ranks // how.num_nodes


def _resolved(preset: Preset, name: str, base: Path) -> Preset:
    model = read_model_facts(preset.model.path, preset.model.from_config, base)
    data = read_data_facts(preset.data.train, base)
    return resolve(preset, recommend(machine(name), TrainingNeeds.from_preset(preset), model, data))


def test_the_quickstart_is_the_first_of_the_shipped():
    assert [found.name for found in list_presets() if found.origin == "shipped"][0] == "quickstart"
