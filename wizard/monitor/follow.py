"""The loop that plain and JSON output share: poll until the run has ended and all its events are read."""

from __future__ import annotations

import time
from collections.abc import Callable

from engine.contract.events import ExitReason
from engine.contract.run_dir import ENDED, RunDir, Status
from wizard.monitor.reader import RunReader

POLL_S = 0.5
#: A supervisor that has not written a status by then never will.
NO_STATUS_S = 60.0
#: Events of ranks that end together reach the files a moment after the status, over a network file system.
DRAIN_S = 5.0
#: A folder that is away for so long was removed; a network disk comes back sooner.
GONE_S = 10.0


def follow(reader: RunReader, after_poll: Callable[[], None], poll_s: float = POLL_S) -> Status:
    """Poll until the end and call `after_poll` each time; returns the final status.

    A run without any status for a minute counts as lost, and so does one whose folder was removed.
    """
    began = time.monotonic()
    ended: float | None = None
    gone: float | None = None
    while True:
        state = reader.poll()
        after_poll()
        now = time.monotonic()
        status = state.status
        gone = None if reader.run.root.is_dir() else gone or now
        if gone is not None and now - gone > GONE_S:
            return folder_gone(reader.run, status)
        if status is None and now - began > NO_STATUS_S:
            return no_status(reader.run)
        if status is not None and status.state in ENDED:
            ended = ended or now
            if reader.caught_up or now - ended > DRAIN_S:
                return status
        if reader.caught_up:
            time.sleep(poll_s)


def folder_gone(run: RunDir, last: Status | None) -> Status:
    """What is known of a run whose folder was removed while it was followed; `last` is its status until then."""
    now = time.time()
    last = last or Status(state="lost", attempt=0, started_unix_s=now)
    return last.model_copy(update={"state": "lost", "ended_unix_s": now, "exit_reason": ExitReason(
        kind="lost", message=f"the run's folder was removed: {run.root}")})


def no_status(run: RunDir) -> Status:
    """What is known of a run whose supervisor never spoke."""
    return Status(state="lost", attempt=run.latest_attempt(), started_unix_s=time.time(), exit_reason=ExitReason(
        kind="lost", message=f"no status.json in {run.root}: the supervisor did not start"))
