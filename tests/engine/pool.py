"""Ranks that import torch once and keep their Gloo group: engine tests cost milliseconds instead of launches."""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import socket
import traceback
from collections.abc import Callable
from datetime import timedelta
from typing import Any


class RankFailed(AssertionError):
    """A function raised on a rank; the text is that rank's traceback."""


class RankPool:
    """`world` processes joined over Gloo, waiting for functions to run."""

    def __init__(self, world: int):
        self.world = world
        context = multiprocessing.get_context("spawn")
        port = free_port()
        self._pipes, self._processes = [], []
        for rank in range(world):
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(rank, world, port, theirs), daemon=True)
            process.start()
            self._pipes.append(ours)
            self._processes.append(process)

    def run(self, function: Callable[..., Any], *args: Any, timeout_s: float = 180) -> list[Any]:
        """`function(rank, *args)` on every rank at once; the results by rank. Raises RankFailed."""
        for pipe in self._pipes:
            pipe.send((function, args))
        results, failures = [], []
        for rank, pipe in enumerate(self._pipes):
            if not pipe.poll(timeout_s):
                self.close()
                raise RankFailed(f"rank {rank} of {self.world} did not answer in {timeout_s} s")
            ok, value = pipe.recv()
            results.append(value)
            if not ok:
                failures.append(f"rank {rank}:\n{value}")
        if failures:
            raise RankFailed("\n".join(failures))
        return results

    def close(self) -> None:
        for process in self._processes:
            process.kill()
            process.join()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _serve(rank: int, world: int, port: int, pipe: Any) -> None:
    faulthandler.enable()
    for name in [name for name in os.environ if name.startswith(("ACCELERATE_", "TORCHELASTIC_", "PET_"))]:
        del os.environ[name]
    os.environ.update(ACCELERATE_USE_CPU="true", OMP_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false")
    if world > 1:
        os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world), LOCAL_WORLD_SIZE=str(world),
                          MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    import torch

    torch.set_num_threads(1)
    if world > 1:
        torch.distributed.init_process_group("gloo", timeout=timedelta(seconds=60))
    while True:
        try:
            function, args = pipe.recv()
        except EOFError:
            return
        try:
            pipe.send((True, function(rank, *args)))
        except BaseException:
            pipe.send((False, traceback.format_exc()))
