"""What the launcher's own output says: the first rank that failed, and the lines a person should see."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass
from pathlib import Path

from wizard.monitor.logs import meaningful
from wizard.monitor.tail import plain_text

_TAIL_BYTES = 256 * 1024
_ROOT_CAUSE = re.compile(
    r"Root Cause \(first observed failure\):.*?rank\s*:\s*(\d+).*?exitcode\s*:\s*(-?\d+)", re.DOTALL)
_FAILURE = re.compile(r"^ *rank *: (\d+) \(local_rank: \d+\)\n *exitcode *: (-?\d+)", re.MULTILINE)
_SINGLE_EXIT = re.compile(r"returned non-zero exit status (\d+)|died with <Signals\.\w+: (\d+)>")


@dataclass(frozen=True)
class RootCause:
    """The rank that torchrun saw fail first (always 0 for a single process) and its exit code; negative: a signal."""

    rank: int
    exitcode: int

    def words(self, doing: str = "") -> str:
        """How the rank ended; `doing` (such as ` while training`) stands before what is only likely."""
        if self.exitcode >= 0:
            return f"exit code {self.exitcode}{doing}"
        try:
            name = signal.Signals(-self.exitcode).name
        except ValueError:
            name = f"signal {-self.exitcode}"
        hint = "; when nobody sent it, it was most often the system's out-of-memory killer" if name == "SIGKILL" else ""
        return f"killed by {name}{doing}{hint}"


def read_tail(path: Path, limit: int = _TAIL_BYTES) -> str:
    """The end of a log as text, without half a first line; empty when it cannot be read."""
    try:
        with open(path, "rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - limit))
            data = file.read()
    except OSError:
        return ""
    if size > limit:
        data = data.partition(b"\n")[2]
    return data.decode("utf-8", "replace")


def root_cause(text: str) -> RootCause | None:
    """The last Root Cause block (a restarted group has several), or what the single-process launcher says."""
    blocks = list(_ROOT_CAUSE.finditer(text))
    if blocks:
        return RootCause(int(blocks[-1].group(1)), int(blocks[-1].group(2)))
    single = list(_SINGLE_EXIT.finditer(text))
    if single:
        code, number = single[-1].groups()
        return RootCause(0, int(code) if code is not None else -int(number))
    return None


def exit_codes(text: str) -> dict[int, int]:
    """Exit code of every rank that failed, by rank.

    Among ranks that end within one look of torchrun, its Root Cause is whichever it looked at first.
    """
    found = {int(rank): int(code) for rank, code in _FAILURE.findall(text)}
    root = root_cause(text)
    return found | ({root.rank: root.exitcode} if root else {})


def message(text: str) -> str:
    """The few lines of a log that say what went wrong, as one message."""
    return "\n".join(line.strip() for line in meaningful([plain_text(line) for line in text.split("\n")], count=4))
