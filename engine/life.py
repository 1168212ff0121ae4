"""The life of one rank as its watchers see it: output, events, phases, heartbeat, signals, last word."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import threading
import time
from typing import Any

from engine.contract.events import EventWriter
from engine.contract.run_dir import RunDir

HEARTBEAT_S = 5.0
_PROGRESS_S = 0.5
#: systemd and Slurm signal every process of a job, and the launcher passes its own on: one wish that arrives twice.
_SAME_SIGNAL_S = 1.0
_PR_SET_PDEATHSIG = 1


class Life:
    """Everything a rank tells about itself. Made before the heavy imports, so that no second is silent."""

    def __init__(self, run: RunDir, rank: int, attempt: int):
        self.run, self.rank, self.attempt = run, rank, attempt
        self.step = 0
        self.phase_name = "starting"
        self.stop_signal: int | None = None
        #: Whether a finished training leaves a model in the run's folder.
        self.expects_model = True
        #: How the training ended and where the model is, once it is: from then on a signal cuts short what is extra.
        self.result: tuple[str, str] | None = None
        self._signalled_at = 0.0
        self._phase_began = self._progress_at = time.monotonic()
        self._phase_limit_s: float | None = None
        self._ended = threading.Event()
        run.ranks.mkdir(mode=0o700, exist_ok=True)
        run.logs.mkdir(mode=0o700, exist_ok=True)
        _redirect_output(run.log(rank))
        _die_with_parent()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        self.events = EventWriter(run.events(rank), rank, attempt)
        self._write_phase(None, None)
        #: Called at each heartbeat, for samples of the machine; set once the libraries are there.
        self.sampler: Any = None
        threading.Thread(target=self._beat, name="heartbeat", daemon=True).start()

    def phase(self, name: str, progress: float | None = None, detail: str | None = None,
              s_limit: float | None = None) -> None:
        """Enter a phase, or tell its progress (0 to 1; told at most twice a second).

        `s_limit`: the longest it may take before it counts as hung, in seconds; it stays with the phase.
        """
        now = time.monotonic()
        if name != self.phase_name:
            self.phase_name, self._phase_began, self._phase_limit_s = name, now, s_limit
        elif progress is not None and progress < 1 and now - self._progress_at < _PROGRESS_S:
            return
        self._progress_at = now
        self._write_phase(progress, detail)

    def _write_phase(self, progress: float | None, detail: str | None) -> None:
        self.events.write("phase", name=self.phase_name, progress=progress, detail=detail, s_limit=self._phase_limit_s)

    def warn(self, kind: str, message: str) -> None:
        say(f"warning: {message}")
        self.events.write("warning", kind=kind, message=message)

    def end(self, state: str, kind: str, message: str = "", model_path: str | None = None) -> None:
        """The rank's last event; later calls are ignored, so the first reason stands."""
        if self._ended.is_set():
            return
        self._ended.set()
        reason = {"kind": kind, "rank": self.rank, "step": self.step, "message": message}
        self.events.write("run_ended", state=state, exit_reason=reason, step=self.step, model_path=model_path,
                          model_expected=self.expects_model)

    def _beat(self) -> None:
        while not self._ended.wait(HEARTBEAT_S):
            self.events.write("heartbeat", phase=self.phase_name, step=self.step,
                              s_in_phase=round(time.monotonic() - self._phase_began, 1))
            sampler = self.sampler
            if sampler is not None:
                try:
                    self.events.write("sample", **sampler())
                except Exception as error:  # a look at the machine must never end the training
                    self.sampler = None
                    self.events.write("warning", kind="sampler", message=f"no more device samples: {error}")

    def _on_signal(self, number: int, _frame: object) -> None:
        now = time.monotonic()
        if self.stop_signal is not None and now - self._signalled_at < _SAME_SIGNAL_S:
            return
        if self.stop_signal is not None or self.phase_name == "ending":
            os._exit(128 + number)
        self.stop_signal, self._signalled_at = number, now
        if self.result is not None:
            kind, path = self.result
            self.warn("cut_short", f"{signal.Signals(number).name} while {self.phase_name}; the model is whole")
            self.end("finished", kind, model_path=path)
            os._exit(0)
        if self.phase_name not in ("training", "evaluating", "saving checkpoint"):
            # nothing has been trained yet, or all of it has: there is no step boundary to wait for
            self.end("stopped", "requested", f"{signal.Signals(number).name} while {self.phase_name}")
            os._exit(128 + number)


def say(text: str) -> None:
    """A line for the rank's log; lost when the disk is full, since what it tells of matters more."""
    with contextlib.suppress(OSError):
        print(text, flush=True)


def _redirect_output(path: os.PathLike[str]) -> None:
    """Send this process's stdout and stderr, C++ libraries' included, to `path`, as text that is never held back."""
    sys.stdout.flush()
    sys.stderr.flush()
    target = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for stream in (1, 2):
        os.dup2(target, stream)
    os.close(target)
    sys.stdout.reconfigure(line_buffering=True, errors="backslashreplace")
    sys.stderr.reconfigure(line_buffering=True, errors="backslashreplace")


def _die_with_parent() -> None:
    """End this rank when its launcher is killed: ranks lead their own process groups and would live on as orphans.

    Linux only (prctl(2)); elsewhere the supervisor ends recorded ranks.
    """
    if not sys.platform.startswith("linux"):
        return
    parent = os.getppid()
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it died between the two calls
        os._exit(128 + signal.SIGKILL)
