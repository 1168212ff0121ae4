"""A person's own training script, run inside a rank: launched, watched, stopped and diagnosed like the other tasks."""

from __future__ import annotations

import atexit
import contextlib
import os
import runpy
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

from engine import report
from engine.contract.preset import Preset
from engine.contract.run_dir import RunDir
from engine.errors import EngineError, PresetMismatch
from engine.life import Life, say
from engine.script_log import WatchedStream, read_line
from engine.versions import versions

#: A script that tells no steps may do anything for a day; one that does may evaluate and save between two for this long.
_SILENT_LIMIT_S, _STEP_LIMIT_S = 24 * 3600, 600.0
_LOOK_S = 0.5
_SAME_SIGNAL_S = 1.0


class ScriptFailed(EngineError):
    """The script ended with an error, or with a code of its own."""

    def __init__(self, message: str, kind: str = "exception"):
        super().__init__(message)
        self.kind = kind


def run_script(run: RunDir, life: Life, preset: Preset, out_of_memory: Callable[[BaseException], bool]) -> tuple[str, str, str | None]:
    """Run `script.path` to its end. Returns (state, kind of end, path of the model or None).

    Raises PresetMismatch when there is no such file, ScriptFailed for an exception or a code other than 0.
    """
    path, world = Path(preset.script.path or ""), int(os.environ.get("WORLD_SIZE", "1"))
    if not path.is_file():
        raise PresetMismatch(f"script.path: {path} is not a file on this machine")
    life.expects_model = False
    ready = _Ready(life, preset, world)
    if life.rank == 0:
        life.events.write("run_started", name=preset.name, task=preset.task, world_size=world, versions=versions())
    teller = report._teller = _Teller(run, life, world)
    stop = teller.stop
    signal.signal(signal.SIGTERM, stop.on_signal)
    signal.signal(signal.SIGINT, stop.on_signal)
    threading.Thread(target=_look, args=(ready, stop), name="script-watch", daemon=True).start()
    sys.stdout, sys.stderr = (WatchedStream(stream, teller.line) for stream in (sys.stdout, sys.stderr))
    life.sampler = _Sampler(run.root)
    life.phase("running", s_limit=_SILENT_LIMIT_S)
    try:
        _execute(path, preset.script.args, preset.script.folder)
    except SystemExit as ending:
        if not stop.asked and ending.code not in (None, 0):
            raise _exited(ending) from None
    except BaseException as error:
        say("".join(traceback.format_exception(type(error), error, _own_frames(error.__traceback__))))
        stop.hear()
        if not stop.asked:  # a rank whose peers left first fails in its next collective
            raise ScriptFailed(_one_line(error), "out_of_memory" if out_of_memory(error) else "exception") from None
    finally:
        report._teller = None
        ready.look()
    ready.judge()
    life.phase("ending")
    if stop.asked:
        return "stopped", "requested", None
    return "finished", "completed", str(run.model) if run.model.is_dir() else None


def _execute(path: Path, args: list[str], folder: str | None) -> None:
    # the launch keeps the current folder off the path, so that `engine` is ours; the script itself is to find its own
    # modules beside it, and its children are to be as they would be without us
    os.environ.pop("PYTHONSAFEPATH", None)
    os.chdir(folder or path.parent)
    sys.argv = [str(path), *args]
    sys.path.insert(0, str(path.parent))
    runpy.run_path(str(path), run_name="__main__")


def leave() -> None:
    """What Python does at its end and a script may rely on: wait for threads, call exit handlers.

    Not the rest of it: a process group that the script has not taken down aborts the process when its objects are, with
    the other ranks gone.
    """
    with contextlib.suppress(BaseException):
        threading._shutdown()
        atexit._run_exitfuncs()
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()


