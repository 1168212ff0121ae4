"""The list of questions itself."""

from __future__ import annotations

import pytest

from engine.contract.load import known_keys
from tests.unit.questions.machines import cpu_machine, flow, gpu_machine, keys
from wizard.questions.catalog import QUESTIONS
from wizard.questions.outcome import AUTO_KEYS
from wizard.questions.question import SECTIONS


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.key)
def test_each_question_teaches_and_decides_keys_that_exist(question):
    assert question.title.endswith("?")
    assert 2 <= question.help.count(". ") + question.help.count(".\n") + 1 <= 4
    assert len(question.help) <= 260, "more does not fit at 80x24"
    assert set(question.decides) <= set(known_keys())


def test_sections_come_in_their_order():
    order = [SECTIONS.index(question.section) for question in QUESTIONS]
    assert order == sorted(order)
    assert len({question.key for question in QUESTIONS}) == len(QUESTIONS)


@pytest.mark.parametrize("inventory", [cpu_machine(), gpu_machine(1), gpu_machine(8)])
def test_no_more_than_about_a_dozen_are_asked(inventory):
    asked = flow(inventory)
    assert 9 <= len(asked.asked) <= 14
    asked.set("task", "llm-sft")
    assert len(asked.asked) <= 15


def test_nothing_is_asked_that_was_detected():
    assert "distributed.num_gpus_per_node" not in keys(flow(cpu_machine()))
    assert "distributed.num_processes_per_node" not in keys(flow(gpu_machine()))
    assert "data.column" not in keys(flow())
    alone = keys(flow(gpu_machine(1)))
    assert "distributed.backend" not in alone and "distributed.strategy" not in alone


def test_auto_keys_are_those_of_the_schema():
    assert {"distributed.backend", "training.global_batch", "data.max_length", "distributed.communication.bucket_mb"} <= AUTO_KEYS
    assert not {"model.adapter.type", "training.max_steps", "task"} & AUTO_KEYS
