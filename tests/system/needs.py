"""What these tests need of the machine, and the reason by name where it is missing."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys

import pytest

_COMMANDS = {"network": ("ip", "unshare"), "mount": ("mount", "umount")}
#: Asked of the kernel itself: a container's root often may do neither.
_TRIALS = {"network": ["unshare", "-n", "-u", "-m", "true"],
           "mount": ["unshare", "-m", "mount", "-t", "tmpfs", "none", "/mnt"]}


@functools.cache
def missing(what: str) -> str | None:
    """Why `network` or `mount` cannot be had here, or None."""
    if not sys.platform.startswith("linux"):
        return "needs Linux"
    if os.geteuid() != 0:
        return "needs root"
    for command in (*_COMMANDS[what], "unshare"):
        if shutil.which(command) is None:
            return f"needs the command `{command}`"
    trial = subprocess.run(_TRIALS[what], capture_output=True, text=True, timeout=30)
    if trial.returncode != 0:
        return f"this root may not do `{' '.join(_TRIALS[what])}`: {trial.stderr.strip()}"
    return None


def require(what: str) -> None:
    """Skip the test, by its reason, where `what` cannot be had."""
    reason = missing(what)
    if reason:
        pytest.skip(reason)
