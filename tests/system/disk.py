"""A disk of its own, so small that it is soon full, or one that cannot be written."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil

_NAME = "wizardtest"


class SmallDisk:
    """A mounted file system in memory. `fill` leaves so many bytes free; `free` gives all of them back."""

    def __init__(self, path: Path):
        self.path = path
        self._ballast = path / "ballast"

    def fill(self, leave: int = 0) -> None:
        """Whoever writes meanwhile may still take what is left; free pages are what counts, not bytes."""
        block = b"\0" * (1 << 16)
        with open(self._ballast, "ab", buffering=0) as file, contextlib.suppress(OSError):
            while os.statvfs(self.path).f_bavail * os.statvfs(self.path).f_bsize - leave >= len(block):
                file.write(block)
            while os.statvfs(self.path).f_bavail * os.statvfs(self.path).f_bsize > leave:
                file.write(block[:4096])

    def free(self) -> None:
        self._ballast.unlink(missing_ok=True)


@contextlib.contextmanager
def small_disk(path: Path, options: str = "size=90m") -> Iterator[SmallDisk]:
    """Mount it at `path` for the block. Needs root."""
    _sweep()
    path.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, f"{_NAME}-{os.getpid()}", str(path)], check=True, capture_output=True, timeout=30)
    try:
        yield SmallDisk(path)
    finally:
        _unmount(path)


def make_read_only(path: Path) -> None:
    """Root may write whatever a mode forbids; not so on a disk that is mounted read-only."""
    subprocess.run(["mount", "-o", "remount,ro", str(path)], check=True, capture_output=True, timeout=30)


def _unmount(path: Path | str) -> None:
    subprocess.run(["umount", "--lazy", str(path)], check=False, capture_output=True, timeout=30)


def _sweep() -> None:
    """Unmount what a test run that was killed has left behind."""
    for line in Path("/proc/mounts").read_text().splitlines():
        device, where = line.split()[:2]
        name, _, pid = device.rpartition("-")
        if name == _NAME and pid.isdigit() and not psutil.pid_exists(int(pid)):
            _unmount(where)
