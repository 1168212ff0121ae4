"""Ranks that do not move, and the one that holds the others up."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from wizard.formatting import duration, percent
from wizard.monitor.ranks import RankState
from wizard.monitor.state import RunState

LEAST_LIMIT_S = 60.0
STEPS_LIMIT = 10
#: Below this share of a step a difference between ranks is noise.
_WORTH_NAMING = 0.03


@dataclass(frozen=True)
class Still:
    """A rank whose phase and step have not changed for longer than its limit."""

    rank: int
    s: float
    limit_s: float
    phase: str | None
    step: int
    silent_s: float

    def __str__(self) -> str:
        text = f"rank {self.rank} has not moved for {duration(self.s)} ({self.phase or 'starting'}, step {self.step})"
        return f"{text}; nothing heard from it for {duration(self.silent_s)}" if self.silent_s > 30 else text


@dataclass(frozen=True)
class Straggler:
    """The rank the others wait for. `cost` is the share of each step the job would save without the difference."""

    rank: int
    cost: float
    part: str

    def __str__(self) -> str:
        return f"rank {self.rank} is the slowest ({self.part}) and costs the job {percent(self.cost)}"


def limit_s(rank: RankState, median_step_s: float | None) -> float:
    """How long a rank may stay at the same place: its phase's own limit, else max(60 s, 10 median steps)."""
    if rank.s_limit is not None:
        return rank.s_limit
    return max(LEAST_LIMIT_S, STEPS_LIMIT * (median_step_s or 0.0))


def still_ranks(state: RunState, now_s: float) -> list[Still]:
    """Ranks that are hung by the rule, the one furthest behind first: the others most likely wait for it.

    A heartbeat alone is no sign of progress.
    """
    if not state.alive:
        return []
    median = state.median_step_s()
    found = []
    for rank in state.ranks.values():
        s = rank.still_s(now_s)
        if s is None or rank.ended is not None:
            continue
        limit = limit_s(rank, median)
        if s > limit:
            found.append(Still(rank.rank, s, limit, rank.phase, rank.step, rank.silent_s(now_s) or 0.0))
    return sorted(found, key=lambda still: (still.step, -still.s))


def straggler(state: RunState) -> Straggler | None:
    """The rank with the lowest wait and the most work of its own, where the difference is worth a word."""
    splits = {rank.rank: rank.split() for rank in state.ranks.values()}
    known = {rank: split for rank, split in splits.items()
             if None not in (split.step, split.compute, split.data, split.wait)}
    if len(known) < 2 or len(known) < len(splits):
        return None
    slowest = max(known, key=lambda rank: known[rank].compute + known[rank].data)
    if known[slowest].wait > min(split.wait for split in known.values()) * 1.05:
        return None
    others = [split for rank, split in known.items() if rank != slowest]
    mine = known[slowest]
    more = {part: getattr(mine, part) - statistics.median(getattr(split, part) for split in others)
            for part in ("compute", "data")}
    cost = sum(more.values()) / mine.step if mine.step else 0.0
    return Straggler(slowest, cost, max(more, key=more.get)) if cost >= _WORTH_NAMING else None
