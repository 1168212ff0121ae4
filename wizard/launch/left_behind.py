"""Who, besides the person, would end a run that goes on after its terminal has closed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

_LOGIND = ("/etc/systemd/logind.conf", "/etc/systemd/logind.conf.d")


def ender(environment: Mapping[str, str], logind: tuple[str, ...] = _LOGIND) -> str | None:
    """A sentence about the batch system or service manager that ends what is left behind, or None.

    The supervisor is a session of its own, which outlives a terminal; a control group it cannot leave.
    """
    job = environment.get("SLURM_JOB_ID")
    if job:
        return f"this is Slurm job {job}: when the job ends, Slurm ends the run with it"
    if environment.get("INVOCATION_ID") and not environment.get("XDG_SESSION_ID"):
        return "this is a systemd service: stopping the service ends the run with it"
    if environment.get("XDG_SESSION_ID") and _kills_user_processes(logind):
        return ("logind is set to KillUserProcesses=yes: logging out ends the run; "
                "`loginctl enable-linger` and `systemd-run --user --scope autotrain-wizard ...` keep it")
    return None


def _kills_user_processes(places: tuple[str, ...]) -> bool:
    setting = False
    for place in map(Path, places):
        for file in sorted(place.glob("*.conf")) if place.is_dir() else [place]:
            try:
                found = re.findall(r"^\s*KillUserProcesses\s*=\s*(\w+)", file.read_text(errors="replace"), re.MULTILINE)
            except OSError:
                continue
            if found:
                setting = found[-1].lower() in ("yes", "true", "1", "on")
    return setting
