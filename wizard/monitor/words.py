"""A run's state as sentences: the same words in the monitor, in plain lines and in the closing summary."""

from __future__ import annotations

import re
from typing import Any

from engine.contract.events import ExitReason
from engine.contract.run_dir import Status
from wizard import formatting
from wizard.monitor import health, logs
from wizard.monitor.ranks import RankState
from wizard.monitor.state import RunState

_KINDS = {
    "completed": "all steps done", "early_stopped": "stopped early: evaluation no longer improved",
    "requested": "stopped on request", "preset": "the preset cannot be used", "data": "the data cannot be used",
    "model": "the model cannot be used", "exception": "an error in the training", "out_of_memory": "out of memory",
    "non_finite": "the loss is no longer a number", "disk": "could not write to the disk",
    "signal": "ended by a signal", "hung": "a rank stopped moving", "launch": "the ranks could not be started",
    "lost": "the run's processes are gone",
}

#: Of the rank that the verdict names, where it said nothing itself.
_KINDS_OF_RANK = {"out_of_memory": "out of memory", "hung": "stopped moving", "lost": "gone", "disk": "disk full"}
_KILLED = re.compile(r"killed by (SIG[A-Z0-9]+|signal \d+)")


def reason_words(reason: ExitReason | None) -> str:
    """`rank 1: out of memory`, from the closed set of kinds."""
    if reason is None:
        return "no reason was recorded"
    text = _KINDS.get(reason.kind, reason.kind)
    return f"rank {reason.rank}: {text}" if reason.rank is not None else text


def state_words(state: RunState, now_s: float) -> str:
    """One or two words for the header: `running`, `evaluating`, `failed`."""
    if state.state == "running" or (state.state == "starting" and state.ranks):
        if health.stall(state, now_s) is not None:
            return "not moving"
        phase = current_phase(state)
        if phase and phase != "training":
            return "starting" if phase == "starting" else phase
        return "running" if phase == "training" else state.state
    return state.state


def current_phase(state: RunState) -> str | None:
    """The phase of rank 0, or of the lowest rank that spoke."""
    rank = state.ranks.get(min(state.ranks)) if state.ranks else None
    return rank.phase if rank else None


def phase_words(phase: str | None, progress: float | None, detail: str | None) -> str:
    """`loading data 40 %: 41,204 texts`; without the phase (where a label says it) `40 %: 41,204 texts`."""
    share = formatting.percent(progress) if progress is not None and progress < 1 else ""
    text = " ".join(part for part in ("starting" if phase is None else phase, share) if part)
    return f"{text}: {detail}" if text and detail else text or detail or ""


def activity(state: RunState, now_s: float) -> str:
    """What is going on, or what is wrong: the line a person reads first."""
    status = state.status
    if status is not None and not state.alive:
        return ended_words(status, state)
    if state.state == "stopping":
        return f"stopping: {stopping_words(state)}"
    stall = health.stall(state, now_s)
    if stall is not None:
        return str(stall)
    if not state.ranks:
        return "starting the ranks" if state.ranks_here is None else "waiting for the other machines"
    first = state.ranks[min(state.ranks)]
    behind = [rank for rank in state.ranks.values() if rank.phase != first.phase and rank.ended is None]
    words = phase_words(first.phase, first.progress, first.detail)
    if first.phase != "training":
        expected = len(state.ranks_here) if state.ranks_here else state.world_size or len(state.ranks)
        missing = expected - len(state.ranks)
        if missing > 0:
            return f"{words}; waiting for {missing} of {expected} ranks to start"
        return f"{words} (rank {behind[0].rank}: {behind[0].phase})" if behind else words
    return findings(state) or f"{trained_words(state)}{paused_words(state)}"


def trained_words(state: RunState) -> str:
    """`2 ranks train in fp32`."""
    count = state.world_size or len(state.ranks)
    if state.task == "script":
        return "1 rank runs the script" if count == 1 else f"{count:,} ranks run the script"
    text = "1 rank trains" if count == 1 else f"{count:,} ranks train"
    return f"{text} in {state.precision}" if state.precision else text


def paused_words(state: RunState) -> str:
    """` · paused 7 s for evaluation, 4 s for checkpoints`: time that throughput leaves out, from a second on."""
    parts = []
    if state.evaluation_s >= 1:
        parts.append(f"{formatting.duration(state.evaluation_s)} for evaluation")
    if state.checkpoint_s >= 1:
        parts.append(f"{formatting.duration(state.checkpoint_s)} for checkpoints")
    return f" · paused {', '.join(parts)}" if parts else ""


def findings(state: RunState) -> str | None:
    """The most important oddity of a run that goes on, or None."""
    if state.loss.non_finite:
        return f"loss: {bad_values(state.loss)}"
    if state.grad_norm.non_finite and state.grad_norm.last is None and not state.loss.non_finite \
            and state.grad_norm.first_non_finite == state.step:
        return f"gradient norm: {bad_values(state.grad_norm)}"
    slow = health.straggler(state)
    if slow is not None:
        host = state.ranks[slow.rank].host
        return f"{slow}{f', on {host}' if host else ''}"
    if state.warnings:
        last = state.warnings[-1]
        return f"warning of rank {last['rank']}: {one_line(last.get('message'))}"
    return None


