"""One pool of ranks per world size for the whole session."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.engine.pool import RankPool


@pytest.fixture(scope="session")
def ranks() -> Iterator[Callable[[int], RankPool]]:
    """`ranks(2)` is a pool of two ranks, started when first asked for."""
    pools: dict[int, RankPool] = {}

    def get(world: int) -> RankPool:
        if world not in pools:
            pools[world] = RankPool(world)
        return pools[world]

    yield get
    for pool in pools.values():
        pool.close()
