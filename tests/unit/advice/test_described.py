"""Machines in texts of our own, in every style: what a right answer holds, holds."""

from __future__ import annotations

import pytest

from tests.unit.advice.texts import advise_text, answer_of, entries, mistakes

DESCRIBED = entries("described_machines")


@pytest.mark.parametrize("name", DESCRIBED)
def test_what_a_right_answer_holds(name):
    entry = DESCRIBED[name]
    assert mistakes(entry["expect"], answer_of(advise_text(entry["text"]))) == []
