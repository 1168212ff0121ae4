"""What watching a training costs: CPU time of the live monitor, as a share of one core."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.measure import Effort, Result
from benchmarks.programs import BASELINES, ROOT, Screen, own_home, wizard

ABOUT = "CPU time of the live monitor at its own refresh, beside made-up runs of 2 and of 8 ranks that are alive"
#: (what, ranks, steps done before it is looked at, aim)
_CASES = (("2 ranks", 2, 20, 0.02), ("2 ranks, after 5,000 steps", 2, 5_000, 0.02), ("8 ranks with GPUs", 8, 20, None))
_WINDOW_S = 8.0
_WARM_UP_S = 6.0


def run(effort: Effort) -> list[Result]:
    """All programs run at the same time: CPU time is counted, and each is idle nearly always."""
    windows = effort.rounds(5)
    with contextlib.ExitStack() as stack:
        env = stack.enter_context(own_home())
        screens = []
        for number, (_, ranks, past, _) in enumerate(_CASES):
            folder = stack.enter_context(_living_run(env, f"run{number}", ranks, past))
            screens.append(stack.enter_context(Screen([*wizard(), "watch", str(folder)], env)))
        for screen in screens:
            screen.wait_for("tokens/s", timeout_s=60)
        screens.append(stack.enter_context(Screen([sys.executable, str(BASELINES / "empty_textual.py")], env)))
        screens[-1].wait_for("autotrain-wizard")
        time.sleep(_WARM_UP_S)
        shares = _shares(screens, windows)
    results = [Result(f"live monitor, {what}", "one core", share, aim=aim, percent=True)
               for (what, _, _, aim), share in zip(_CASES, shares, strict=False)]
    results[0].note = f"120 x 40, two steps a second, stretches of {_WINDOW_S:.0f} s"
    return [*results, Result("an empty Textual app, idle", "one core", shares[-1], percent=True)]


def _shares(screens: list[Screen], windows: int) -> list[list[float]]:
    shares: list[list[float]] = [[] for _ in screens]
    before = [(time.perf_counter(), screen.cpu_seconds()) for screen in screens]
    for _ in range(windows):
        time.sleep(_WINDOW_S)
        now = [(time.perf_counter(), screen.cpu_seconds()) for screen in screens]
        for found, (began, used), (ended, more) in zip(shares, before, now, strict=True):
            found.append((more - used) / (ended - began))
        before = now
    return shares


@contextlib.contextmanager
def _living_run(env: dict[str, str], name: str, ranks: int, past: int) -> Iterator[Path]:
    """A run's folder that a program writes on, as ranks and supervisor would."""
    argv = [sys.executable, "-m", "benchmarks.living_run", env["AUTOTRAIN_WIZARD_RUNS"], name, str(ranks), str(past)]
    writer = subprocess.Popen(argv, cwd=ROOT, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    try:
        yield Path(writer.stdout.readline().strip())
    finally:
        writer.kill()
        writer.communicate()
