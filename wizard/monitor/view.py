"""What the monitor shows, as text and numbers: made beside the screen, so that a test or another front end can read it."""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.contract.run_dir import RunDir, Status
from wizard import formatting
from wizard.monitor import health, words
from wizard.monitor.outcome import cause, log_end, result, resume, sample
from wizard.monitor.plain import shown_model
from wizard.monitor.ranks import PARTS, RankState
from wizard.monitor.series import Series, thin
from wizard.monitor.state import RunState

#: More rows than this help nobody: the worst are shown, and how many there are.
MOST_ROWS = 64
#: Points handed to a chart; a terminal has no more columns to draw.
CHART_POINTS = 400
_GAP = "-"


@dataclass(frozen=True)
class Curve:
    """Finite points over steps, and in words what could not be drawn."""

    x: tuple[float, ...] = ()
    y: tuple[float, ...] = ()
    bad: str = ""


@dataclass(frozen=True)
class RankRow:
    """One rank: cells by column name. `marked` rows need attention."""

    rank: int
    cells: dict[str, str]
    marked: bool = False


@dataclass(frozen=True)
class End:
    """How the run ended, for the panel that then takes the place of the charts."""

    title: str
    lines: tuple[str, ...]
    failed: bool


@dataclass(frozen=True)
class MonitorView:
    """One look at a run. Texts are ready to show; `None` and n/a mean unknown."""

    name: str
    words: str
    tone: str
    status: Status | None
    alive: bool
    step: int
    steps: str
    percent: str
    progress: float | None
    eta: str
    elapsed: str
    epoch: str
    backend: str
    attempt: int
    unit: str
    speed_now: str
    speed_mean: str
    speed_best: str
    samples_now: str
    seen: str
    loss: str
    eval_loss: str
    metrics: tuple[tuple[str, str], ...]
    metrics_first: bool
    learning_rate: str
    grad_norm: str
    pauses: str
    speed: Curve
    losses: Curve
    evaluations: Curve
    split: tuple[tuple[str, float | None], ...]
    step_ms: str
    columns: tuple[str, ...]
    rows: tuple[RankRow, ...]
    more_rows: int
    activity: str
    attention: bool
    problems: tuple[str, ...]
    ranks: tuple[int, ...] = ()
    end: End | None = None
    failed_rank: int | None = None
    facts: dict[str, str] = field(default_factory=dict)


def build_view(run: RunDir, state: RunState, now_s: float, problems: list[str] | None = None) -> MonitorView:
    """The view at `now_s` (Unix seconds). Reads the run's folder only when the run has ended."""
    stall = health.stall(state, now_s)
    slow = health.straggler(state) if state.alive else None
    columns, rows, more = _rank_rows(state, stall, slow)
    status, speed = state.status, state.throughput
    stuck = stall is not None
    rates = not stuck and state.alive
    counted = {"tokens": speed.tokens, "samples": speed.samples}.get(speed.unit)
    reason = status.exit_reason if status else None
    total = state.total_steps
    return MonitorView(
        name=state.name or run.root.parent.name, words=words.state_words(state, now_s),
        tone=_tone(state, stuck or bool(state.loss.non_finite)), status=status, alive=state.alive, step=state.step,
        steps=f"step {state.step:,} / {total:,}" if total else f"step {state.step:,}" if state.step else "",
        percent=formatting.percent(state.progress()) if total else "", progress=state.progress(),
        eta=f"ETA {formatting.duration(state.eta_s())}" if rates and state.eta_s() is not None else "",
        elapsed=formatting.duration(state.elapsed_s(now_s)), epoch=_epoch(state), backend=words.backend_words(state),
        attempt=state.attempt,
        unit=f"{speed.unit}/s", speed_now=formatting.rate(speed.now() if rates else None),
        speed_mean=formatting.rate(speed.mean()), speed_best=formatting.rate(speed.best),
        samples_now=formatting.rate(speed.samples_per_s_now() if rates and speed.unit == "tokens" else None),
        seen=formatting.count(counted) if counted else formatting.NA,
        loss=_last(state.loss), eval_loss=_last(state.eval_loss), metrics=tuple(words.metrics(state.evaluation)),
        metrics_first=not (state.task or "llm-").startswith("llm-"),
        learning_rate=f"{state.learning_rate.last:.2e}" if state.learning_rate.last is not None else formatting.NA,
        grad_norm=formatting.rate(state.grad_norm.last), pauses=_pauses(state),
        speed=_curve(state.speed), losses=_curve(state.loss), evaluations=_curve(state.eval_loss),
        split=_split(state), step_ms=_step_ms(state), columns=columns, rows=rows, more_rows=more,
        activity=words.activity(state, now_s),
        attention=stuck or state.state in ("failed", "lost") or (state.alive and words.findings(state) is not None),
        problems=tuple(problems or ()), ranks=tuple(sorted(state.ranks)),
        end=_end(run, state) if not state.alive else None, failed_rank=reason.rank if reason else None)


def _tone(state: RunState, trouble: bool) -> str:
    """good | busy | bad | done: the role of the colour; the words say the same."""
    if state.state in ("failed", "lost"):
        return "bad"
    if state.state == "finished":
        return "done"
    if trouble or state.state in ("stopping", "stopped"):
        return "warn"
    return "good" if words.current_phase(state) == "training" else "busy"


def _epoch(state: RunState) -> str:
    epoch = state.epoch()
    return f"epoch {epoch:.2f}" if epoch is not None and state.step else ""


def _last(series: Series) -> str:
    if series.last is None and series.non_finite:
        return "NaN or infinite"
    return formatting.loss(series.last)


