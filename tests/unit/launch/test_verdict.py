"""The outcome from what the ranks said and what the launcher saw."""

from __future__ import annotations

import pytest

from wizard.launch.launcher_log import RootCause
from wizard.launch.rank_watch import RankTrace
from wizard.launch.verdict import Evidence, conclude

PEER = "RuntimeError: Connection closed by peer [127.0.0.1]:4"


def rank(number: int, state: str | None = None, kind: str = "completed", message: str = "", at: float = 0, seen: bool = True,
         phase: str = "training", **more) -> RankTrace:
    ended = None
    if state:
        ended = {"state": state, "step": 9, "t_unix_s": at, "model_path": "/m",
                 "exit_reason": {"kind": kind, "rank": number, "step": 9, "message": message}}
    return RankTrace(number, ended=ended, seen=seen, step=9 if seen else None, phase=phase if seen else "", **more)


def verdict(*ranks: RankTrace, root: tuple[int, int] | None = None, exits: dict[int, int] | None = None, launcher_exit: int = 1, log: str = "",
            stopped_by: str | None = None, killed: bool = False, model: bool = True, disk_full: bool = False):
    cause = RootCause(*root) if root else None
    codes = exits if exits is not None else ({root[0]: root[1]} if root else {})
    return conclude(Evidence({r.rank: r for r in ranks}, launcher_exit, log, cause, codes, stopped_by, killed, model, disk_full))


def reason(*args, **kwargs):
    found = verdict(*args, **kwargs)
    return found.state, found.reason.kind, found.reason.rank


def test_finished_needs_every_rank_and_the_model():
    assert reason(rank(0, "finished"), rank(1, "finished")) == ("finished", "completed", None)
    assert verdict(rank(0, "finished"), rank(1, "finished"), model=False).state == "failed"
    assert reason(rank(0, "finished"), rank(1))[0] == "failed"
    assert reason(rank(0, "finished"), rank(1, seen=False)) == ("failed", "launch", 1)
    assert reason(rank(2, "finished"), rank(3, "finished"), model=False)[0] == "finished", "the model is on another machine"
    assert reason(rank(0, "finished", "early_stopped"))[:2] == ("finished", "early_stopped")


@pytest.mark.parametrize("root", [(0, 5), (1, -9)])
def test_a_killed_rank_wins_over_the_one_that_noticed(root):
    """torchrun names whichever it looked at first when both end between two looks."""
    ranks = (rank(0, "failed", "exception", PEER), rank(1))
    assert reason(*ranks, root=root, exits={0: 5, 1: -9}) == ("failed", "signal", 1)


def test_a_first_hand_error_wins_over_the_ranks_it_ended():
    assert reason(rank(0, "failed", "exception", PEER, at=1), rank(1, "failed", "data", "row 3", at=2)) == ("failed", "data", 1)
    assert reason(rank(0, "failed", "non_finite", "NaN", at=1), rank(1), root=(0, 5), exits={0: 5, 1: -15}) == ("failed", "non_finite", 0)
    assert reason(rank(0, "failed", "model", "a", at=2), rank(1, "failed", "model", "b", at=1)) == ("failed", "model", 1)


def test_a_rank_we_ended_is_not_the_cause():
    assert reason(rank(0, cleared=True), rank(1), root=(0, -9), exits={0: -9, 1: -11}) == ("failed", "signal", 1)


def test_ranks_without_a_word():
    assert reason(rank(0), rank(1)) == ("failed", "lost", 0)
    assert reason(rank(0), rank(1), launcher_exit=-9) == ("failed", "signal", None)
    assert reason(rank(0), root=(0, 1), disk_full=True) == ("failed", "disk", 0)
    assert reason(rank(0), root=(0, -9), disk_full=True) == ("failed", "signal", 0)


def test_nothing_began():
    found = verdict(rank(0, seen=False), log="blah\nImportError: no torch\n")
    assert (found.state, found.reason.kind) == ("failed", "launch") and "ImportError: no torch" in found.reason.message
    assert reason(rank(0, seen=False), rank(1, seen=False), root=(1, 1))[:2] == ("failed", "launch")


def test_stopped():
    assert reason(rank(0, "stopped", "requested"), rank(1, "stopped", "requested")) == ("stopped", "requested", None)
    assert reason(rank(0, "stopped", "requested"), rank(1, "failed", "exception", PEER), stopped_by="x") == ("stopped", "requested", None)
    assert reason(rank(0), rank(1), stopped_by="x", killed=True)[0] == "stopped"
    assert reason(rank(0, "finished"), rank(1, "finished"), stopped_by="x") == ("finished", "completed", None), "it was faster"
    assert reason(rank(0, "failed", "disk", "full"), rank(1), stopped_by="x") == ("failed", "disk", 0), "its checkpoint is not there"
