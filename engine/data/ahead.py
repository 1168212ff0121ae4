"""Preparing data while the launcher boots and the ranks load their libraries: `python -m engine.data.ahead RUN_DIR`.

Both together take longer than most data does, and keep few cores busy. The rank that keeps the run's folder finds the
data done, or waits for the rest of it; where nothing was begun ahead it prepares the data itself. A lock on a file in
the run's folder, which the kernel gives back when its holder dies, keeps the two from doing the same work.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from engine.contract.atomic import write_text_atomic
from engine.contract.load import load_preset
from engine.contract.preset import Preset
from engine.contract.problems import PresetError
from engine.contract.run_dir import RunDir
from engine.errors import DataError, DiskError, EngineError, ModelError

Report = Callable[[str, float | None], None]
_FAILURES = {cls.kind: cls for cls in (DataError, ModelError, DiskError)}
_LOOK_EVERY_S = 0.1


class _NoLocks(Exception):
    """This system or this file system knows no locks."""


def prepare_once(run: RunDir, preset: Preset, prepare: Callable[[Report], None], report: Report) -> None:
    """Have the data of `run` prepared in `run.root/data`: by who has begun with it already, else by `prepare(report)`.

    What the other one does is told to `report`. Raises EngineError, also for a failure of the other one.
    """
    folder = run.root / "data"
    if folder.exists():
        return
    if not _can_be_ahead(preset):
        prepare(report)
        return
    try:
        with _turn(run, lambda: _pass_on(run, report)):
            failure = _news(run).get("failed")
            if failure in _FAILURES and not folder.exists():
                raise _FAILURES[failure](_news(run)["what"])
            if not folder.exists():
                prepare(report)
    except _NoLocks:
        if not folder.exists():
            prepare(report)
    finally:
        for path in (_lock_file(run), _news_file(run)):
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)


def prepare_ahead(run: RunDir) -> None:
    """Prepare the data of the newest attempt, on one machine. Failures are left for the keeper to raise."""
    try:
        preset = load_preset(run.resolved(run.latest_attempt()))
    except PresetError:
        return  # the ranks say it better
    if not _can_be_ahead(preset):
        return
    with _turn(run, lambda: None):
        if (run.root / "data").exists():
            return
        _news_file(run).unlink(missing_ok=True)
        from engine.tasks.base import find_task

        try:
            find_task(preset.task).prepare_data(
                preset, run.root / "data", lambda what, share: _tell(run, what=what, share=share))
        except EngineError as error:
            _tell(run, failed=error.kind, what=str(error))


def _can_be_ahead(preset: Preset) -> bool:
    """Which of several machines keeps which folder is agreed upon only when all have joined."""
    return preset.task != "script" and preset.distributed.num_nodes == 1


@contextlib.contextmanager
def _turn(run: RunDir, waiting: Callable[[], None]) -> Iterator[None]:
    """Only one process of the machine is inside; `waiting` is called while another is. Raises _NoLocks."""
    try:
        import fcntl

        lock = open(_lock_file(run), "a")  # noqa: SIM115 (closed below)
    except (ImportError, OSError):
        raise _NoLocks from None
    with lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                waiting()
                time.sleep(_LOOK_EVERY_S)
            except OSError:
                raise _NoLocks from None
        yield


def _pass_on(run: RunDir, report: Report) -> None:
    news = _news(run)
    if news and "failed" not in news:
        report(news["what"], news["share"])


def _tell(run: RunDir, **news: object) -> None:
    with contextlib.suppress(OSError):
        write_text_atomic(_news_file(run), json.dumps(news))


def _news(run: RunDir) -> dict[str, object]:
    try:
        return json.loads(_news_file(run).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def _lock_file(run: RunDir) -> Path:
    return run.root / ".data.lock"


def _news_file(run: RunDir) -> Path:
    return run.root / ".data.news"


if __name__ == "__main__":
    with contextlib.suppress(_NoLocks):
        prepare_ahead(RunDir(Path(sys.argv[1])))