class _Stop:
    """A request to stop, from the STOP file or a signal."""

    def __init__(self, run: RunDir, life: Life):
        self.run, self.life = run, life
        self.asked = False
        #: The script asks by itself, so it needs no signal.
        self.cooperates = False
        self._signalled_at: float | None = None

    def hear(self) -> bool:
        """Whether a STOP file is there that was not noticed before."""
        news = not self.asked and self.run.read_stop() is not None
        self.asked = self.asked or news
        return news

    def look(self) -> None:
        """Turn a STOP file into what a script can hear; called twice a second."""
        if self.hear() and not self.cooperates:
            os.kill(os.getpid(), signal.SIGTERM)  # also where the script has a handler of its own

    def on_signal(self, number: int, _frame: FrameType | None) -> None:
        now = time.monotonic()
        if self._signalled_at is not None:
            if now - self._signalled_at < _SAME_SIGNAL_S:
                return
            self.life.end("stopped", "requested", f"{signal.Signals(number).name} a second time")
            os._exit(128 + number)
        self._signalled_at, self.asked = now, True
        if not self.cooperates:
            raise SystemExit(128 + number)  # so that `finally` blocks and exit handlers of the script are run


class _Teller:
    """Behind `engine.report`: turns what a script says into events."""

    def __init__(self, run: RunDir, life: Life, world: int):
        self.life, self.stop, self.model_folder = life, _Stop(run, life), run.model
        self._world, self._speaks = world, False
        self._told_at: float | None = None
        self._total: int | None = None

    def step(self, loss: float | None, tokens: int | None, samples: int | None, learning_rate: float | None,
             grad_norm: float | None, at: int | None, total: int | None) -> None:
        self._speaks = True
        self._step(loss, tokens, samples, learning_rate, grad_norm, at, total)

    def line(self, line: str) -> None:
        """A line that the script printed; it counts while the script says nothing in a better way."""
        found = None if self._speaks else read_line(line)
        if found is not None and found["at"] > self.life.step:
            self._step(found.get("loss"), found.get("tokens"), found.get("samples"), found.get("learning_rate"),
                       found.get("grad_norm"), found["at"], found.get("total"))

    def _step(self, loss: float | None, tokens: int | None, samples: int | None, learning_rate: float | None,
              grad_norm: float | None, at: int | None, total: int | None) -> None:
        life, now = self.life, time.perf_counter()
        before, life.step = life.step, life.step + 1 if at is None else int(at)
        if life.phase_name != "training":
            life.phase("training", s_limit=_STEP_LIMIT_S)
        took = None if self._told_at is None else (now - self._told_at) * 1e3 / max(1, life.step - before)
        self._told_at, self._total = now, total or self._total
        weight = 0 if loss is None else int(tokens or samples or 1)
        life.events.write(
            "step", step=life.step, loss_sum=None if loss is None else float(loss) * weight, target_tokens=weight,
            tokens=_whole(tokens), samples=_whole(samples), learning_rate=_number(learning_rate), grad_norm=_number(grad_norm),
            step_time_ms=None if took is None else round(took, 3), total_steps=self._total)

    def evaluation(self, loss: float | None, metrics: dict[str, float]) -> None:
        self.life.events.write("evaluation", step=self.life.step, loss=_number(loss), target_tokens=0, duration_s=0.0,
                               metrics={name: _number(value) for name, value in metrics.items()})

    def stop_requested(self) -> bool:
        self.stop.cooperates = True
        dist = _distributed()
        if dist is None:
            return self.stop.asked
        import torch

        device = "cpu" if "gloo" in dist.get_backend() else torch.device("cuda", torch.cuda.current_device())
        word = torch.tensor([int(self.stop.asked)], device=device)
        dist.all_reduce(word, op=dist.ReduceOp.MAX)
        agreed = bool(word)
        # a request that came meanwhile is for the next time: what was asked is never taken back
        self.stop.asked = self.stop.asked or agreed
        return agreed


