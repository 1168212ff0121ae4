"""One run in one line: read from its status and the end of its events, however long it was."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from engine.contract.events import parse_line
from engine.contract.run_dir import RunDir
from wizard import formatting
from wizard.launch.index import short_name
from wizard.launch.liveness import current_status

_END_BYTES = 64 * 1024


@dataclass(frozen=True)
class Glance:
    """`state` is None where nothing was started, `step` where none was made; `age_s` counts since the run was made."""

    run: str
    path: str
    state: str | None
    step: int | None
    age_s: float

    def row(self) -> tuple[str, str, str, str]:
        step = f"{self.step:,}" if self.step is not None else "-"
        return self.run, self.state or "not started", step, formatting.duration(self.age_s)


def glance(run: RunDir) -> Glance:
    status = current_status(run)
    try:
        made = run.preset.stat().st_mtime
    except OSError:
        made = time.time()
    return Glance(run=short_name(run), path=str(run.root), state=status.state if status else None, step=last_step(run),
                  age_s=max(0.0, time.time() - made))


def last_step(run: RunDir) -> int | None:
    """The newest step that the lowest rank here told, or that of its newest checkpoint, or None."""
    files = run.event_files()
    step = _step_at_end(files[min(files)]) if files else None
    saved = run.checkpoint_steps()
    return step if step is not None else (saved[-1] if saved else None)


def _step_at_end(path: Path) -> int | None:
    try:
        with open(path, "rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - _END_BYTES))
            lines = file.read().split(b"\n")
    except OSError:
        return None
    for line in reversed(lines):
        event = parse_line(line) if b'"step"' in line else None
        # phases and heartbeats of a rank that has not begun to train carry step 0
        if event and isinstance(event.get("step"), int) and event["step"] > 0:
            return event["step"]
    return None
