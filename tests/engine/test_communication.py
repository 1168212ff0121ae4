"""Gradients travel once per optimizer step, whatever the accumulation: counted where Gloo itself is called."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.engine.trainings import new_run, tiny_preset, train_on_rank, write_text

#: Steps until DDP has rebuilt its buckets in the order in which gradients become ready; its message about that is
#: itself a collective.
SETTLED = 2


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    return write_text(tmp_path_factory.mktemp("data") / "text.jsonl")


@pytest.mark.parametrize("compression", ["none", "bf16"])
def test_accumulating_costs_no_all_reduce(ranks, tmp_path, data, compression):
    counted = {}
    for accumulation in (1, 4):
        preset = tiny_preset(data, 2, training__micro_batch=4 // accumulation, training__gradient_accumulation=accumulation,
                             distributed__communication={"compression": compression, "bucket_mb": 25})
        steps = ranks(2).run(train_counting, str(new_run(tmp_path / str(accumulation), preset).root))
        assert steps[0] == steps[1] and len(steps[0]) == 6
        counted[accumulation] = steps[0][SETTLED:]
    # one bucket holds all gradients of so small a model
    assert counted[1] == counted[4] == [1] * 4


def test_syncing_each_micro_batch_would_be_seen(ranks, tmp_path, data):
    preset = tiny_preset(data, 2, training__micro_batch=1, training__gradient_accumulation=4)
    steps = ranks(2).run(train_counting, str(new_run(tmp_path, preset).root), True)
    assert steps[0][SETTLED:] == [4] * 4


def train_counting(rank: int, root: str, sync_always: bool = False) -> list[int]:
    """All-reduces that Gloo carried out in each optimizer step, between its first forward pass and its update.

    `sync_always` takes no_sync away.
    """
    import contextlib

    from accelerate import Accelerator
    from torch.profiler import ProfilerActivity, profile

    import engine.loop

    original, no_sync = engine.loop.Training._optimizer_step, Accelerator.no_sync
    counted: list[int] = []

    def counting(self: Any, step: int) -> None:
        with profile(activities=[ProfilerActivity.CPU]) as profiler:
            original(self, step)
        counted.append(sum(event.count for event in profiler.key_averages() if event.key == "gloo:all_reduce"))

    engine.loop.Training._optimizer_step = counting
    if sync_always:
        Accelerator.no_sync = lambda self, model: contextlib.nullcontext()
    try:
        assert train_on_rank(rank, root)[0] == "finished"
    finally:
        engine.loop.Training._optimizer_step, Accelerator.no_sync = original, no_sync
    return counted
