"""The part of a rank's log that says what went wrong."""

from __future__ import annotations

import os
import re
from pathlib import Path

from engine.contract.run_dir import RunDir
from wizard.monitor.tail import plain_text

_NOISE = re.compile(
    r"^\s*$|^\s*[\^~]+\s*$|^\s*[-=*]{5,}\s*$|FutureWarning|UserWarning|DeprecationWarning|\bit/s\]|\bs/it\]|\d+%\|"
    r"|torch/distributed/(elastic|run|launcher)|accelerate/commands|File \"<frozen|^W\d{4} |^E\d{4} .*(elastic|api\.py)"
    r"|^\s*warnings\.warn\(|^=+$|ChildFailedError|^engine\.\w+ FAILED|^(Failures|Root Cause \(first observed failure\)):|^\[\d+\]:$|^\s*<\w+>$"
    r"|^  (time|host|rank|exitcode|error_file|traceback) *:|destroy_process_group\(\) was not called|Error in sys\.excepthook")
_TRACEBACK = "Traceback (most recent call last)"
_MESSAGE_LINES = 4
#: Errors that another rank's end causes: they are shown only where there is no other.
_SECONDARY = re.compile(r"Connection (closed|reset) by peer|Broken pipe|Timed out waiting \d+ms for (recv|send)")


def is_echo(message: str) -> bool:
    """Whether an error only says that another rank is gone."""
    return bool(_SECONDARY.search(message))


def last_lines(path: Path, read_bytes: int = 64 << 10) -> list[str]:
    """The end of a log as text; empty when it cannot be read."""
    try:
        with open(path, "rb") as handle:
            size = os.fstat(handle.fileno()).st_size
            handle.seek(max(0, size - read_bytes))
            data = handle.read(read_bytes)
    except OSError:
        return []
    lines = data.split(b"\n")
    return [plain_text(line) for line in (lines[1:] if size > read_bytes else lines)]


def meaningful(lines: list[str], count: int = 8) -> list[str]:
    """At most `count` lines: the end of the last traceback that is no echo, else the last lines that are no noise."""
    kept = _without_noise(lines)
    tracebacks = [_traceback(kept, index) for index, line in enumerate(kept) if _TRACEBACK in line]
    if not tracebacks:
        return kept[-count:]
    first_hand = [found for found in tracebacks if not _SECONDARY.search("\n".join(found))]
    return (first_hand or tracebacks)[-1][-count:]


def _without_noise(lines: list[str]) -> list[str]:
    """Without noise, and without the source lines that belong to frames of it."""
    kept, inside = [], False
    for line in lines:
        noise = bool(_NOISE.search(line))
        if line.lstrip().startswith('File "'):
            inside = noise
        elif not line[:1].isspace():
            inside = False
        if not noise and not inside:
            kept.append(line)
    return kept


def _traceback(lines: list[str], start: int) -> list[str]:
    """Frames and message of the traceback whose heading is at `start`."""
    end = start + 1
    while end < len(lines) and not lines[end][:1].strip():
        end += 1
    # the message is what stands at the margin: its first line, and a few more where it has several
    last = end + 1
    while last < len(lines) and last - end < _MESSAGE_LINES and _TRACEBACK not in lines[last] \
            and not lines[last].startswith(("During handling", "The above exception")):
        last += 1
    return lines[start + 1:last]


def failure_lines(run: RunDir, rank: int | None, count: int = 8) -> tuple[Path | None, list[str]]:
    """(file, lines) that tell best why a run failed: the rank's log, else the launcher's."""
    logs = run.log_files()
    candidates = [logs[rank]] if rank in logs else []
    candidates += [run.launcher_log] + [path for other, path in logs.items() if other != rank]
    best: tuple[Path | None, list[str]] = (None, [])
    for path in candidates[:64]:
        lines = last_lines(path)
        found = meaningful(lines, count)
        if not found:
            continue
        if rank is not None or any(_TRACEBACK in line for line in lines):
            return path, found
        best = best if best[0] else (path, found)
    return best
