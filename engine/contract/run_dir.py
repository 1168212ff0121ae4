"""The layout of a run's folder, and the status file in it. Nothing here knows how a run is made."""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from engine.contract.atomic import write_text_atomic
from engine.contract.events import ExitReason

State = Literal["starting", "running", "stopping", "finished", "stopped", "failed", "lost"]
ENDED: tuple[str, ...] = ("finished", "stopped", "failed", "lost")


class Process(BaseModel):
    """A process of a run. It is the one that was recorded only while `boot_id` and `create_time` still match."""

    model_config = ConfigDict(extra="ignore")

    pid: int
    create_time: float
    host: str
    boot_id: str
    rank: int | None = None
    role: Literal["supervisor", "launcher", "rank"] = "rank"


class Status(BaseModel):
    """`status.json`: written by the supervisor alone, by rename."""

    model_config = ConfigDict(extra="ignore", protected_namespaces=())

    state: State
    attempt: int
    processes: list[Process] = []
    started_unix_s: float
    ended_unix_s: float | None = None
    exit_reason: ExitReason | None = None
    model_path: str | None = None


class RunDir:
    """Paths below one run's folder; all methods are cheap and none caches."""

    def __init__(self, root: Path | str):
        self.root = Path(root)

    @classmethod
    def create(cls, runs: Path, name: str, now: float | None = None, suffix: str = "") -> RunDir:
        """Make `RUNS/NAME/YYYYMMDD-HHMMSS` and `suffix` (0700). A second run in the same second gets `-2`.

        Raises OSError when the folder cannot be made.
        """
        stamp = time.strftime("%Y%m%d-%H%M%S", time.localtime(now)) + suffix
        parent = runs / name
        parent.mkdir(parents=True, exist_ok=True)
        for count in range(1, 1000):
            root = parent / (stamp if count == 1 else f"{stamp}-{count}")
            try:
                root.mkdir(mode=0o700)
            except FileExistsError:
                continue
            run = cls(root)
            for folder in (run.attempts, run.ranks, run.logs, run.checkpoints, run.stacks):
                folder.mkdir(mode=0o700)
            return run
        raise FileExistsError(f"{parent / stamp}: too many runs in one second")

    def __repr__(self) -> str:
        return f"RunDir({str(self.root)!r})"

    @property
    def preset(self) -> Path:
        return self.root / "preset.yaml"

    @property
    def attempts(self) -> Path:
        return self.root / "attempts"

    @property
    def status(self) -> Path:
        return self.root / "status.json"

    @property
    def ranks(self) -> Path:
        return self.root / "ranks"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def checkpoints(self) -> Path:
        return self.root / "checkpoints"

    @property
    def model(self) -> Path:
        return self.root / "model"

    @property
    def stop_file(self) -> Path:
        return self.root / "STOP"

    @property
    def stacks(self) -> Path:
        return self.root / "stacks"

    @property
    def launcher_log(self) -> Path:
        """What the launcher and the ranks before their first line wrote."""
        return self.logs / "launcher.log"

    def attempt(self, number: int) -> Path:
        return self.attempts / f"{number:04d}"

    def resolved(self, attempt: int) -> Path:
        return self.attempt(attempt) / "resolved.yaml"

    def latest_attempt(self) -> int:
        """Number of the newest attempt, 0 when nothing was launched yet."""
        return max((int(path.name) for path in _children(self.attempts) if path.name.isdigit()), default=0)

    def events(self, rank: int) -> Path:
        return self.ranks / f"rank-{rank:05d}.jsonl"

    def log(self, rank: int) -> Path:
        return self.logs / f"rank-{rank:05d}.log"

    def event_files(self) -> dict[int, Path]:
        """Event file of every rank that has one, by rank."""
        return _by_rank(self.ranks, r"rank-(\d{5,})\.jsonl")

    def log_files(self) -> dict[int, Path]:
        return _by_rank(self.logs, r"rank-(\d{5,})\.log")

    def checkpoint(self, step: int) -> Path:
        return self.checkpoints / f"step-{step:08d}"

    def checkpoint_steps(self) -> list[int]:
        """Steps of the complete checkpoints, oldest first (a checkpoint gets its name only when complete)."""
        found = (re.fullmatch(r"step-(\d{8,})", path.name) for path in _children(self.checkpoints))
        return sorted(int(match.group(1)) for match in found if match)

    def read_status(self) -> Status | None:
        """The status as written, or None when there is none that can be read."""
        try:
            return Status.model_validate_json(self.status.read_text(encoding="utf-8"))
        except (OSError, ValidationError, UnicodeDecodeError):
            return None

    def write_status(self, status: Status) -> None:
        write_text_atomic(self.status, status.model_dump_json(indent=1) + "\n")

    def request_stop(self, checkpoint: bool = True) -> None:
        """Ask the run to end at its next step boundary. Raises OSError when the folder cannot be written."""
        write_text_atomic(self.stop_file, json.dumps({"checkpoint": checkpoint}) + "\n")

    def read_stop(self) -> dict[str, Any] | None:
        """The stop request, or None. A STOP file that a person made with `touch` asks for a checkpoint."""
        try:
            text = self.stop_file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return None
        try:
            request = json.loads(text)
        except ValueError:
            request = None
        return request if isinstance(request, dict) else {"checkpoint": True}

    def clear_stop(self) -> None:
        self.stop_file.unlink(missing_ok=True)


def _children(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _by_rank(folder: Path, pattern: str) -> dict[int, Path]:
    found = ((re.fullmatch(pattern, path.name), path) for path in _children(folder))
    return dict(sorted((int(match.group(1)), path) for match, path in found if match))


def boot_id() -> str:
    """Identifies this boot of this machine, so that a pid from before a power loss is not mistaken for ours."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        import psutil

        return f"boot-{int(psutil.boot_time())}"


def process_record(role: str = "rank", rank: int | None = None, pid: int | None = None) -> Process:
    """The record of a living process (this one by default). Raises psutil.NoSuchProcess."""
    import platform

    import psutil

    pid = pid or os.getpid()
    return Process(pid=pid, create_time=psutil.Process(pid).create_time(), host=platform.node(), boot_id=boot_id(),
                   rank=rank, role=role)
