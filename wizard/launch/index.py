"""Finding runs from anywhere: a list of folders in the user's state folder, and whatever lies in `./runs`."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable
from pathlib import Path

from engine.contract.run_dir import RunDir
from wizard.errors import UsageError
from wizard.paths import runs_root, state_dir


def index_file() -> Path:
    return state_dir() / "runs.jsonl"


def remember(run: RunDir) -> None:
    """Add a run to the index. A home that cannot be written only means that `runs` finds less."""
    line = json.dumps({"path": str(run.root.absolute())}) + "\n"
    with contextlib.suppress(OSError):
        index_file().parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # one write of a short line: two launches at once cannot mix theirs
        handle = os.open(index_file(), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(handle, line.encode())
        finally:
            os.close(handle)


def all_runs() -> list[RunDir]:
    """All runs that still have a folder, newest first."""
    found: dict[Path, float] = {}
    for root in [*_indexed(), *_children(runs_root())]:
        try:
            # the preset of a run never changes, so its time is when the run was made
            found[root.resolve()] = (root / "preset.yaml").stat().st_mtime
        except OSError:
            continue
    return [RunDir(root) for root in sorted(found, key=lambda root: (found[root], root.name), reverse=True)]


def find_run(ref: str | None, fits: Callable[[RunDir], bool] | None = None) -> RunDir:
    """A run by folder, `NAME` (its newest), `NAME/STAMP`, or the newest of all for None. Raises UsageError.

    Where a reference leaves a choice, `fits` says which runs come into question.
    """
    if ref is not None and is_run(Path(ref)):
        return RunDir(Path(ref).resolve())
    runs = all_runs()
    if ref is None:
        if not runs:
            raise UsageError("there is no run yet", "start one: autotrain-wizard run PRESET")
        return runs[0]
    wanted = ref.strip("/")
    for run in runs:
        named = wanted in (run.root.parent.name, f"{run.root.parent.name}/{run.root.name}", run.root.name)
        if named and (fits is None or fits(run)):
            return run
    names = list(dict.fromkeys(run.root.parent.name for run in runs))[:8]
    raise UsageError(f"no run `{ref}`", f"runs there are: {', '.join(names)}; all of them: autotrain-wizard runs"
                     if names else "there is no run yet; start one: autotrain-wizard run PRESET")


def is_run(path: Path) -> bool:
    return (path / "preset.yaml").is_file() and (path / "attempts").is_dir()


def short_name(run: RunDir) -> str:
    """`NAME/STAMP`, which `find_run` takes."""
    return f"{run.root.parent.name}/{run.root.name}"


def _indexed() -> list[Path]:
    try:
        lines = index_file().read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return []
    paths = []
    for line in lines:
        with contextlib.suppress(ValueError, KeyError, TypeError):
            paths.append(Path(json.loads(line)["path"]))
    return paths


def _children(root: Path) -> list[Path]:
    return [path.parent.absolute() for path in root.glob("*/*/preset.yaml")]
