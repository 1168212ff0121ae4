"""Asking a run to stop, and seeing that it does."""

from __future__ import annotations

import time

from engine.contract.run_dir import ENDED, RunDir, Status
from wizard.errors import ExitCode, UsageError, WizardError
from wizard.launch import processes
from wizard.launch.liveness import current_status

_POLL_S = 0.2
#: A supervisor that lives ends everything within this many seconds of a request to stop at once.
_AT_ONCE_S = 30.0


def stop_run(run: RunDir, now: bool = False, wait: bool = True, timeout_s: float | None = None) -> Status:
    """Stop a run with a checkpoint at its next step boundary, or `now`, and return the status seen last.

    The supervisor carries it out; where it is gone, the processes it recorded are ended here. `timeout_s` bounds the
    wait (None: until the supervisor's own ladder ends). Raises UsageError when there is nothing to stop, WizardError
    when the request cannot be written or the timeout passes.
    """
    status = current_status(run)
    if status is None:
        raise UsageError(f"{run.root}: nothing was started here", "list the runs: autotrain-wizard runs")
    if status.state == "lost":
        end_recorded(status)
        return status
    if status.state in ENDED:
        return status
    try:
        run.request_stop(checkpoint=not now)
    except OSError as error:
        if not now:
            raise WizardError(f"{run.stop_file}: the stop request cannot be written: {error.strerror}",
                              "stop it at once, without a checkpoint: autotrain-wizard stop --now") from None
        end_recorded(status)
    if not wait:
        return current_status(run) or status
    return _until_ended(run, now, timeout_s)


def _until_ended(run: RunDir, now: bool, timeout_s: float | None) -> Status:
    began = time.monotonic()
    while True:
        status = current_status(run)
        if status is None and not run.root.is_dir():
            raise WizardError(f"{run.root}: the run's folder was removed", "its supervisor ends what is left of it", ExitCode.LOST)
        if status is not None and status.state in ENDED:
            if status.state == "lost":
                end_recorded(status)
            return status
        waited = time.monotonic() - began
        if status is not None and now and waited > _AT_ONCE_S:
            end_recorded(status)
        if timeout_s is not None and waited > timeout_s:
            raise WizardError(f"{run.root}: still {status.state if status else 'without a status'} after {timeout_s:.0f} s",
                              "wait longer, or stop it at once: autotrain-wizard stop --now", ExitCode.LOST)
        time.sleep(_POLL_S)


def end_recorded(status: Status) -> None:
    """End every process the status names, ranks first, each only if it still is the one that was recorded."""
    order = {"rank": 0, "launcher": 1, "supervisor": 2}
    records = sorted(status.processes, key=lambda record: order[record.role])
    processes.end([found for record in records if (found := processes.find(record))], grace_s=0)
