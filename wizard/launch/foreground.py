"""A command that stays with its run: signals become stop requests, the outcome becomes the exit code."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterator
from typing import Any, TextIO

from engine.contract.events import parse_line
from engine.contract.run_dir import ENDED, RunDir, Status
from wizard.errors import ExitCode, WizardError
from wizard.launch.liveness import current_status
from wizard.monitor import outcome
from wizard.monitor.json_lines import follow_json
from wizard.monitor.plain import follow_plain
from wizard.monitor.tail import LineTail

_POLL_S = 0.3


class HungUp(BaseException):
    """The terminal is gone; the run goes on. No Exception, so that nothing on the way mistakes it for a fault."""


class StopSignals:
    """Ctrl-C or SIGTERM asks the run to stop with a checkpoint, a second one at once, hang-up leaves it alone.

    The first signal decides the exit code (130 or 143) of a run that then is stopped. It listens before there is a
    run, so that none can be started and then left alone by a signal in between; `attach` carries out what came.
    """

    def __init__(self, run: RunDir | None = None):
        self.run = run
        self.first: int | None = None
        self.quiet = False
        self._count = 0
        self._hung_up = False

    @contextlib.contextmanager
    def listening(self) -> Iterator[StopSignals]:
        handlers = {signal.SIGINT: self._stop, signal.SIGTERM: self._stop, signal.SIGHUP: self._hang_up}
        # a shell that put us in the background, or nohup, had a reason to ignore one of them
        mine = {number: handler for number, handler in handlers.items() if signal.getsignal(number) is not signal.SIG_IGN}
        before = {number: signal.signal(number, handler) for number, handler in mine.items()}
        try:
            yield self
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def attach(self, run: RunDir) -> None:
        """The run that was just started. Raises HungUp when the terminal has gone meanwhile."""
        self.run = run
        if self.first is not None:
            self._request(self.first)
        if self._hung_up:
            raise HungUp

    def _stop(self, number: int, _frame: object) -> None:
        self._count += 1
        self.first = self.first or number
        if self.run is not None:
            self._request(number)

    def _request(self, number: int) -> None:
        again = "Ctrl-C again" if number == signal.SIGINT else "SIGTERM again"
        if self._count == 1:
            self._say(f"stopping with a checkpoint at the end of this step; {again} stops at once")
        elif self._count == 2:
            self._say("stopping at once, without a checkpoint")
        try:
            self.run.request_stop(checkpoint=self._count == 1)
        except OSError as error:
            self._say(f"the stop request cannot be written ({error.strerror}); telling the supervisor itself")
            self._tell_supervisor()

    def _say(self, text: str) -> None:
        if not self.quiet:
            say(text)

    def _tell_supervisor(self) -> None:
        from wizard.launch import processes

        status = self.run.read_status()
        for record in status.processes if status else []:
            found = processes.find(record) if record.role == "supervisor" else None
            if found:
                processes.send([found], signal.SIGTERM)

    def _hang_up(self, *_: object) -> None:
        self._hung_up = True
        if self.run is not None:
            raise HungUp

    def code(self, status: Status) -> ExitCode:
        if status.state == "stopped" and self.first is not None:
            return ExitCode.INTERRUPTED if self.first == signal.SIGINT else ExitCode.TERMINATED
        return outcome.exit_code(status)


class PatientOutput:
    """An output whose reader may leave (`| head`): the run and its exit code matter more, so the rest goes nowhere."""

    def __init__(self, stream: TextIO):
        self._stream: TextIO | None = stream

    def write(self, text: str) -> int:
        self._try("write", text)
        return len(text)

    def flush(self) -> None:
        self._try("flush")

    def isatty(self) -> bool:
        return self._stream is not None and self._stream.isatty()

    def _try(self, name: str, *args: str) -> None:
        if self._stream is None:
            return
        try:
            getattr(self._stream, name)(*args)
        except OSError:
            self._stream = None
            say("nobody reads the output any more; waiting for the run's end (Ctrl-C stops it)")
            with contextlib.suppress(OSError, ValueError):  # or the interpreter complains on its way out
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def follow_to_end(run: RunDir, signals: StopSignals, as_json: bool, history: bool = True) -> ExitCode:
    """Print the run until it ends; the exit code says how. Raises HungUp; `signals` is listening."""
    out: Any = PatientOutput(sys.stdout)
    if as_json:
        status = follow_json(run, out)
    else:
        status = follow_plain(run, out, history=history)
        out.write(outcome.summary(run, status) + "\n")
    out.flush()
    return signals.code(status)


def wait_for_first_step(run: RunDir, signals: StopSignals) -> ExitCode:
    """OK once this attempt has made a step (or has finished); the outcome's code and its words if it ends before."""
    attempt = run.latest_attempt()
    tails: dict[int, LineTail] = {}
    while True:
        status = current_status(run)
        if _step_seen(run, attempt, tails):
            return ExitCode.OK
        if status is not None and status.state in ENDED:
            if status.state != "finished":
                say(outcome.summary(run, status))
            return signals.code(status)
        if status is None and not run.root.is_dir():
            raise WizardError(f"{run.root}: the run's folder was removed", code=ExitCode.LOST)
        time.sleep(_POLL_S)


def _step_seen(run: RunDir, attempt: int, tails: dict[int, LineTail]) -> bool:
    for rank, path in run.event_files().items():
        for line in tails.setdefault(rank, LineTail(path)).poll():
            event = parse_line(line) if b'"step"' in line else None
            if event and event["event"] == "step" and event.get("attempt") == attempt:
                return True
    return False


def say(text: str) -> None:
    """Narration on stderr, which may be gone."""
    with contextlib.suppress(OSError, ValueError):
        print(text, file=sys.stderr, flush=True)
