"""How soon the wizard answers: `--help` against an empty argparse program, the first screen against an empty app."""

from __future__ import annotations

import sys

from benchmarks.measure import Effort, Result, paired, span
from benchmarks.programs import BASELINES, Screen, own_home, timed, wizard

ABOUT = "the wizard's --help and first screen against an empty argparse program and an empty Textual app"


def run(effort: Effort) -> list[Result]:
    with own_home() as env:
        return [_help(env, effort.rounds(24)), _first_frame(env, effort.rounds(16))]


def _help(env: dict[str, str], rounds: int) -> Result:
    ours, theirs = [*wizard(), "--help"], [sys.executable, str(BASELINES / "empty_argparse.py"), "--help"]
    timed(ours, env), timed(theirs, env)  # files into the page cache, sources into .pyc
    pairs = [(timed(ours, env), timed(theirs, env)) for _ in range(rounds)]
    wall = paired([a[0] for a, _ in pairs], [b[0] for _, b in pairs])
    cpu = paired([a[1] for a, _ in pairs], [b[1] for _, b in pairs])
    return Result("autotrain-wizard --help", "an empty argparse program", wall, aim=2.0,
                  note=f"in CPU time {span(cpu)}", details={"cpu_ratios": cpu, "wall_s": [[a[0], b[0]] for a, b in pairs]})


def _first_frame(env: dict[str, str], rounds: int) -> Result:
    ours, theirs = wizard(), [sys.executable, str(BASELINES / "empty_textual.py")]
    _frame(ours, env), _frame(theirs, env)
    pairs = [(_frame(ours, env), _frame(theirs, env)) for _ in range(rounds)]
    wall = paired([a[0] for a, _ in pairs], [b[0] for _, b in pairs])
    cpu = paired([a[1] for a, _ in pairs], [b[1] for _, b in pairs])
    return Result("first frame of the session", "an empty Textual app", wall, aim=1.3,
                  note=f"in CPU time {span(cpu)}", details={"cpu_ratios": cpu, "wall_s": [[a[0], b[0]] for a, b in pairs]})


def _frame(argv: list[str], env: dict[str, str]) -> tuple[float, float]:
    """(wall seconds, CPU seconds) from the start until the title is drawn."""
    with Screen(argv, env) as screen:
        return screen.wait_for("autotrain-wizard"), screen.cpu_seconds()
