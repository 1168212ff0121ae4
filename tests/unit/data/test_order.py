"""The order of the data: every sequence once per epoch, and the step alone is the position."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from engine.data.order import permutation, step_indices


@pytest.mark.parametrize(("n", "batch"), [(10, 4), (12, 4), (7, 16), (1, 3), (1000, 32)])
def test_each_epoch_holds_every_sequence_once(n, batch):
    steps = -(-3 * n // batch)
    stream = np.concatenate([step_indices(n, 5, step, batch) for step in range(steps)])
    for epoch in range(3):
        assert sorted(stream[epoch * n: (epoch + 1) * n].tolist()) == list(range(n))


def test_epochs_and_seeds_differ():
    orders = [step_indices(100, seed, step, 100).tolist() for seed in (1, 2) for step in (0, 1)]
    assert len(set(map(tuple, orders))) == 4


def test_a_step_is_the_same_whatever_came_before():
    stream = [step_indices(50, 3, step, 8) for step in range(20)]
    assert all((step_indices(50, 3, step, 8) == stream[step]).all() for step in (19, 4, 0, 13))


def test_the_order_is_fixed_for_all_time():
    # ranks with another numpy must agree, and a checkpoint of today must resume tomorrow
    assert permutation(8, 42, 0).tolist() == [2, 6, 3, 1, 5, 0, 4, 7]


def test_a_permutation_is_not_biased():
    places = np.array([permutation(16, seed, 0) for seed in range(2000)])
    counts = np.array([np.bincount(places[:, at], minlength=16) for at in range(16)])
    assert abs(counts - 125).max() < 60  # 5.5 standard deviations


def test_nothing_to_choose_from_is_an_error():
    with pytest.raises(ValueError, match="n=0"):
        step_indices(0, 1, 0, 4)


@pytest.mark.parametrize("module", ["order", "store"])
def test_serving_data_loads_no_model_library(module):
    code = f"import sys, engine.data.{module}; sys.exit(bool({{'transformers', 'datasets', 'tokenizers'}} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0
