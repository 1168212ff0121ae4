"""Machines that people reported in public: what a right answer holds, holds."""

from __future__ import annotations

import pytest

from tests.unit.advice.machines import TINY
from tests.unit.advice.texts import advise_text, answer_of, entries, mistakes

REPORTED = entries("reported_machines")

#: Where we hold the expectation for wrong: entry, what we answer instead, and the public source for it.
DISSENTS = {
    "cpu-xeon": (
        {"precision": "fp32"},
        # The text names no generation of the Xeon. Without AMX or AVX512-BF16 bf16 is several times slower than fp32,
        # so it is the alternative, not the choice, until lscpu shows the instructions.
        "https://github.com/pytorch/pytorch/issues/118499",
    )
}


@pytest.mark.parametrize("name", REPORTED)
def test_what_a_right_answer_holds(name):
    entry = REPORTED[name]
    expect = dict(entry["expect"]) | DISSENTS.get(name, ({}, ""))[0]
    if expect["devices"] == "fastest-if-it-fits":
        del expect["devices"]
    assert mistakes(expect, answer_of(advise_text(entry["text"]))) == []


def test_dissents_are_few_and_have_a_source():
    assert len(DISSENTS) <= 2 and all(source.startswith("https://") for _, source in DISSENTS.values())


def test_the_dissent_names_what_would_make_the_other_choice_right():
    alternative = advise_text(REPORTED["cpu-xeon"]["text"]).decisions["precision"].alternative
    assert alternative.value == "bf16" and "amx_bf16" in alternative.when


def test_the_slower_card_is_left_out_when_the_model_fits_on_the_faster():
    text = REPORTED["mixed-5090-3090ti"]["text"]
    fitting = advise_text(text, TINY).decisions
    assert fitting["devices"].value["indices"] == [0] and fitting["backend"].value == "none"
    open_choice = advise_text(text).decisions["devices"]
    assert open_choice.value["indices"] == [0, 1] and open_choice.alternative.value == [0]


@pytest.mark.parametrize("name", REPORTED)
def test_findings_quote_the_text(name):
    lines = [" ".join(line.split()) for line in REPORTED[name]["text"].splitlines()]
    for finding in advise_text(REPORTED[name]["text"]).findings:
        for item in finding.evidence:
            if item.source == "text" and item.line:
                assert lines[item.line - 1].startswith(item.text[:80])


def test_one_answer_for_every_machine_is_wrong_for_many():
    parrot = {"backend": "nccl", "devices": "all", "listed": 0, "indices": [], "precision": "bf16", "env": {},
              "findings": set(), "processes": 8, "nodes": 1}  # fmt: skip
    wrong = [name for name, entry in REPORTED.items() if mistakes(entry["expect"], parrot)]
    assert len(wrong) > len(REPORTED) // 2
    assert {"k80-gcp-old", "mac-m2pro", "mig-a100", "cpu-xeon"} <= set(wrong)
