"""What every preparation of data has in common: a folder that appears whole, progress, an account of the rows."""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil

from engine.data.rejects import Rejects
from engine.errors import DataError, DiskError

Report = Callable[[str, float | None], None]
#: Seconds between two reports of progress.
_REPORT_EVERY_S = 0.25
#: Which of the random orders of a seed chooses the held-out rows; epochs use the streams from 0.
VALID_STREAM = 2**40


@contextlib.contextmanager
def building(folder: Path) -> Iterator[Path]:
    """A temporary folder that becomes `folder` when the block ends well; its `work` inside is left out.

    Raises DiskError for any OSError of the block.
    """
    prefix = f".{folder.name}.{platform.node()}."
    temporary = folder.with_name(f"{prefix}{os.getpid()}")
    try:
        _remove_left_over(folder.parent, prefix)
        temporary.mkdir(parents=True)
        (temporary / "work").mkdir()
        yield temporary
        shutil.rmtree(temporary / "work")
        if folder.exists():
            shutil.rmtree(folder)
        temporary.rename(folder)
    except OSError as error:
        raise DiskError(f"the prepared data cannot be written to {folder}: {error.strerror or error}.") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _remove_left_over(folder: Path, prefix: str) -> None:
    """Remove what a process of this machine that was killed left unfinished; it may be large."""
    for path in folder.glob(f"{prefix}*"):
        pid = path.name.removeprefix(prefix)
        if pid.isdigit() and not psutil.pid_exists(int(pid)):
            shutil.rmtree(path, ignore_errors=True)


def fail_empty(source: str, split: str, empty: int, rejected: int, rejects: Rejects) -> None:
    """Raises DataError: `source` has no usable row, and why."""
    reasons = [f"{count:,} {what}" for count, what in ((rejected, "rows could not be used"), (empty, "were empty")) if count]
    first = f" The first: {rejects.examples[0]}" if rejects.examples else ""
    raise DataError(f"data.{split}: {source} has no row to {'train on' if split == 'train' else 'evaluate on'}"
                    f"{': ' + ', '.join(reasons) if reasons else ', it is empty'}.{first}")


def skipped_warning(rejects: Rejects) -> list[str]:
    """What to say of the rows that were left out, if any were."""
    if not rejects.count:
        return []
    return [f"{rejects.count:,} rows could not be used and were left out; the first: {rejects.examples[0]}"]


def fingerprint(folder: Path) -> str:
    """Equal on machines that prepared the same arrays, so that a group can check that it trains on one data set."""
    digest = hashlib.blake2b(digest_size=16)
    for path in sorted(folder.glob("*/*.npy")):
        digest.update(path.relative_to(folder).as_posix().encode())
        with open(path, "rb") as file:
            digest.update(hashlib.file_digest(file, hashlib.blake2b).digest())
    return digest.hexdigest()


def part(share: float | None, low: float, high: float) -> float | None:
    """The share of the whole work, of which this is the part from `low` to `high`."""
    return None if share is None else low + (high - low) * share


def number(value: object, otherwise: int) -> int:
    """`value` where it is a number already, rather than `auto`."""
    return value if isinstance(value, int) else otherwise


def throttled(progress: Report) -> Report:
    """Pass on a new activity at once, and news of the same one a few times a second; the share never falls."""
    last_what, last_s, highest = "", float("-inf"), 0.0

    def report(what: str, share: float | None) -> None:
        nonlocal last_what, last_s, highest
        now = time.monotonic()
        if share is not None:
            share = highest = max(highest, round(share, 3))
        if what != last_what or now - last_s >= _REPORT_EVERY_S or share == 1.0:
            last_what, last_s = what, now
            progress(what, share)

    return report
