"""The questions for labelled texts and for a script of one's own."""

from __future__ import annotations

import pytest

from engine.contract.load import preset_from_data
from tests.unit.questions.machines import cpu_machine, flow, gpu_machine, keys
from wizard.facts.data import DataFacts, read_data_facts


@pytest.mark.parametrize("inventory", [cpu_machine(), gpu_machine(4)])
def test_a_script_is_asked_for_and_nothing_that_is_its_own(inventory):
    asked = flow(inventory)
    asked.set("task", "script")
    assert "script.path" in keys(asked)
    assert not any(key.startswith(("model.", "data.", "training.")) for key in keys(asked))
    assert [question.key for question, _ in asked.problems()] == ["script.path"]
    asked.set("script.path", "./tools/train.py")
    assert asked.problems() == [] and asked.answer("name").value == "train"
    preset = preset_from_data(asked.preset_data())
    assert preset.script.path == "./tools/train.py" and preset.data.train is None and preset.model.from_config is None
    assert asked.recommendation.decisions["batch"].value is None and all(asked.recommendation.summary())


def test_going_back_from_a_script_loses_nothing():
    asked = flow()
    before = asked.preset_data()
    asked.set("task", "script")
    asked.clear("task")
    assert asked.preset_data() == before


def classified(facts: DataFacts):
    asked = flow()
    asked.set("task", "text-classification")
    asked.set("model.path", "owner/model")
    asked.set("data.train", facts.source)
    asked.learn("data", facts.source, facts)
    return asked


def test_columns_that_are_found_are_not_asked_for(tmp_path):
    (tmp_path / "a.csv").write_text("review,stars\nfine,5\npoor,1\n")
    asked = classified(read_data_facts(str(tmp_path / "a.csv"), tmp_path))
    assert not {"data.column", "data.label", "model.source"} & set(keys(asked)) and "model.path" in keys(asked)


def test_columns_that_are_not_found_are(tmp_path):
    (tmp_path / "a.csv").write_text("id,said,verdict\n1,fine,yes\n2,poor,no\n")
    asked = classified(read_data_facts(str(tmp_path / "a.csv"), tmp_path))
    assert {"data.column", "data.label"} <= set(keys(asked))
    assert asked.answer("data.label").value == "verdict"
    asked.set("data.column", "said")
    assert asked.preset_data()["data"]["columns"] == {"text": "said", "label": "verdict"}
    asked.set("task", "llm-pretrain")
    assert "data.label" not in keys(asked) and asked.preset_data()["data"].get("columns") == {"text": "said"}