def bad_values(series: Any) -> str:
    """`NaN at step 12 (and 3 more times)`; the event files write null for NaN and infinity alike."""
    more = series.non_finite - 1
    times = f" (and {more:,} more {'time' if more == 1 else 'times'})" if more else ""
    return f"NaN or infinite at step {series.first_non_finite:,.0f}{times}"


def ended_words(status: Status, state: RunState | None = None) -> str:
    """How a run ended, in one line."""
    reason = status.exit_reason
    if status.state == "finished":
        if reason is not None and reason.kind == "early_stopped":
            return "finished early: evaluation no longer improved"
        return "finished: all steps done"
    if status.state == "stopped":
        at = state.step if state is not None else reason.step if reason else None
        return f"stopped on request after step {at:,}" if at is not None else "stopped on request"
    message = one_line(reason.message) if reason else ""
    return f"{status.state}: {reason_words(reason)}{f': {message}' if message else ''}"


def where_words(status: Status, state: RunState | None = None) -> str:
    """`failed at step 12 after 14 s`."""
    text = status.state
    reason = status.exit_reason
    step = reason.step if reason and reason.step is not None else state.step if state and state.ranks else None
    if step is not None and status.state in ("failed", "lost"):
        text += f" at step {step:,}"
    if status.ended_unix_s is not None:
        text += f" after {formatting.duration(max(0.0, status.ended_unix_s - status.started_unix_s))}"
    return text


def one_line(text: Any, limit: int = 300) -> str:
    """Text of unknown origin on one line, cut at `limit`."""
    words = " ".join(str(text or "").split())
    return words if len(words) <= limit else words[: limit - 1] + "…"


def here_words(state: RunState) -> str | None:
    """`rank 1`, `ranks 4 to 7`: those whose numbers are known here, where other machines keep theirs; else None."""
    here = state.ranks_here
    if here is None:
        return None
    return f"rank {here.start}" if len(here) == 1 else f"ranks {here.start} to {here.stop - 1}"


def has_backend(state: RunState) -> bool:
    """Whether the ranks talk to each other, as far as is known; a script may not have joined them yet."""
    return state.backend not in (None, "none") and " " not in state.backend


def backend_words(state: RunState) -> str:
    """`NCCL DDP x4`, `single x1`, `GLOO DDP x2 (rank 1 here)`."""
    parts = [state.backend.upper()] if has_backend(state) else []
    if state.strategy:
        parts.append(state.strategy if state.strategy in ("single", "script") else state.strategy.upper())
    if state.world_size:
        parts.append(f"x{state.world_size}")
    if here := here_words(state):
        parts.append(f"({here} here)")
    return " ".join(parts)


def speed_now(state: RunState) -> str:
    """`1.2k tokens/s`, or samples or steps where tokens are not told (a script's own choice)."""
    return f"{formatting.rate(state.throughput.now())} {state.throughput.unit}/s"


def speed_mean(state: RunState) -> str:
    """The same over the whole attempt."""
    return f"{formatting.rate(state.throughput.mean())} {state.throughput.unit}/s"


def metrics(evaluation: dict[str, Any] | None) -> list[tuple[str, str]]:
    """What was measured beside the loss, as (name, value): `accuracy`, `0.912`."""
    told = (evaluation or {}).get("metrics") or {}
    return [(one_line(name, 30).replace("_f1", " F1").replace("_", " "), formatting.rate(value)) for name, value in told.items()
            if value is None or isinstance(value, (int, float))]


def rank_end_words(state: RunState, rank: RankState) -> tuple[str, bool]:
    """(how a rank of a run that has ended came to its end, whether it is at fault).

    A rank that was killed said nothing, and one whose peer is gone fails in its next collective: for both the verdict
    on the whole run knows better than the rank itself.
    """
    reason = state.status.exit_reason if state.status else None
    at_fault = reason is not None and reason.rank == rank.rank and state.state == "failed"
    if rank.ended is None:
        if at_fault:
            killed = _KILLED.search(reason.message)
            return killed.group() if killed else _KINDS_OF_RANK.get(reason.kind, "failed"), True
        if state.state in ("lost", "stopped"):
            return state.state, state.state == "lost"
        return _after(reason), False
    if rank.ended == "failed" and not at_fault and reason is not None and reason.rank is not None:
        culprit = state.ranks.get(reason.rank)
        silent = culprit is None or culprit.ended is None
        if silent or logs.is_echo(str((rank.exit_reason or {}).get("message") or "")):
            return _after(reason), False
    return rank.ended, rank.ended == "failed"


def _after(reason: ExitReason | None) -> str:
    return "ended with the run" if reason is None or reason.rank is None else f"ended after rank {reason.rank}"



def stopping_words(state: RunState) -> str:
    """What a run that is to stop does first."""
    return "the script is asked to end" if state.task == "script" else "a checkpoint is written at the end of this step"
