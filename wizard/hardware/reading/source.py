"""Where pasted text comes from on the command line: a file, or standard input."""

from __future__ import annotations

import sys
from pathlib import Path

from wizard.errors import UsageError
from wizard.hardware.reading.read import MOST_CHARACTERS, TextReading, read_text


def read_machine_text(path: str) -> TextReading:
    """Read `path` (`-`: standard input) as a description of a machine. Raises UsageError where there is nothing."""
    try:
        if path == "-":
            text = sys.stdin.read(MOST_CHARACTERS)
        else:
            with Path(path).open(encoding="utf-8", errors="replace") as file:
                text = file.read(MOST_CHARACTERS)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror})", "name a text file, or - for standard input") from None
    if not text.strip():
        where = "standard input" if path == "-" else path
        raise UsageError(f"{where}: empty", "paste what nvidia-smi, lscpu or a person says of the machine")
    return read_text(text)