class _Ready:
    """Tells what the rank really runs on: first what the launch made of it, then what the script joined."""

    def __init__(self, life: Life, preset: Preset, world: int):
        import psutil

        self.life, self.preset, self.world = life, preset, world
        self.joined: str | None = None
        cpu = preset.distributed.num_gpus_per_node == 0
        self._facts = {
            "world_size": world, "backend": "none" if world == 1 else "not joined yet", "strategy": "script", "precision": "script",
            "device": "cpu" if cpu else f"cuda:{os.environ.get('LOCAL_RANK', '0')}", "host": os.uname().nodename,
            "pid": os.getpid(), "create_time": psutil.Process().create_time(),
            "threads": int(os.environ.get("OMP_NUM_THREADS", "1"))}
        life.events.write("rank_ready", **self._facts)

    def look(self) -> None:
        """Tell the backend once the script has joined its ranks."""
        dist = _distributed() if self.joined is None else None
        if dist is None:
            return
        self.joined = dist.get_backend()
        self.life.events.write("rank_ready", **self._facts | {"backend": self.joined, "world_size": dist.get_world_size()})
        if dist.get_world_size() != self.world:
            self.life.warn("world_size", f"the script joined {dist.get_world_size()} of {self.world} ranks")
        wanted = self.preset.distributed.backend
        if wanted not in ("auto", "none") and wanted not in self.joined:
            self.life.warn("backend", f"the script chose the backend {self.joined}; the preset says {wanted}")

    def judge(self) -> None:
        """Called when the script is done."""
        if self.world > 1 and self.joined is None and self.life.rank == 0:
            self.life.warn("script", f"the script joined no process group: its {self.world} ranks did the same work side by side. "
                                     "Use accelerate or torch.distributed in it, or set distributed.num_processes_per_node: 1")


class _Sampler:
    """Looks at the machine as the other tasks do, as soon as the script itself has brought torch and, on GPUs, a device."""

    def __init__(self, folder: Path):
        self._folder = folder
        self._sample: Callable[[], dict[str, Any]] | None = None

    def __call__(self) -> dict[str, Any]:
        torch = sys.modules.get("torch")
        if self._sample is None and hasattr(torch, "cuda"):
            cuda = torch.cuda.is_initialized()
            if cuda or not torch.cuda.is_available():
                from engine.sampler import make_sampler

                device = torch.device("cuda", torch.cuda.current_device()) if cuda else torch.device("cpu")
                self._sample = make_sampler(device, os.environ.get("LOCAL_RANK", "0") == "0", self._folder)
        return self._sample() if self._sample else {"host": {"pid": os.getpid()}}


def _look(ready: _Ready, stop: _Stop) -> None:
    while True:
        time.sleep(_LOOK_S)
        stop.look()
        ready.look()


def _distributed() -> Any:
    """torch.distributed where the script has joined a process group, else None; imports nothing."""
    dist = sys.modules.get("torch.distributed")
    return dist if dist is not None and getattr(dist, "is_initialized", bool)() else None


def _exited(ending: SystemExit) -> ScriptFailed:
    if isinstance(ending.code, int):
        return ScriptFailed(f"the script exited with code {ending.code}")
    return ScriptFailed(f"the script exited: {ending.code}")


def _own_frames(trace: TracebackType | None) -> TracebackType | None:
    """The traceback from the script's first line on, without how we got there."""
    here = trace
    while here is not None and (here.tb_frame.f_code.co_filename == __file__ or "runpy" in here.tb_frame.f_code.co_filename):
        here = here.tb_next
    return here or trace


def _one_line(error: BaseException) -> str:
    """The error, and where in the script."""
    text = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}".rstrip(": ")
    if isinstance(error, SyntaxError):
        return f"{text} ({Path(error.filename or '').name}, line {error.lineno})" if error.filename not in (None, "") else text
    script = os.path.abspath(sys.argv[0])
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if os.path.abspath(frame.filename) == script]
    return f"{text} ({Path(script).name}, line {lines[-1]})" if lines else text


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


def _whole(value: Any) -> int | None:
    return None if value is None else int(value)
