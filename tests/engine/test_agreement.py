"""What ranks agree on before they train, over a group that only exists in this process."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from engine import agreement
from engine.contract.load import preset_from_data
from engine.contract.run_dir import RunDir
from engine.errors import PresetMismatch


class Table:
    """`Control.gather` between threads: everyone lays down values, everyone reads all of them."""

    def __init__(self, world_size: int):
        self._barrier, self._values = threading.Barrier(world_size, timeout=10), [()] * world_size

    def seat(self, rank: int):
        class Seat:
            @staticmethod
            def gather(*values: int) -> list[tuple[int, ...]]:
                self._values[rank] = values
                self._barrier.wait()
                told = list(self._values)
                self._barrier.wait()
                return told

        return Seat


def together(function, *arguments_of_ranks):
    """The result, or the error, of `function(*arguments, control)` on every rank."""
    table = Table(len(arguments_of_ranks))

    def one(rank: int):
        try:
            return function(*arguments_of_ranks[rank], table.seat(rank))
        except PresetMismatch as error:
            return error

    with ThreadPoolExecutor(len(arguments_of_ranks)) as pool:
        return list(pool.map(one, range(len(arguments_of_ranks))))


@pytest.mark.parametrize(("steps", "agreed"), [
    ([[10, 20], [10, 20]], 20),
    ([[10, 20], [10]], 10),
    ([[10, 20, 30], [5, 20], [20, 30]], 20),
    ([[], []], None),
    ([None, None], None),
    ([[7]], 7),
])
def test_the_newest_checkpoint_that_all_have(steps, agreed):
    assert together(agreement.agreed_step, *[(own,) for own in steps]) == [agreed] * len(steps)


@pytest.mark.parametrize("steps", [[[10], None], [[10, 20], [15]], [[10], []]])
def test_no_checkpoint_in_common_is_an_error_everywhere(steps):
    assert all(isinstance(found, PresetMismatch) for found in together(agreement.agreed_step, *[(own,) for own in steps]))


def preset(**training):
    return preset_from_data({"version": 1, "name": "p", "task": "llm-pretrain", "model": {"from_config": {"model_type": "llama"}},
                             "data": {"train": "builtin:tiny"}, "training": training})


def test_presets_that_train_alike_pass():
    here, there = preset(seed=1), preset(seed=1)
    there.name, there.data.train, there.distributed.network_interface, there.training.log_every = "q", "/elsewhere", "eth1", 3
    assert together(agreement.check_same_preset, (here,), (there,)) == [None, None]


def test_presets_that_do_not_are_told_apart_by_key():
    found = together(agreement.check_same_preset, (preset(seed=1, optimizer="sgd"),), (preset(seed=2),))
    assert "training.seed (1 here)" in str(found[0]) and "training.seed (2 here)" in str(found[1])
    assert "training.optimizer" in str(found[0]) and "training.learning_rate" not in str(found[0])


def test_each_folder_has_one_keeper(tmp_path):
    one, other = (RunDir.create(tmp_path / name, "run") for name in "ab")
    for run in (one, other):
        run.preset.write_text("version: 1\n")
    alone = together(agreement.keeps_folder, (one, 0), (one, 1))
    apart = together(agreement.keeps_folder, (one, 0), (one, 1), (other, 2), (other, 3))
    assert alone == [True, False] and apart == [True, False, True, False]
