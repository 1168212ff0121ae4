"""Where probes read from: files below a root, and commands. Tests put recorded ones in their place."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Output:
    """What a command printed; `reason` says why `text` is None."""

    text: str | None
    reason: str | None = None


Runner = Callable[[list[str], float], Output]


def run_command(argv: list[str], timeout_s: float) -> Output:
    """Run a vendor's tool. Never raises and never outlives `timeout_s` (plus a moment to kill it)."""
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout_s,
            check=False,
            env={**os.environ, "LC_ALL": "C"},
        )
    except FileNotFoundError:
        return Output(None, f"{argv[0]} is not installed")
    except subprocess.TimeoutExpired:
        return Output(None, f"`{' '.join(argv)}` gave no answer in {timeout_s:g} s")
    except (OSError, ValueError) as error:
        return Output(None, f"{argv[0]} cannot be run ({error})")
    text = done.stdout.decode("utf-8", "replace")
    if done.returncode != 0:
        said = (done.stderr.decode("utf-8", "replace").strip() or text.strip()).splitlines()
        return Output(
            None, f"`{' '.join(argv)}` ended with {done.returncode}" + (f" ({said[-1][:200]})" if said else "")
        )
    return Output(text)


@dataclass(frozen=True)
class Sources:
    """Handed to every probe. `root` replaces `/` for files, `run` the running of commands."""

    root: Path = Path("/")
    run: Runner = run_command
    environ: dict[str, str] = field(default_factory=lambda: dict(os.environ))
    system: str | None = None  # platform.system() where None

    def read(self, path: str) -> str | None:
        """Text of a file below the root, without surrounding space; None when it cannot be read."""
        try:
            return (self.root / path.lstrip("/")).read_text(encoding="utf-8", errors="replace").strip()
        except OSError:
            return None

    def number(self, path: str) -> int | None:
        try:
            return int(self.read(path) or "")
        except ValueError:
            return None

    def names(self, path: str) -> list[str]:
        """Sorted names in a folder below the root; empty when there is none."""
        try:
            return sorted(os.listdir(self.root / path.lstrip("/")))
        except OSError:
            return []

    def exists(self, path: str) -> bool:
        return (self.root / path.lstrip("/")).exists()


@dataclass
class Probed:
    """What a probe found, by field of the inventory, and what it could not find, with the reason."""

    found: dict[str, Any] = field(default_factory=dict)
    unknown: dict[str, str] = field(default_factory=dict)
