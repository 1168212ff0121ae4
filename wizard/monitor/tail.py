"""Following files that another process appends to, by byte offset: never a line twice, never half a line."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from engine.contract.events import parse_line

#: Read at most so much of one file in one poll; the rest waits for the next.
READ_BYTES = 1 << 20
#: A line longer than this is not one of ours: it is dropped, so that memory stays bounded.
LINE_BYTES = 1 << 20


class LineTail:
    """Complete lines of a growing file.

    `restarts` counts how often the file was replaced or became shorter (it is then read from its start), `dropped`
    the lines that were too long, `behind` is what is left to read in bytes, `error` why the file could not be read
    at the last poll.
    """

    def __init__(self, path: Path, read_bytes: int = READ_BYTES):
        self.path, self.read_bytes = path, read_bytes
        self.offset = 0
        self.behind = 0
        self.restarts = 0
        self.dropped = 0
        self.error: str | None = None
        self._rest = b""
        self._inode: int | None = None
        self._skip_line = False

    def poll(self) -> list[bytes]:
        """The lines completed since the last call, without their line end. Never raises OSError."""
        self.error = None
        try:
            with open(self.path, "rb") as handle:
                found = os.fstat(handle.fileno())
                if found.st_size < self.offset or (self._inode is not None and found.st_ino != self._inode):
                    self._restart()
                self._inode = found.st_ino
                if found.st_size == self.offset:
                    self.behind = 0
                    return []
                handle.seek(self.offset)
                data = handle.read(self.read_bytes)
        except FileNotFoundError:
            self.error = None if self._inode is None else "its events are gone"
            return []
        except OSError as error:
            self.error = error.strerror or str(error)
            return []
        self.offset += len(data)
        self.behind = max(0, found.st_size - self.offset)
        return self._split(data)

    def _restart(self) -> None:
        self.offset, self._rest, self._skip_line = 0, b"", False
        self.restarts += 1

    def _split(self, data: bytes) -> list[bytes]:
        *lines, self._rest = (self._rest + data).split(b"\n")
        if lines and self._skip_line:
            lines.pop(0)
            self._skip_line = False
        if len(self._rest) > LINE_BYTES:
            self._rest = b""
            self.dropped += not self._skip_line
            self._skip_line = True
        return lines


class EventTail:
    """Events of one rank as plain dicts, in the order they were written."""

    def __init__(self, path: Path, read_bytes: int = READ_BYTES):
        self._lines = LineTail(path, read_bytes)
        self.unreadable = 0

    @property
    def behind(self) -> int:
        """Bytes that were there at the last poll and not read yet."""
        return self._lines.behind

    @property
    def read_bytes(self) -> int:
        return self._lines.read_bytes

    @read_bytes.setter
    def read_bytes(self, value: int) -> None:
        self._lines.read_bytes = value

    @property
    def restarts(self) -> int:
        return self._lines.restarts

    @property
    def error(self) -> str | None:
        return self._lines.error

    def poll(self) -> list[dict[str, Any]]:
        """New events; a half-written last line is kept for the next call, lines that are no events are counted."""
        events = []
        for line in self._lines.poll():
            event = parse_line(line) if line.strip() else None
            if event is not None:
                events.append(event)
            elif line.strip():
                self.unreadable += 1
        return events


_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_SHOWN = 2_000


def plain_text(line: bytes | str) -> str:
    """One line of a log as it would be left on a terminal: the last state of a progress bar, no control codes."""
    text = line.decode("utf-8", "replace") if isinstance(line, bytes) else line
    text = text.rstrip("\r\n")
    text = _CONTROL.sub("", _ESCAPES.sub("", text.rpartition("\r")[2])).expandtabs(4).rstrip()
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


class LogTail:
    """A log as text, from its last `first_bytes` on."""

    def __init__(self, path: Path, first_bytes: int = 64 << 10):
        self.path = path
        self._first_bytes = first_bytes
        self._lines: LineTail | None = None

    def poll(self) -> list[str]:
        """Lines completed since the last call. A file that is not there yet has none."""
        if self._lines is None:
            try:
                size = os.stat(self.path).st_size
            except OSError:
                return []
            self._lines = LineTail(self.path)
            if size > self._first_bytes:
                self._lines.offset = size - self._first_bytes
                self._lines._skip_line = True
        return [plain_text(line) for line in self._lines.poll()]
