"""Whether a run that says it is running still is: `lost` is concluded by readers, never written."""

from __future__ import annotations

from engine.contract.events import ExitReason
from engine.contract.run_dir import ENDED, RunDir, Status
from wizard.launch import processes


def current_status(run: RunDir) -> Status | None:
    """The status of a run, `lost` when its supervisor is gone without a verdict; None when there is none yet.

    A supervisor on another machine cannot be seen from here: its word stands.
    """
    status = run.read_status()
    if status is None or status.state in ENDED or _supervised(status):
        return status
    # it may have ended between our two looks, and then it left its verdict
    latest = run.read_status()
    if latest is None or latest.state in ENDED or latest.attempt != status.attempt or _supervised(latest):
        return latest
    reason = ExitReason(kind="lost", message="the process that watches over the run is gone (killed, or the machine "
                                             "was restarted), so nobody knows how it ended")
    return latest.model_copy(update={"state": "lost", "exit_reason": reason})


def is_alive(run: RunDir) -> bool:
    status = current_status(run)
    return status is not None and status.state not in ENDED


def _supervised(status: Status) -> bool:
    supervisors = [record for record in status.processes if record.role == "supervisor"]
    return any(processes.elsewhere(record) or processes.find(record) for record in supervisors)
