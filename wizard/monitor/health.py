"""Ranks that do not move, and the one that holds the others up."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from wizard.formatting import duration, percent
from wizard.monitor.ranks import RankState
from wizard.monitor.state import RunState

LEAST_LIMIT_S = 60.0
STEPS_LIMIT = 10
#: Below this share of a step a difference between ranks is noise.
_WORTH_NAMING = 0.03
#: Hearts beat every 5 s; a rank that has said nothing for so long is cut off or does not run at all.
_SILENT_S = 30.0
#: Ranks write every few seconds, each at its own time: those that stopped together pass the limit one after another.
_TOGETHER_S = 15.0
_MOST_PLACES = 3


@dataclass(frozen=True)
class Still:
    """A rank whose phase and step have not changed for longer than its limit."""

    rank: int
    s: float
    limit_s: float
    phase: str | None
    step: int
    silent_s: float

    @property
    def place(self) -> tuple[str, int]:
        return self.phase or "starting", self.step

    @property
    def silent(self) -> bool:
        return self.silent_s > _SILENT_S

    def __str__(self) -> str:
        text = f"rank {self.rank} has not moved for {duration(self.s)} ({_place(self.place)})"
        return f"{text}; nothing heard from it for {duration(self.silent_s)}" if self.silent else text


@dataclass(frozen=True)
class Stall:
    """Ranks that stand still together. `suspect` is the one that differs from all others, where one does.

    `everyone`: no rank moves. `missing`: ranks of the run that never spoke. `slowest`: the one the others waited for
    while all still moved, a hint and no proof.
    """

    ranks: tuple[Still, ...]
    suspect: Still | None
    everyone: bool
    missing: int = 0
    slowest: int | None = None

    @property
    def key(self) -> tuple[int, ...]:
        """What tells this stall from another one: whom it names."""
        if self.suspect is not None:
            return (self.suspect.rank,)
        return () if self.everyone else tuple(sorted(still.rank for still in self.ranks))

    def who(self) -> str:
        """`rank 1`, `ranks 1, 3`, `all ranks`."""
        if self.key:
            return _names(self.key)
        return "all ranks" if len(self.ranks) > 1 else f"rank {self.ranks[0].rank}"

    def __str__(self) -> str:
        if self.suspect is not None:
            text = str(self.suspect)
            return f"{text}; the other {len(self.ranks) - 1} wait" if len(self.ranks) > 2 and self.everyone else text
        if len(self.ranks) == 1 and not self.missing:
            return str(self.ranks[0])
        who = "no rank has" if self.everyone else f"{_names(self.key)} have not"
        text = f"{who} moved for {duration(min(still.s for still in self.ranks))} ({self._places()})"
        if all(still.silent for still in self.ranks):
            text += f"; nothing heard from them for {duration(min(still.silent_s for still in self.ranks))}"
        if self.missing:
            text += f"; {self.missing:,} {'rank' if self.missing == 1 else 'ranks'} never spoke"
        elif self.slowest is not None:
            text += f"; before that the others waited for rank {self.slowest}"
        return text

    def _places(self) -> str:
        by_place: dict[tuple[str, int], list[int]] = {}
        for still in self.ranks:
            by_place.setdefault(still.place, []).append(still.rank)
        if len(by_place) == 1:
            return _place(next(iter(by_place)))
        return "; ".join(f"{_names(ranks)}: {_place(place)}" for place, ranks in
                         sorted(by_place.items(), key=lambda found: (found[0][1], len(found[1])))[:_MOST_PLACES])


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


def stall(state: RunState, now_s: float) -> Stall | None:
    """Ranks that are hung by the rule, or None. A heartbeat alone is no sign of progress.

    One rank is named alone only where something sets it apart from all others: the rest moves, it is silent while the
    others are heard, it is steps behind, or it is in another phase than all of them.
    """
    if not state.alive:
        return None
    median = state.median_step_s()
    found, moving = [], 0
    for rank in state.ranks.values():
        s = rank.still_s(now_s)
        if s is None or rank.ended is not None:
            continue
        still = Still(rank.rank, s, limit_s(rank, median), rank.phase, rank.step, rank.silent_s(now_s) or 0.0)
        if s > max(still.limit_s - _TOGETHER_S, still.limit_s / 2):
            found.append(still)
        else:
            moving += 1
    if not any(still.s > still.limit_s for still in found):
        return None
    found.sort(key=lambda still: still.rank)
    missing = max(0, (len(state.ranks_here) if state.ranks_here else state.world_size or 0) - len(state.ranks))
    suspect = _suspect(found, alone=bool(moving), missing=missing)
    slow = straggler(state) if suspect is None else None
    return Stall(tuple(found), suspect, not moving, missing, slow.rank if slow else None)


def _suspect(found: list[Still], alone: bool, missing: int) -> Still | None:
    if len(found) == 1:
        return found[0] if alone else None
    if missing:
        return None
    silent = [still for still in found if still.silent]
    if len(silent) == 1:
        return silent[0]
    least = min(still.step for still in found)
    behind = [still for still in found if still.step == least]
    if len(behind) == 1:
        return behind[0]
    if len(behind) == len(found) > 2:
        for still in found:
            others = {other.phase for other in found if other is not still}
            if len(others) == 1 and still.phase not in others:
                return still
    return None


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


def _place(place: tuple[str, int]) -> str:
    return f"{place[0]}, step {place[1]:,}"


def _names(ranks: Sequence[int]) -> str:
    """`rank 1`, `ranks 1, 3`, `ranks 0, 1, 2 and 5 more`."""
    shown = ", ".join(map(str, ranks[:4]))
    more = f" and {len(ranks) - 4:,} more" if len(ranks) > 4 else ""
    return f"{'rank' if len(ranks) == 1 else 'ranks'} {shown}{more}"
