"""One clear line for each thing that happens: for pipes, CI, and terminals without a full screen."""

from __future__ import annotations

import os
import re
import threading
import time
from collections import deque
from pathlib import Path
from typing import Any, TextIO

from engine.contract.run_dir import RunDir, Status
from wizard import formatting
from wizard.monitor import health, words
from wizard.monitor.follow import follow
from wizard.monitor.reader import RunReader
from wizard.monitor.state import StepTotal, told_loss

#: A phase that goes on for so long tells its progress again.
PROGRESS_S = 10.0
#: When a run is joined in its middle, so much of its past is shown.
HISTORY_LINES = 20
_LABEL = 18
_COLOURS = {"finished": "32", "stopped": "33", "failed": "31", "lost": "31", "warning": "33", "not moving": "31"}


def follow_plain(run: RunDir, out: TextIO, stop_requested: threading.Event | None = None, *,
                 history: bool = True) -> Status:
    """Print the run's lines to `out` until it ends; returns its final status.

    Once `stop_requested` is set, a line says so (asking the ranks to stop is the caller's part). Without `history`
    a run that is already under way is joined with the last of its past lines, and of a resumed run only the attempt
    that goes on now is told. Raises OSError when `out` is closed.
    """
    lines = PlainLines(run, out, stop_requested, history)
    status = follow(lines.reader, lines.after_poll)
    lines.end(status)
    return status


