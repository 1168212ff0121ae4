"""Targets, labels and offsets."""

from __future__ import annotations

import numpy as np
import pytest

from engine.data.chat import Sample
from engine.data.tokenize import Encoder, _inside, shifted, trimmed


def test_labels_are_the_next_token_within_a_document():
    assert shifted(np.array([5, 6, 7], dtype=np.int32)).tolist() == [6, 7, -100]
    assert shifted(np.array([5, 6, 7, 8]), np.array([False, False, True, False])).tolist() == [-100, 7, -100, -100]


@pytest.mark.parametrize(("wanted", "max_length", "inputs", "labels", "lost"), [
    ([0, 0, 1, 1, 0, 0], 10, [1, 2, 3], [-100, 3, 4], False),  # nothing is computed after the last target
    ([0, 0, 1, 1, 1, 1], 3, [1, 2, 3], [-100, 3, 4], True),
    ([0, 1, 0, 0, 0, 1], 3, [1], [2], True),
    ([0, 0, 0, 0, 0, 1], 3, [], [], True),
    ([1, 0, 0, 0, 0, 0], 9, [], [], False),  # nothing predicts a first token
])
def test_samples_are_cut_at_their_last_target(wanted, max_length, inputs, labels, lost):
    found = trimmed(np.arange(1, 7, dtype=np.int32), np.array(wanted, dtype=bool), max_length)
    assert (found[0].tolist(), found[1].tolist(), found[2]) == (inputs, labels, lost)


@pytest.mark.parametrize(("offsets", "span", "expected"), [
    ([(0, 3), (3, 4), (4, 6), (6, 8)], (4, 6), [0, 0, 1, 0]),
    ([(0, 3), (4, 4), (4, 6), (6, 8)], (4, 6), [0, 0, 1, 0]),  # white space trimmed away before the span
    ([(0, 3), (3, 5), (5, 5), (6, 8)], (3, 6), [0, 1, 1, 0]),  # and within it
    ([(0, 3), (3, 4), (3, 4), (4, 8)], (3, 4), [0, 1, 1, 0]),  # two tokens of one character
    ([(0, 3), (3, 6), (6, 8)], (4, 8), [0, 1, 1]),  # a token across the edge
    ([], (0, 0), []),
])
def test_tokens_inside_a_span(offsets, span, expected):
    assert _inside(offsets, [span]).astype(int).tolist() == expected


class Slow:
    """A tokenizer in Python: one token a word, with a begin-of-text token."""

    is_fast, eos_token_id = False, 1

    def encode(self, text, add_special_tokens=True):
        return [0] * add_special_tokens + [10 + len(word) for word in text.split()]


def test_a_tokenizer_without_offsets():
    encoder = Encoder(Slow())
    assert [ids.tolist() for ids in encoder.documents(["a bb", " "])] == [[0, 11, 12, 1], []]
    ((ids, wanted),) = encoder.samples([Sample("q ww answer it", ((5, 14),), plain=True)])
    assert ids.tolist() == [0, 11, 12, 16, 12, 1] and wanted.astype(int).tolist() == [0, 0, 0, 1, 1, 1]


def test_fast_and_slow_ways_agree(tokenizer):
    sample = Sample("The answer is: 42 of\ncourse.", ((14, 20), (21, 28)))
    encoder = Encoder(tokenizer)
    ((ids, wanted),) = encoder.samples([sample])
    slow_ids, slow_wanted = encoder._slow(sample)
    assert ids.tolist() == slow_ids and wanted.tolist() == slow_wanted.tolist()
