"""Whether a full screen can work here, and leaving it as it was found."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable


def why_no_screen() -> str | None:
    """Why a full screen cannot work here, or None when it can.

    Textual draws on stderr and would start without a terminal; with stdin closed it could not be left again.
    """
    if not sys.stdin or not sys.stdin.isatty():
        return "standard input is not a terminal"
    if not sys.stderr or not sys.stderr.isatty():
        return "standard error is not a terminal"
    if os.environ.get("TERM", "") in ("dumb", ""):
        return f"TERM is {os.environ.get('TERM') or 'not set'}"
    return None


def leave_on_signals(leave: Callable[[int], None]) -> None:
    """Call `leave(128 + n)` on SIGTERM and SIGHUP, whose default would keep the terminal in the other screen."""
    loop = asyncio.get_running_loop()
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is None:
            continue
        try:
            loop.add_signal_handler(number, leave, 128 + number)
        except (NotImplementedError, RuntimeError, ValueError):
            continue  # Windows, or not the main thread: their defaults have to do