class PlainLines:
    """Turns events into lines. Lines of one poll are ordered by time before they are printed."""

    def __init__(self, run: RunDir, out: TextIO, stop_requested: threading.Event | None = None, history: bool = True,
                 reader: RunReader | None = None):
        self.reader = reader or RunReader(run)
        self.reader._listener = self._listen
        self.run, self.out = run, out
        self._stop_requested, self._told_stop = stop_requested, False
        self._colour = hasattr(out, "isatty") and out.isatty() and not os.environ.get("NO_COLOR")
        self._batch: list[tuple[float, str]] = []
        self._past: deque[tuple[float, str]] | None = None if history else deque(maxlen=HISTORY_LINES)
        self._past_seen = 0
        self._from_attempt = 0 if history else run.latest_attempt()
        self._announced = 0
        self._phase: str | None = None
        self._phase_told = 0.0
        self._detail: tuple[float, str] | None = None
        self._last_step = 0
        self._stall: health.Stall | None = None
        self._told: set[str] = set()
        self._stopping = False

    def after_poll(self) -> None:
        """Print what the poll brought."""
        state = self.reader.state
        if state.attempt > self._announced:
            began = state.status.started_unix_s if state.status and not self._announced else time.time()
            self._announce(state.attempt, began)
        self._watch_health()
        self._tell_problems()
        if state.state == "stopping" and not self._stopping:
            self._stopping = True
            self._say(time.time(), "stopping", words.stopping_words(state))
        if self._stop_requested is not None and self._stop_requested.is_set() and not self._told_stop:
            self._told_stop = True
            self._say(time.time(), "stop requested", "checkpoint first; once more to stop at once")
        batch, self._batch = sorted(self._batch, key=lambda line: line[0]), []
        if self._past is not None:
            self._past.extend(batch)
            self._past_seen += len(batch)
            if not self.reader.caught_up:
                return
            left_out = self._past_seen - len(self._past)
            if left_out:
                self.out.write(f"({left_out:,} earlier lines left out)\n")
            batch, self._past = list(self._past), None
        for at, text in batch:
            self.out.write(f"{time.strftime('%H:%M:%S', time.localtime(at))} {text}\n")
        if batch:
            self.out.flush()

    def end(self, status: Status) -> None:
        """The last line: how it ended."""
        state = self.reader.state
        if status.state == "finished":
            parts = [f"loss {formatting.loss(state.loss.last)}"] if len(state.loss) or state.task != "script" else []
            if state.last_step is not None:
                parts.append(f"mean {words.speed_mean(state)}{self._of_here()}")
            text = "  ".join(parts)
            if model := shown_model(self.run, status, state.task):
                text += f"  model {model}"
            if status.exit_reason is not None and status.exit_reason.kind == "early_stopped":
                text = f"early, no more improvement  {text}"
        elif status.state == "stopped":
            saved = state.checkpoint
            where = f"; checkpoint {self._inside(saved['path'])}" if saved and saved.get("path") else ""
            text = f"on request after step {state.step:,}{where}"
        else:
            message = words.one_line(status.exit_reason.message) if status.exit_reason else ""
            text = words.reason_words(status.exit_reason) + (f": {message}" if message else "")
        self._past = None
        self._say(status.ended_unix_s or time.time(), status.state, text)
        self.after_poll()

    def _say(self, at: float, label: str, text: str = "") -> None:
        padded = f"{label:<{_LABEL}}"
        if self._colour and label in _COLOURS:
            padded = f"\x1b[{_COLOURS[label]}m{padded}\x1b[0m"
        self._batch.append((at, f"{padded}  {text}".rstrip()))

    def _announce(self, attempt: int, at: float) -> None:
        state = self.reader.state
        again = f"attempt {attempt}, " if attempt > 1 else ""
        count = state.world_size
        ranks = "" if count is None else "1 rank" if count == 1 else f"{count} ranks"
        ranks += f" ({here} here)" if (here := words.here_words(state)) else ""
        over = f" over {state.backend}" if words.has_backend(state) else ""
        where = " (cpu)" if state.schedule.on_cpu else ""
        self._announced, self._stopping = attempt, False
        self._say(at, f"starting {again}{ranks}{over}{where}".rstrip(), f"run {shown_path(self.run.root)}")

    def _listen(self, event: dict[str, Any], total: StepTotal | None) -> None:
        kind, at = event["event"], event["t_unix_s"]
        if event["attempt"] < self._from_attempt:
            return
        if event["attempt"] > self._announced:
            self._announce(event["attempt"], at)
        if total is not None:
            self._step(total)
        elif kind == "phase" and event["rank"] == self.reader.state.first_rank:
            self._enter(event)
        elif kind == "evaluation":
            self._say(at, "evaluation", _evaluation(event))
        elif kind == "checkpoint":
            self._say(at, "checkpoint", f"step {event['step']:,}  {formatting.size(event.get('bytes'))}"
                                        f"  {self._inside(event.get('path') or '')}")
        elif kind == "warning":
            self._say(at, "warning", f"rank {event['rank']}: {words.one_line(event.get('message'))}")
        elif kind == "run_started" and event.get("resumed_from_step") is not None:
            self._say(at, "resumed", f"from step {event['resumed_from_step']:,}")

    def _inside(self, path: str) -> str:
        """A path as it is said from the run's folder, which the first line names."""
        try:
            return str(Path(path).relative_to(self.run.root))
        except ValueError:
            return path

    def _enter(self, event: dict[str, Any]) -> None:
        name, at = event.get("name") or "", event["t_unix_s"]
        detail = event.get("detail")
        if name != self._phase:
            if self._detail is not None:
                self._say(self._detail[0], self._phase or "", self._detail[1])
            self._phase, self._phase_told, self._detail = name, at, None
            # evaluations and checkpoints have a line of their own when they are done
            if name not in ("starting", "evaluating", "saving checkpoint", "training", "ending"):
                self._say(at, name, detail or "")
            return
        progress = event.get("progress")
        if detail and (progress is None or progress >= 1):
            self._detail = (at, detail)
        elif progress is not None and at - self._phase_told >= PROGRESS_S:
            self._phase_told = at
            self._say(at, name, words.phase_words("", progress, detail))

    def _step(self, total: StepTotal) -> None:
        state = self.reader.state
        every = (state.plan or {}).get("log_every") or state.schedule.log_every
        last = state.total_steps
        diverged = total.has_loss and total.loss is None
        if total.step != 1 and total.step % every and total.step != last and not diverged:
            return
        of = f"/{last}" if last else ""
        width = len(str(last)) if last else 6
        loss = f"loss {'NaN or infinite' if diverged else formatting.loss(total.loss)}  " if total.has_loss else ""
        text = f"{loss}{words.speed_now(state)}{self._of_here()}"
        eta = state.eta_s()
        if eta is not None and total.step != last:
            text += f"  eta {formatting.duration(eta)}"
        self._say(total.t_unix_s, f"step {total.step:>{width}}{of}", text)

    def _of_here(self) -> str:
        here = words.here_words(self.reader.state)
        return f" of {here}" if here else ""

    def _tell_problems(self) -> None:
        """What is odd about the run's files, each once however its numbers grow."""
        for problem in self.reader.problems():
            kind = re.sub(r"[\d,]+", "", problem)
            if kind not in self._told:
                self._told.add(kind)
                self._say(time.time(), "warning", problem)

    def _watch_health(self) -> None:
        before, stall = self._stall, health.stall(self.reader.state, time.time())
        if stall is not None and (before is None or before.key != stall.key):
            self._say(time.time(), "not moving", str(stall))
        elif stall is None and before is not None and self.reader.state.alive:
            self._say(time.time(), "moving again", before.who())
        self._stall = stall


def _evaluation(event: dict[str, Any]) -> str:
    """`step 40  loss 0.412  accuracy 0.912  took 3 s`, with what was told of it."""
    parts = [f"step {event['step']:,}"]
    if told_loss(event):
        loss = event.get("loss")
        parts.append(f"loss {'NaN or infinite' if loss is None else formatting.loss(loss)}")
    parts += [f"{name} {value}" for name, value in words.metrics(event)]
    if event.get("duration_s"):
        parts.append(f"took {formatting.duration(event['duration_s'])}")
    return "  ".join(parts)


def shown_path(path: str | Path) -> str:
    """A path as short as it can be said from the current folder."""
    path = Path(path)
    try:
        return str(path.relative_to(Path.cwd()))
    except (ValueError, OSError):
        return str(path)


def shown_model(run: RunDir, status: Status, task: str | None = None) -> str:
    """Where the model of a finished run is: rank 0's machine keeps it. Empty for a script that left none."""
    if task == "script" and not run.model.exists():
        return ""
    if status.model_path is None and not run.model.exists():
        return "on the first machine, in the run's folder there"
    return shown_path(status.model_path or run.model)
