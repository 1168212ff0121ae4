"""How a run ended, concluded from the ranks' last words and, for those that had none, from the launcher. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from engine.contract.events import ExitReason
from wizard.launch.join_failures import explained
from wizard.launch.launcher_log import RootCause, message
from wizard.launch.rank_watch import RankTrace

#: What a healthy rank says when another one died: true, and never the cause.
_SECONDARY = re.compile(r"connection (closed|reset) by peer|broken pipe|socket.*(closed|timeout)|timed out waiting \d+ms",
                        re.IGNORECASE)


@dataclass(frozen=True)
class Verdict:
    state: Literal["finished", "stopped", "failed"]
    reason: ExitReason
    model_path: str | None = None


@dataclass(frozen=True)
class Evidence:
    """All that is known when the launcher is gone. `stopped_by`: who asked for the stop, in words, if anyone did."""

    traces: dict[int, RankTrace]
    launcher_exit: int | None
    launcher_log: str
    root: RootCause | None
    exit_codes: dict[int, int]
    stopped_by: str | None
    killed: bool
    model_exists: bool
    disk_full: bool = False
    machines: int = 1


def conclude(known: Evidence) -> Verdict:
    """The outcome. `finished` needs every rank's word for it and, where rank 0 ran here, the model."""
    traces = list(known.traces.values())
    said = {trace.rank: trace.ended["state"] for trace in traces if trace.ended}
    if len(said) == len(traces) and set(said.values()) == {"finished"}:
        return _finished(known)
    if len(said) == len(traces) and "stopped" in said.values() and "failed" not in said.values():
        words = next(trace.reason for trace in traces if said[trace.rank] == "stopped")
        return Verdict("stopped", ExitReason(kind=words.kind, step=_last_step(traces), message=words.message or known.stopped_by or ""))
    failure = _first_failure(known)
    if known.stopped_by and (known.killed or failure is None or _secondary(failure)):
        return Verdict("stopped", ExitReason(kind="requested", step=_last_step(traces), message=known.stopped_by))
    return Verdict("failed", failure or _launch_failure(known))


def _finished(known: Evidence) -> Verdict:
    first = known.traces.get(0)
    if first is None:  # rank 0, and with it the model, is on another machine
        reason = next(iter(known.traces.values())).reason
        return Verdict("finished", reason.model_copy(update={"rank": None}))
    path = first.ended.get("model_path")
    if not path and not first.ended.get("model_expected", True):
        return Verdict("finished", first.reason.model_copy(update={"rank": None}))
    if not path or not known.model_exists:
        return Verdict("failed", ExitReason(kind="exception", rank=0, step=first.ended.get("step"),
                                            message="all ranks finished, but there is no model in the run's folder"))
    return Verdict("finished", first.reason.model_copy(update={"rank": None}), path)


def _first_failure(known: Evidence) -> ExitReason | None:
    """The failure that came first, not the ones it caused in other ranks."""
    traces = known.traces
    root = known.root
    if root and root.rank in traces and traces[root.rank].ended is None and not traces[root.rank].cleared:
        return _died(known, traces[root.rank]) if traces[root.rank].seen else _launch_failure(known)
    failed = [trace for trace in traces.values() if trace.ended and trace.ended["state"] == "failed"]
    if failed:
        primary = [trace for trace in failed if not _secondary(trace.reason)]
        named = [trace for trace in primary or failed if root and trace.rank == root.rank]
        first = named[0] if named else min(primary or failed, key=lambda trace: trace.ended.get("t_unix_s", 0))
        if _secondary(first.reason) and not _silent(traces) and known.machines > 1:
            return ExitReason(kind="lost", step=_last_step([first]), message=(
                f"a rank on another machine is gone or cannot be reached any more; the run there says why "
                f"(here: {_SECONDARY.search(first.reason.message).group()})"))
        if not (_secondary(first.reason) and _silent(traces)):
            return first.reason.model_copy(update={"rank": first.rank})
    silent = _silent(traces)
    if silent:
        return _died(known, silent[0])
    if any(not trace.seen for trace in traces.values()):
        return _launch_failure(known)
    return None


def _silent(traces: dict[int, RankTrace]) -> list[RankTrace]:
    """Ranks that began and ended without a last word, those that died by themselves first."""
    return sorted((trace for trace in traces.values() if trace.seen and trace.ended is None), key=lambda trace: trace.cleared)


def _died(known: Evidence, trace: RankTrace) -> ExitReason:
    doing = f" while {trace.phase}" if trace.phase else ""
    code = known.exit_codes.get(trace.rank)
    if known.disk_full and (code is None or code > 0):
        return ExitReason(kind="disk", rank=trace.rank, step=trace.step,
                          message=f"the disk with the run's folder is full; rank {trace.rank} ended{doing}")
    if code is not None:
        return ExitReason(kind="signal" if code < 0 else "exception", rank=trace.rank, step=trace.step,
                          message=f"rank {trace.rank}: {RootCause(trace.rank, code).words(doing)}")
    if known.launcher_exit is not None and known.launcher_exit < 0:
        words = RootCause(0, known.launcher_exit).words()
        return ExitReason(kind="signal", step=trace.step, message=f"the launcher was {words}; its ranks were ended with it")
    return ExitReason(kind="lost", rank=trace.rank, step=trace.step,
                      message=f"rank {trace.rank} ended without a word{doing}; its log is logs/rank-{trace.rank:05d}.log")


def _launch_failure(known: Evidence) -> ExitReason:
    missing = [rank for rank, trace in known.traces.items() if not trace.seen]
    plain = explained(known.launcher_log)
    if plain and len(missing) == len(known.traces):
        return ExitReason(kind="launch", message=plain)
    lines = message(known.launcher_log) or "the launcher wrote nothing"
    began = len(known.traces) - len(missing)
    how = f" ({RootCause(0, known.launcher_exit).words()})" if known.launcher_exit else ""
    who = f"the launcher ended before any rank began{how}" if not began else (
        f"only {began} of {len(known.traces)} ranks began (missing: {', '.join(map(str, missing))})")
    return ExitReason(kind="launch", rank=missing[0] if began and missing else None, message=f"{who}: {lines}")


def _secondary(reason: ExitReason) -> bool:
    return bool(_SECONDARY.search(reason.message))


def _last_step(traces: list[RankTrace]) -> int | None:
    return max((trace.step for trace in traces if trace.step is not None), default=None)
