"""From the command to the first step: `run quickstart` against a bare launch of a script with the same imports."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.measure import Effort, Result, paired, span
from benchmarks.programs import BASELINES, ROOT, own_home, wizard
from engine.contract.run_dir import RunDir

ABOUT = "time from the command to the first step of the quickstart against a bare `accelerate launch` and its imports"
_LIMIT_S = 300


def run(effort: Effort) -> list[Result]:
    with own_home() as env, TemporaryDirectory(prefix="benchmark-") as folder:
        bare = _bare_command(env, Path(folder))
        _bare(bare, Path(folder))  # libraries into the page cache
        pairs = [(_wizard(env), _bare(bare, Path(folder))) for _ in range(effort.rounds(5))]
    ratios = paired([ours["first step"] for ours, _ in pairs], [theirs for _, theirs in pairs])
    # each stage's own time in units of the whole bare launch of its pair
    stages = {name: [(ours[name] - ours.get(before, 0.0)) / theirs for ours, theirs in pairs]
              for before, name in zip([None, *_STAGES[:-1]], _STAGES, strict=True)}
    note = "in units of the bare launch: " + ", ".join(f"{name} {span(values)}" for name, values in stages.items())
    return [Result("run quickstart to its first step", "accelerate launch with the same imports", ratios, aim=1.1, note=note,
                   details={"pairs_s": pairs, "stages": stages})]


#: Moments in the life of rank 0, each the end of a stage: the launcher has started it, libraries are imported, ...
_STAGES = ("launched", "imported", "connected", "data", "model", "prepared", "first step")
_PHASE_THAT_FOLLOWS = {"starting": "launched", "connecting": "imported", "loading data": "connected", "loading model": "data",
                       "preparing": "model", "training": "prepared"}


def _wizard(env: dict[str, str]) -> dict[str, float]:
    """Seconds from the command to each of _STAGES. The run ends by itself after its first step."""
    began = time.time()
    runs = Path(env["AUTOTRAIN_WIZARD_RUNS"])
    done = subprocess.run([*wizard(), "run", "quickstart", "--plain", "--set", "training.max_steps=1", "--set", "training.warmup_steps=0",
                           "--set", "training.eval_every=never"], env=env, capture_output=True, text=True, timeout=_LIMIT_S)
    if done.returncode:
        raise RuntimeError(f"the quickstart did not run: {done.stderr[-1000:]}")
    newest = max((runs / "quickstart").iterdir(), key=lambda folder: folder.stat().st_mtime)
    moments: dict[str, float] = {}
    for line in RunDir(newest).events(0).read_text().splitlines():
        event: dict[str, Any] = json.loads(line)
        name = "first step" if event["event"] == "step" else _PHASE_THAT_FOLLOWS.get(event.get("name", ""))
        if name:
            moments.setdefault(name, event["t_unix_s"] - began)
    return moments


def _bare_command(env: dict[str, str], folder: Path) -> tuple[list[str], dict[str, str]]:
    """The wizard's own launch of the quickstart, flag by flag, with a script that only imports and connects."""
    shown = subprocess.run([*wizard(), "run", "quickstart", "--dry-run", "--json"], env=env, capture_output=True, text=True,
                           timeout=_LIMIT_S)
    if shown.returncode:
        raise RuntimeError(f"the quickstart cannot be launched here: {shown.stderr[-1000:]}")
    launch = json.loads(shown.stdout)
    config = folder / "accelerate.yaml"
    config.write_text(json.dumps(launch["accelerate_config"]))  # JSON is YAML
    argv = launch["argv"]
    argv[argv.index("--config_file") + 1] = str(config)
    entry = len(argv) - 1 - argv[::-1].index("-m")
    return [*argv[:entry], str(BASELINES / "bare_launch.py"), str(folder)], {**env, **launch["env"], "PYTHONPATH": str(ROOT)}


def _bare(command: tuple[list[str], dict[str, str]], folder: Path) -> float:
    """Seconds from the command until the last rank is ready to begin."""
    argv, env = command
    began = time.time()
    done = subprocess.run(argv, env=env, cwd=folder, capture_output=True, text=True, timeout=_LIMIT_S)
    ended = [float(file.read_text()) for file in folder.glob("*.txt")]
    if done.returncode or not ended or min(ended) < began:
        raise RuntimeError(f"the bare launch did not run: {done.stderr[-1000:]}")
    for file in folder.glob("*.txt"):
        os.unlink(file)
    return max(ended) - began
