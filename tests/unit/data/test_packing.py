"""Layouts: nothing lost, nothing too long, little room wasted."""

from __future__ import annotations

import numpy as np
import pytest

from engine.data import packing
from engine.data.order import permutation


def flat(lengths):
    lengths = np.asarray(lengths, dtype=np.int64)
    return np.cumsum(lengths) - lengths, lengths


def taken(layout):
    return np.concatenate([np.arange(start, start + length)
                           for start, length in zip(layout.starts, layout.lengths, strict=True)])


def test_cut_uses_every_token_in_order():
    layout = packing.cut(*flat([5, 30, 2, 13]), 16)
    assert (taken(layout) == np.arange(50)).all()
    assert np.diff(layout.edges).tolist() == [16, 16, 16, 2]


def test_cut_leaves_out_a_last_token_that_predicts_nothing():
    layout = packing.cut(*flat([10, 7]), 16)
    assert np.diff(layout.edges).tolist() == [16] and layout.lengths.sum() == 16


def test_split_keeps_documents_apart():
    layout = packing.split(*flat([5, 33, 2, 16]), 16)
    assert layout.lengths.tolist() == [5, 16, 16, 2, 16]  # the 33rd token is only a target
    assert layout.starts.tolist() == [0, 5, 21, 38, 40]
    assert np.diff(layout.edges).tolist() == layout.lengths.tolist()


def test_best_fit_places_every_row_whole_and_once():
    rng = np.random.default_rng(0)
    starts, lengths = flat(np.clip(rng.lognormal(4.5, 0.8, 5000).astype(int), 2, 1024))
    layout = packing.best_fit(starts, lengths, 1024)
    assert sorted(layout.starts.tolist()) == starts.tolist()
    sizes = np.diff(layout.edges)
    assert sizes.max() <= 1024 and sizes.sum() == lengths.sum()
    assert set(layout.edges.tolist()) <= {0, *np.cumsum(layout.lengths).tolist()}
    assert sizes.sum() / (len(sizes) * 1024) > 0.98
    again = packing.best_fit(starts, lengths, 1024)
    assert (again.starts == layout.starts).all() and (again.edges == layout.edges).all()


def test_best_fit_of_rows_that_fill_a_sequence_each():
    layout = packing.best_fit(*flat([16, 16, 16]), 16)
    assert np.diff(layout.edges).tolist() == [16, 16, 16]


@pytest.mark.parametrize(("lengths", "packs", "why"), [
    (np.full(1000, 1000), False, "100% full"),
    (np.tile([40, 900, 200, 100], 1000), True, "would be padding"),
    (np.tile([40, 900, 200, 100], 5), False, "small"),
    (np.array([3]), False, "full"),
])
def test_auto_packs_where_padding_costs_more_than_masks(lengths, packs, why):
    decided, reason = packing.decide(lengths, 1024, 8, 8, 1)
    assert decided is packs and why in reason


def test_fill_is_that_of_batches_padded_to_their_longest():
    lengths = np.array([2, 4, 6, 8, 8, 8, 8, 8])
    order = lengths[permutation(8, 0, 0)].reshape(2, 4)
    assert packing.fill_unpacked(lengths, 4, 0) == lengths.sum() / (4 * order.max(axis=1).sum())