def _pauses(state: RunState) -> str:
    """Time that throughput leaves out."""
    parts = []
    if state.evaluation_s:
        parts.append(f"evaluation {formatting.duration(state.evaluation_s)}")
    if state.checkpoint_s:
        parts.append(f"checkpoints {formatting.duration(state.checkpoint_s)}")
    return " · ".join(parts)


def _curve(series: Series) -> Curve:
    x, y = thin(*series.points(), CHART_POINTS)
    return Curve(tuple(x), tuple(y), words.bad_values(series) if series.non_finite else "")


def _split(state: RunState) -> tuple[tuple[str, float | None], ...]:
    """Mean share of a step by part over the ranks; a part that no rank knows is None. Empty before the first step."""
    splits = [split for rank in state.ranks.values() if (split := rank.split()).step]
    if not splits:
        return ()
    shares = []
    for part in PARTS:
        known = [share for split in splits if (share := split.share(part)) is not None]
        shares.append(("waiting" if part == "wait" else part, sum(known) / len(known) if known else None))
    return tuple(shares)


def _step_ms(state: RunState) -> str:
    times = [split.step for rank in state.ranks.values() if (split := rank.split()).step is not None]
    return _milliseconds(sum(times) / len(times)) if times else ""


def _milliseconds(value: float | None) -> str:
    if value is None:
        return _GAP
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}"


def _rank_rows(state: RunState, stall: health.Stall | None,
               slow: health.Straggler | None) -> tuple[tuple[str, ...], tuple[RankRow, ...], int]:
    ranks = sorted(state.ranks.values(), key=lambda rank: rank.rank)
    more = 0
    if len(ranks) > MOST_ROWS:
        named = stall.key if stall is not None else ()
        reason = state.status.exit_reason if state.status else None
        worst = sorted(ranks, key=lambda rank: (rank.rank not in named, reason is None or reason.rank != rank.rank,
                                                rank.ended != "failed", -(rank.split().step or 0)))
        more = len(ranks) - MOST_ROWS
        ranks = sorted(worst[:MOST_ROWS], key=lambda rank: rank.rank)
    gpu = any(rank.devices for rank in ranks)
    still = {found.rank: found for found in stall.ranks} if stall is not None else {}
    suspect = stall.suspect.rank if stall is not None and stall.suspect is not None else None
    hosts = len({rank.host for rank in ranks if rank.host}) > 1
    columns = ("rank", *(("host",) if hosts else ()), "doing", "step", "step ms", "waits",
               *(("gpu", "memory", "power", "temp") if gpu else ("cpu", "memory")))
    if not state.alive:  # how busy a process was that is gone says nothing
        columns = tuple(name for name in columns if name not in ("gpu", "cpu", "power", "temp"))
    rows = []
    for rank in ranks:
        doing, marked = _doing(state, rank, still.get(rank.rank), slow)
        marked = marked and suspect in (None, rank.rank)
        split = rank.split()
        cells = {"rank": str(rank.rank), "host": rank.host or _GAP, "doing": doing,
                 "step": f"{rank.step:,}" if rank.step < 1_000_000 else str(rank.step), "step ms": _milliseconds(split.step), "waits": _share(split.share("wait")), **_machine(rank, gpu)}
        rows.append(RankRow(rank.rank, {name: cells[name] for name in columns}, marked))
    return columns, tuple(rows), more


def _doing(state: RunState, rank: RankState, still: health.Still | None,
           slow: health.Straggler | None) -> tuple[str, bool]:
    if not state.alive:
        return words.rank_end_words(state, rank)
    if rank.ended is not None:
        return rank.ended, rank.ended == "failed"
    if still is not None:
        return f"stuck {formatting.duration(still.s)}", True
    if slow is not None and slow.rank == rank.rank:
        return f"slowest: {slow.part}", True
    return words.phase_words(rank.phase, rank.progress, None), False


def _machine(rank: RankState, gpu: bool) -> dict[str, str]:
    if not gpu:
        cpu = rank.machine.get("process_cpu_percent")
        memory = rank.machine.get("process_memory_bytes") or rank.max_allocated_bytes
        return {"cpu": f"{cpu:.0f} %" if isinstance(cpu, (int, float)) else _GAP,
                "memory": formatting.size(memory) if memory else _GAP}
    device = rank.devices[0] if rank.devices else {}
    used, total = device.get("memory_used_bytes"), device.get("memory_total_bytes")
    return {
        "gpu": _unit(device.get("utilization_percent"), "%"),
        "memory": f"{used / 1e9:.0f}/{total / 1e9:.0f} GB" if used is not None and total else _GAP,
        "power": _unit(device.get("power_w"), "W"), "temp": _unit(device.get("temperature_c"), "C"),
    }


def _share(value: float | None) -> str:
    return formatting.percent(value) if value is not None else _GAP


def _unit(value: float | None, unit: str) -> str:
    return f"{value:.0f} {unit}" if isinstance(value, (int, float)) else _GAP


def _end(run: RunDir, state: RunState) -> End:
    status = state.status
    lines: list[str] = []
    if status.state == "finished":
        if model := shown_model(run, status, state.task):
            lines.append(f"model   {model}")
        lines += [line.removeprefix("  ") for line in result(state) + sample(state)]
    elif status.state in ("failed", "lost"):
        lines += [line.removeprefix("  ") for line in cause(status)]
    if status.state != "finished":
        lines += [line.removeprefix("  ") for line in resume(run)] or ["resume  there is no checkpoint to resume from"]
    if status.state in ("failed", "lost"):
        lines += [line.removeprefix("  ") for line in log_end(run, status, 4)]
    return End(words.where_words(status, state), tuple(lines), status.state in ("failed", "lost"))
