"""Ending processes for certain, and never a stranger: a pid counts only together with its create time."""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import sys
import time
from collections.abc import Iterable

import psutil

from engine.contract.run_dir import Process, boot_id

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
#: psutil adds the start (in ticks since boot) to a boot time that moves with corrections of the clock. No pid comes
#: round again within this time.
_SAME_S = 2.0


def find(record: Process) -> psutil.Process | None:
    """The living process behind a record, or None when it has ended, its pid was given away, or it is elsewhere."""
    if record.boot_id != boot_id() or record.host != platform.node():
        return None
    return find_pid(record.pid, record.create_time)


def find_pid(pid: int, create_time: float) -> psutil.Process | None:
    try:
        process = psutil.Process(pid)
        if abs(process.create_time() - create_time) > _SAME_S or process.status() == psutil.STATUS_ZOMBIE:
            return None
    except psutil.Error:
        return None
    return process


def elsewhere(record: Process) -> bool:
    """Whether the record is of another machine, whose processes cannot be seen from here."""
    return record.host != platform.node()


def descendants(pid: int) -> list[psutil.Process]:
    """All living children of a process, at any depth; a fresh list, so a child that ends meanwhile is no error."""
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return []


def send(processes: Iterable[psutil.Process], number: int) -> None:
    """Signal each process that still is the one it was; those that have ended are left out."""
    for process in processes:
        try:
            process.send_signal(number)  # psutil itself refuses a pid that was given away
        except psutil.Error:
            continue


def end(processes: Iterable[psutil.Process], grace_s: float) -> list[psutil.Process]:
    """SIGTERM, wait `grace_s`, SIGKILL, wait 5 s more. Returns those that even then are there (stuck in the kernel)."""
    alive = list(processes)
    if grace_s > 0:
        send(alive, signal.SIGTERM)
        alive = _wait(alive, grace_s)
    send(alive, signal.SIGKILL)
    return _wait(alive, 5.0)


def _wait(processes: list[psutil.Process], timeout_s: float) -> list[psutil.Process]:
    """Those still alive after the timeout. Zombies count as ended: their parent may never reap them."""
    deadline = time.monotonic() + timeout_s
    while True:
        processes = [process for process in processes if _alive(process)]
        if not processes or time.monotonic() >= deadline:
            return processes
        time.sleep(0.05)


def _alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def adopt_orphans() -> None:
    """Make this process the new parent of any descendant whose parent dies, so that it can be found and ended.

    Linux only (prctl(2)); elsewhere the recorded pids must do.
    """
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def dying_with_parent() -> object:
    """A `preexec_fn` that has the kernel end the child when the thread that starts it ends (Linux), else None.

    The library is loaded here, before the fork: a child of fork must not load one.
    """
    if not sys.platform.startswith("linux"):
        return None
    prctl, parent = ctypes.CDLL(None).prctl, os.getpid()

    def in_child() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # it died between fork and prctl
            os._exit(128 + signal.SIGKILL)

    return in_child
