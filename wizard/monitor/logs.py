"""The part of a rank's log that says what went wrong."""

from __future__ import annotations

import os
import re
from pathlib import Path

from engine.contract.run_dir import RunDir
from wizard.monitor.tail import plain_text

_NOISE = re.compile(
    r"^\s*$|^\s*[\^~]+\s*$|^\s*[-=*]{5,}\s*$|FutureWarning|UserWarning|DeprecationWarning|\bit/s\]|\bs/it\]|\d+%\|"
    r"|torch/distributed/(elastic|run|launcher)|accelerate/commands|^W\d{4} |^E\d{4} .*(elastic|api\.py)"
    r"|^\s*warnings\.warn\(|destroy_process_group\(\) was not called|Error in sys\.excepthook")
_TRACEBACK = "Traceback (most recent call last)"
#: Errors that another rank's end causes: they are shown only where there is no other.
_SECONDARY = re.compile(r"Connection (closed|reset) by peer|Broken pipe|Timed out waiting \d+ms for (recv|send)")


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
    """At most `count` lines: the last traceback's end, else the last lines that are no noise."""
    starts = [index for index, line in enumerate(lines) if _TRACEBACK in line]
    first_hand = [index for index in starts if not _SECONDARY.search("\n".join(lines[index:index + 60]))]
    begin = (first_hand or starts or [0])[-1]
    kept = [line for line in lines[begin:] if not _NOISE.search(line)]
    if not starts:
        return kept[-count:]
    body = kept[1:]
    # the message of the error is the first line at the margin; what follows belongs to something else
    end = next((i for i, line in enumerate(body) if line[:1].strip()), len(body) - 1)
    tail = 0
    while end + 1 + tail < len(body) and tail < 3 and not body[end + 1 + tail].startswith((" ", "Traceback", "During")):
        tail += 1
    return body[: end + 1 + tail][-count:]


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
