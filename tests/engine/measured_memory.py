"""Peak memory of real trainings: the engine's own entry in a clean process, its resident memory read by the kernel.

Each training runs in a child forked from a server that has all libraries loaded, so that what is measured is the
training and not the import of torch, and no earlier training has left a torn heap. The kernel keeps the peak of
resident memory (VmHWM); writing 5 to clear_refs sets it back to what is resident now.
"""

from __future__ import annotations

import multiprocessing
import os
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.contract.preset import Preset
from tests.engine.trainings import new_run

_LIBRARIES = ["torch", "torch._dynamo", "accelerate", "transformers.models.llama.modeling_llama", "peft", "engine.train",
              "engine.loop", "engine.checkpoint", "engine.model", "engine.export", "engine.data.prepare", "tests.engine.measured_memory"]


@dataclass(frozen=True)
class Peak:
    """Bytes of one process. `before`: with all libraries and the data, no model yet; `training`: highest while it
    trained; `whole`: highest from then to the end of the run, saving included."""

    before: int
    training: int
    whole: int

    @property
    def terms(self) -> int:
        """What model and training took."""
        return self.training - self.before


def can_measure() -> bool:
    """Whether this kernel keeps and resets a peak."""
    try:
        _reset_peak()
        return _status("VmHWM") > 0
    except OSError:
        return False


def measure(folder: Path, preset: Preset, timeout_s: float = 300) -> Peak:
    """Train `preset` (one CPU rank) in `folder` and see what it took. Raises AssertionError when it failed."""
    run = new_run(folder, preset)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_LIBRARIES)
    ours, theirs = context.Pipe()
    process = context.Process(target=_train, args=(str(run.root), theirs))
    process.start()
    theirs.close()
    try:
        assert ours.poll(timeout_s), f"no answer in {timeout_s} s"
        ok, value = ours.recv()
    except EOFError:
        raise AssertionError("the training's process died") from None
    finally:
        process.kill()
        process.join()
    assert ok, value
    return value


def _train(root: str, pipe: Any) -> None:
    os.environ.update(ACCELERATE_USE_CPU="true", TOKENIZERS_PARALLELISM="false")
    try:
        _as_launched(root)
        pipe.send((True, _peak(root)))
    except BaseException:
        pipe.send((False, traceback.format_exc()))


def _as_launched(root: str) -> None:
    """What the preset's variable would have done, had it been there when the process began."""
    import ctypes

    from engine.contract.run_dir import RunDir
    from engine.train import read_preset

    threshold = read_preset(RunDir(root)).distributed.env.get("MALLOC_MMAP_THRESHOLD_")
    if threshold is not None:
        m_mmap_threshold = -3
        assert ctypes.CDLL(None).mallopt(m_mmap_threshold, int(threshold)) == 1


def _peak(root: str) -> Peak:
    from engine.contract.run_dir import RunDir
    from engine.life import Life
    from tests.engine.trainings import train_on_rank

    marks: dict[str, int] = {}
    told = Life.phase

    def phase(life: Life, name: str, *args: Any, **options: Any) -> Any:
        if name == "loading model":
            marks["before"] = _status("VmRSS")
            _reset_peak()
        elif "training" not in marks and name in ("evaluating", "saving checkpoint", "saving model"):
            marks["training"] = _status("VmHWM")
        return told(life, name, *args, **options)

    Life.phase = phase
    outcome = train_on_rank(0, str(RunDir(root).root))
    assert outcome[0] == "finished", outcome
    return Peak(marks["before"], marks["training"], _status("VmHWM"))


def _reset_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def _status(name: str) -> int:
    """A size of /proc/self/status, in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"/proc/self/status has no {name}")
