"""Starting programs to be measured: plain ones and full-screen ones under a pseudo-terminal."""

from __future__ import annotations

import contextlib
import os
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil

from benchmarks.measure import Skipped

ROOT = Path(__file__).resolve().parents[1]
BASELINES = Path(__file__).parent / "baselines"
#: Control sequences, operating-system commands and the short escapes of a terminal.
_ESCAPES = re.compile(rb"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b\[[0-?]*[ -/]*[@-~]|\x1b[P_^][^\x1b]*\x1b\\|\x1b[ -/]*[0-OQ-Z\\`-~]")
_SIZE = (120, 40)


def wizard() -> list[str]:
    """The command as a person has it; its module where the script is not installed."""
    script = Path(sys.executable).with_name("autotrain-wizard")
    return [str(script)] if script.exists() else [sys.executable, "-m", "wizard.cli"]


@contextlib.contextmanager
def own_home() -> Iterator[dict[str, str]]:
    """An environment in which the wizard remembers nothing and leaves nothing: all its folders are temporary."""
    with TemporaryDirectory(prefix="benchmark-") as folder:
        env = {name: value for name, value in os.environ.items()
               if not name.startswith(("ACCELERATE_", "TORCHELASTIC_", "AUTOTRAIN_WIZARD_")) and name not in ("LINES", "COLUMNS", "NO_COLOR")}
        env.update(TERM="xterm-256color", COLORTERM="truecolor", AUTOTRAIN_WIZARD_RUNS=str(Path(folder, "runs")))
        for kind in ("STATE", "CONFIG", "CACHE"):
            env[f"XDG_{kind}_HOME"] = str(Path(folder, kind.lower()))
        yield env


def timed(argv: Sequence[str], env: Mapping[str, str]) -> tuple[float, float]:
    """Run a program to its end: (wall seconds, CPU seconds of it and what it waited for).

    Raises CalledProcessError when it does not end with 0.
    """
    began = time.perf_counter()
    process = subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, list(argv))
    return seconds, usage.ru_utime + usage.ru_stime


class Screen:
    """A program on a pseudo-terminal of 120 x 40. What it draws is read all the time, as a terminal would."""

    def __init__(self, argv: Sequence[str], env: Mapping[str, str]):
        try:
            import fcntl
            import pty
            import termios
        except ImportError:
            raise Skipped("no pseudo-terminals on this system") from None
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", _SIZE[1], _SIZE[0], 0, 0))
        self._text, self._changed, self._closing = b"", threading.Condition(), False
        self.began = time.perf_counter()
        self._process = subprocess.Popen(argv, env=env, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True)
        os.close(theirs)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Screen:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._closing = True
        self._reader.join()
        os.close(self._ours)

    def wait_for(self, word: str, timeout_s: float = 30.0) -> float:
        """Seconds from the start until `word` was drawn. Raises TimeoutError, with what was drawn instead."""
        wanted = word.encode()
        with self._changed:
            seen = self._changed.wait_for(lambda: wanted in self._text or self._process.poll() is not None, timeout_s)
            if seen and wanted in self._text:
                return self._at - self.began
            shown = self._text.decode(errors="replace").split()
        raise TimeoutError(f"{word!r} was not drawn in {timeout_s:.0f} s; the screen said: {' '.join(shown)[-300:]}")

    def cpu_seconds(self) -> float:
        """CPU time so far, of the program and of its children that have ended."""
        times = psutil.Process(self._process.pid).cpu_times()
        return times.user + times.system + times.children_user + times.children_system

    def _read(self) -> None:
        pending = b""
        while not self._closing:
            if not select.select([self._ours], [], [], 0.2)[0]:
                continue
            try:
                data = os.read(self._ours, 1 << 16)
            except OSError:  # Linux's way to say that the other side is closed
                data = b""
            now = time.perf_counter()
            with self._changed:
                pending += data
                cut = pending.rfind(b"\x1b")  # an escape may be cut in two; its rest comes with the next read
                cut = cut if len(pending) - cut < 64 and not _ESCAPES.match(pending, cut) and cut >= 0 else len(pending)
                self._text = (self._text + _ESCAPES.sub(b"", pending[:cut]))[-20_000:]
                pending, self._at = pending[cut:], now
                self._changed.notify_all()
            if not data:
                return


def need(*programs: str) -> None:
    """Raises Skipped when a program is not there."""
    for name in programs:
        if shutil.which(name) is None and not Path(name).exists():
            raise Skipped(f"{name} is not installed")
