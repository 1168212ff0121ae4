"""Walking through the questions."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest

from engine.contract.load import load_preset, preset_from_data
from tests.unit.questions.machines import cpu_machine, flow, gpu_machine, keys
from wizard.paths import shipped_presets
from wizard.questions.question import Invalid


def test_all_defaults_on_an_empty_machine_are_the_quickstart():
    asked = flow()
    seen = [asked.question.key]
    while asked.next():
        seen.append(asked.question.key)
    assert seen == keys(asked) and seen[-1] == "name"
    assert preset_from_data(asked.preset_data()) == load_preset(shipped_presets() / "quickstart.yaml")


def test_defaults_on_gpus_are_left_to_the_machine_that_runs_them():
    asked = flow(gpu_machine(4))
    assert asked.answer("distributed.num_gpus_per_node").value == 4
    assert asked.answer("distributed.num_gpus_per_node").origin == "recommended"
    assert asked.answer("distributed.backend").value == "nccl"
    preset = preset_from_data(asked.preset_data())
    assert preset.distributed.backend == preset.distributed.num_gpus_per_node == preset.training.precision == "auto"
    assert preset.training.max_steps == 200


def test_an_answer_equal_to_the_default_goes_on_following_it():
    asked = flow(gpu_machine(4))
    asked.set("distributed.num_gpus_per_node", 2)
    assert asked.answer("distributed.num_gpus_per_node").origin == "yours"
    asked.set("distributed.num_gpus_per_node", 4)
    assert asked.answer("distributed.num_gpus_per_node").origin == "recommended"
    assert asked.answers == {}


def test_going_back_keeps_answers_and_so_does_hiding():
    asked = flow()
    asked.set("distributed.num_processes_per_node", 4)
    asked.choose("distributed.backend", "gloo")
    asked.set("training.global_batch", 32)
    while asked.back():
        pass
    assert asked.answer("training.global_batch").value == 32
    asked.choose("model.source", "path")
    asked.set("model.path", "owner/name")
    asked.choose("model.adapter.type", "dora")
    asked.choose("model.source", "written")
    assert "model.path" not in keys(asked) and "model" in asked.preset_data()
    assert "path" not in asked.preset_data()["model"] and "adapter" not in asked.preset_data()["model"]
    asked.choose("model.source", "path")
    assert asked.answer("model.path").value == "owner/name"
    assert asked.preset_data()["model"] == {"path": "owner/name", "adapter": {"type": "dora"}}


def test_position_stays_when_questions_before_it_come_and_go():
    asked = flow()
    asked.go_to("training.length")
    before, total = asked.position
    asked.choose("model.source", "path")
    assert asked.question.key == "training.length"
    assert asked.position == (before + 2, total + 2 - 1 + ("distributed.backend" in keys(asked)))


def test_a_model_of_ones_own_leaves_the_quickstart_behind():
    asked = flow()
    asked.choose("model.source", "path")
    asked.set("model.path", "owner/name")
    data = asked.preset_data()
    assert "warmup_steps" not in data.get("training", {}) and "checkpoints" not in data
    assert asked.answer("training.length").value == ("epochs", 1.0)
    assert asked.answer("training.learning_rate").origin in ("recommended", "default")


@pytest.mark.parametrize(("key", "text", "word"), [
    ("distributed.num_processes_per_node", "two", "whole number"),
    ("distributed.num_processes_per_node", "0", "from 1 to"),
    ("distributed.num_processes_per_node", "400", "cores"),
    ("data.train", "", "needed"),
    ("data.valid", "150 %", "share"),
    ("data.max_length", "4", "at least 8"),
    ("training.length", "200", "steps or epochs"),
    ("training.length", "0 steps", "Nothing"),
    ("training.length", "1.5 steps", "whole"),
    ("training.global_batch", "15", "14 or 16"),
    ("training.global_batch", "1e3", "whole number"),
    ("training.learning_rate", "fast", "not a number"),
    ("training.learning_rate", "nan", "above zero"),
    ("training.learning_rate", "3", "diverges"),
    ("name", "a/b", "cannot name a folder"),
    ("name", "..", "cannot name a folder"),
])
def test_what_cannot_be_meant_is_said_in_one_message(key, text, word):
    asked = flow()
    with pytest.raises(Invalid) as caught:
        asked.check(key, text)
    assert word in str(caught.value)
    assert asked.answers == {}


@pytest.mark.parametrize(("key", "text", "value"), [
    ("training.length", "1,000 steps", ("steps", 1000)), ("training.length", "0.5 epochs", ("epochs", 0.5)),
    ("training.length", "3 epochs", ("epochs", 3.0)), ("training.learning_rate", "3e-5", 3e-5),
    ("data.valid", "2 %", 0.02), ("data.valid", "none", None), ("data.valid", "./held-out.jsonl", "./held-out.jsonl"),
    ("data.max_length", "auto", "auto"), ("data.max_length", "2,048", 2048),
])
def test_what_people_write_is_understood(key, text, value):
    asked = flow()
    assert asked.check(key, text) == value
    asked.set(key, asked.check(key, text))
    preset_from_data(asked.preset_data())
    question = next(question for question in asked.asked if question.key == key)
    assert asked.check(key, question.text(value)) == value, "what is shown can be typed again"


def test_steps_and_epochs_never_stand_together():
    asked = flow()
    asked.set("training.length", ("epochs", 2.0))
    training = asked.preset_data()["training"]
    assert training["epochs"] == 2.0 and "max_steps" not in training


def test_what_is_impossible_says_why_and_changes_nothing():
    asked = flow()
    with pytest.raises(Invalid, match="needs a GPU"):
        asked.choose("distributed.backend", "nccl")
    assert asked.answer("distributed.backend").value == "gloo"


def test_an_answer_that_no_longer_fits_is_a_problem():
    asked = flow()
    asked.set("training.global_batch", 18)
    assert asked.problems() == []
    asked.set("distributed.num_processes_per_node", 4)
    assert [question.key for question, _ in asked.problems()] == ["training.global_batch"]
    asked.set("task", "llm-sft")
    assert {"model.path", "data.train"} <= {question.key for question, _ in asked.problems()}


def test_several_machines_ask_for_their_meeting_point():
    asked = flow(gpu_machine(4))
    asked.set("distributed.num_nodes", 2)
    assert {"distributed.main_address", "distributed.network_interface"} <= set(keys(asked))
    with pytest.raises(Invalid, match="this machine for everyone"):
        asked.check("distributed.main_address", "127.0.0.1")
    asked.set("distributed.main_address", "10.0.0.2")
    assert asked.preset_data()["distributed"]["main_address"] == "10.0.0.2"
    assert asked.recommendation.num_nodes == 2


def test_facts_count_only_for_what_they_were_read_of():
    asked = flow()
    assert set(asked.stale()) == {"model", "data"}
    asked.set("data.train", "rows.jsonl")
    facts = SimpleNamespace(columns=["a", "body_text"], roles={}, rows=10, kind="unknown", unknown={}, lengths=None,
                            found=True, source="rows.jsonl")
    asked.learn("data", "rows.jsonl", facts)
    assert asked.context.data is facts and "data" not in asked.stale()
    assert asked.answer("data.column").value == "body_text" and asked.answer("data.column").origin == "detected"
    assert asked.preset_data()["data"]["columns"] == {"text": "body_text"}
    asked.set("data.train", "other.jsonl")
    assert asked.context.data is None and "data" in asked.stale()
    assert "columns" not in asked.preset_data()["data"]


def test_the_advice_changes_with_the_answers():
    asked = flow(gpu_machine(4))
    before = asked.recommendation.summary()
    asked.set("distributed.num_gpus_per_node", 1)
    assert asked.recommendation.summary() != before
    assert asked.recommendation.decisions["backend"].value == "none"


def test_a_change_takes_milliseconds():
    asked = flow(gpu_machine(8))
    start = time.perf_counter()
    for number in range(10):
        asked.set("training.global_batch", 64 * (1 + number % 2))
    assert (time.perf_counter() - start) / 10 < 0.1
    assert cpu_machine().cpu.usable_cores == 2
