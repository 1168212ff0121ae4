"""Beginning from a preset, or from values given with --set."""

from __future__ import annotations

import pytest

from engine.contract.load import dump_preset, load_preset, parse_preset, preset_from_data
from engine.contract.problems import PresetError
from tests.unit.questions.machines import cpu_machine, flow, gpu_machine, keys
from wizard import session
from wizard.errors import InvalidError

PRESET = """\
# a comment that a person wrote
version: 1
name: mine
task: llm-sft
model:
  path: owner/name   # the base
  adapter: {type: lora, r: 8}
data:
  train: rows.jsonl
  columns: {messages: talk}
training:
  epochs: 2
  learning_rate: 1e-4
  warmup_ratio: 0.1
checkpoints:
  every_minutes: 5
"""


@pytest.fixture
def opened(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").write_text(PRESET)
    return session.new_flow(cpu_machine(), tmp_path / "mine.yaml")[0]


def test_a_preset_that_is_opened_and_not_changed_stays_as_it_is(opened, tmp_path):
    assert opened.preset_text() == PRESET
    assert preset_from_data(opened.preset_data()) == load_preset(tmp_path / "mine.yaml")
    assert opened.answer("training.length").origin == "preset"
    assert opened.answer("model.adapter.type").value == "lora"


def test_changes_keep_the_comments(opened):
    opened.set("training.learning_rate", 2e-4)
    text = opened.preset_text()
    assert "# a comment that a person wrote" in text and "path: owner/name   # the base" in text
    assert parse_preset(text).training.learning_rate == 2e-4
    assert parse_preset(text).model.adapter.r == 8


def test_what_is_taken_out_is_gone(opened):
    opened.choose("model.adapter.type", "none")
    opened.set("training.length", ("steps", 10))
    preset = parse_preset(opened.preset_text())
    assert preset.model.adapter is None
    assert (preset.training.max_steps, preset.training.epochs) == (10, None)
    assert preset.checkpoints.every_minutes == 5 and preset.training.warmup_ratio == 0.1


def test_every_shipped_preset_can_be_opened_and_means_the_same():
    from wizard.presets.find import list_presets

    for found in list_presets():
        if found.origin == "shipped":
            preset = load_preset(found.path)
            # what a preset says of GPUs is kept where there are some
            gpus = preset.distributed.num_gpus_per_node
            asked, _ = session.new_flow(gpu_machine(gpus) if isinstance(gpus, int) and gpus else cpu_machine(), found.path)
            assert dump_preset(parse_preset(asked.preset_text())) == dump_preset(preset), found.path


def test_a_preset_that_cannot_be_used_says_all_of_it(tmp_path):
    (tmp_path / "bad.yaml").write_text("version: 1\nname: x y\ntask: llm-what\nmodell: {}\n")
    with pytest.raises(PresetError) as caught:
        session.new_flow(cpu_machine(), tmp_path / "bad.yaml")
    assert len(caught.value.problems) >= 3
    with pytest.raises(InvalidError, match="no such preset"):
        session.new_flow(cpu_machine(), "no-such")


def test_values_given_with_set_are_ones_own_and_displace_the_starters():
    asked = flow(preset={"model.path": "owner/name", "training.max_steps": 20}, opened=False)
    assert asked.answer("model.source").value == "path" and "model.path" in keys(asked)
    assert asked.answer("training.length").value == ("steps", 20)
    assert "warmup_steps" not in asked.preset_data()["training"]
    asked = flow(preset={"training.warmup_ratio": 0.2, "training.seed": 7}, opened=False)
    training = asked.preset_data()["training"]
    assert training["warmup_ratio"] == 0.2 and "warmup_steps" not in training and training["seed"] == 7


def test_relative_paths_still_lead_there_when_saved_elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.txt").write_text("some words\n" * 20)
    (tmp_path / "elsewhere").mkdir()
    asked, base = session.new_flow(cpu_machine())
    asked.set("data.train", "./texts")
    here = parse_preset(session.finished(asked, base, tmp_path))
    there = parse_preset(session.finished(asked, base, tmp_path / "elsewhere"))
    assert here.data.train == "./texts"
    assert there.data.train == str(tmp_path / "texts")
