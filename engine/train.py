"""Entry of `accelerate launch -m engine.train RUN_DIR`: one rank of a training, from the preset to the model."""

from __future__ import annotations

import contextlib
import math
import os
import shutil
import sys
import traceback
from pathlib import Path
from typing import Any

from engine.contract.load import load_preset
from engine.contract.outside import what_is_missing
from engine.contract.preset import TRAINABLE_TASKS, Preset, unresolved
from engine.contract.problems import PresetError
from engine.contract.run_dir import RunDir
from engine.errors import EngineError, PresetMismatch
from engine.life import Life, say
from engine.versions import versions


def main(argv: list[str] | None = None) -> int:
    """Train, and say how it ended. Returns 0 (finished or stopped), 3 (preset, data, model), 5 (failed)."""
    arguments = sys.argv[1:] if argv is None else argv
    if len(arguments) != 1 or not Path(arguments[0]).is_dir():
        print("usage: accelerate launch -m engine.train RUN_DIR", file=sys.stderr)
        return 2
    run, rank = RunDir(Path(arguments[0]).resolve()), int(os.environ.get("RANK", "0"))
    life = Life(run, rank, max(1, run.latest_attempt()))
    try:
        state, kind, model_path = train(run, life)
        life.end(state, kind, model_path=model_path)
        return 0
    except PresetError as error:
        return _failed(life, "preset", str(error), 3)
    except EngineError as error:
        return _failed(life, error.kind, str(error), 3 if error.kind in ("preset", "data", "model") else 5)
    except BaseException as error:
        say(traceback.format_exc())
        text = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        return _failed(life, "out_of_memory" if _out_of_memory(error) else "exception", text, 5)


def _failed(life: Life, kind: str, message: str, code: int) -> int:
    say(f"error: {message}")
    life.end("failed", kind, message)
    return code


def _out_of_memory(error: BaseException) -> bool:
    return isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError" or "can't allocate memory" in str(error)


def train(run: RunDir, life: Life) -> tuple[str, str, str | None]:
    """Build the parts, run the loop, write the model. Returns (state, kind of end, path of the model)."""
    preset = read_preset(run)
    if preset.task == "script":
        from engine.script import run_script

        return run_script(run, life, preset, _out_of_memory)

    life.phase("loading libraries")
    from engine import agreement, best, compiler, process_group, sampler, strategy
    from engine.checkpoint import Checkpointer
    from engine.export import export_model
    from engine.loop import Progress, Training
    from engine.meter import Meter
    from engine.tasks.base import find_task
    from engine.tracking import begin_reporting

    task = find_task(preset.task)

    life.phase("connecting", s_limit=preset.distributed.join_timeout_s)
    accelerator = process_group.connect(preset)
    control = process_group.Control(accelerator.num_processes, preset.distributed.timeout_s)
    facts = process_group.describe(accelerator, preset)
    import psutil

    life.events.write("rank_ready", create_time=psutil.Process().create_time(), **facts)
    life.sampler = sampler.make_sampler(accelerator.device, accelerator.is_local_main_process, run.root)
    agreement.check_same_preset(preset, control)
    check_outside(preset, accelerator, control)
    if preset.training.compile:
        life.phase("preparing", detail="trying the compiler", s_limit=compiler.LIMIT_S)
        compiler.check_compiler(accelerator.device)
    keeper = agreement.keeps_folder(run, accelerator.process_index, control)
    if preset.distributed.strategy == "fsdp" and control.total(keeper)[0] > 1 and accelerator.is_main_process:
        life.warn("checkpoints", "the machines share no run folder, so shards could not be read again by all: each checkpoint is "
                                 "gathered whole, through the memory of one rank on each machine")
    resume_step = agreement.agreed_step(steps_to_resume(run), control)
    if keeper:  # the first to speak in each folder
        life.events.write("run_started", name=preset.name, task=preset.task, world_size=accelerator.num_processes,
                          versions=versions(), resumed_from_step=resume_step)
    reporting = begin_reporting(preset, run, life, control, accelerator.process_index, resume_step)

    data, tokenizer = load_data(run, life, preset, task, accelerator, control, keeper)

    life.phase("loading model")
    model = task.build_model(preset, tokenizer, data)
    counts = _describe_model(model, preset)

    life.phase("preparing", s_limit=compiler.LIMIT_S if preset.training.compile else None)
    from accelerate.utils import set_seed

    meter = Meter(life, accelerator.device, preset.training.log_every, accelerator.num_processes > 1)
    model, optimizer = strategy.wrap(model, preset, accelerator, meter.last_bucket)
    # dropout differs between ranks, everything decided globally (data order, initial weights) does not
    set_seed(preset.training.seed + accelerator.process_index)
    total = total_steps(preset, len(data.train))
    checkpointer = Checkpointer(run, accelerator, model, optimizer, control, preset.checkpoints.keep_last, keeper)
    training = Training(preset, task, life, accelerator, control, model, optimizer, data, total, checkpointer, meter)
    if resume_step is not None:
        state = checkpointer.restore(resume_step)
        training.progress = Progress(**{key: value for key, value in state.items() if key in Progress.__dataclass_fields__})
        life.step = training.progress.step
    if keeper:
        life.events.write("plan", **_plan(preset, data, total), **counts)

    training.reporting = reporting
    try:
        ended = training.run()
    except BaseException:
        if reporting is not None:
            reporting.close(limit_s=5.0)
        raise
    if ended == "requested":
        if reporting is not None:
            reporting.close()
        return "stopped", "requested", None
    life.phase("saving model")
    compiler.forget(training.model)
    exported = best.load_best(training)
    path = export_model(training, tokenizer)
    life.result = (ended, str(path))
    if accelerator.is_main_process:
        best.tell(training, exported, path)
        life.phase("generating")
        try:
            task.look(training, tokenizer)
        except Exception as error:  # the model is safe on disk; this is only a look at it
            life.warn("generation", f"no sample: {type(error).__name__}: {error}")
    if keeper:
        shutil.rmtree(run.root / "data", ignore_errors=True)  # kept until now only to resume from
    if preset.hub.push and accelerator.is_main_process:
        from engine import hub

        hub.push_model(run, preset, life)
    life.phase("ending")
    if reporting is not None:
        reporting.close()
    return "finished", ended, str(path)


def read_preset(run: RunDir) -> Preset:
    """The preset this attempt was launched with; nothing in it is left open. Raises PresetError."""
    resolved = run.resolved(run.latest_attempt())
    preset = load_preset(resolved if resolved.exists() else run.preset)
    left = [key for key in unresolved(preset) if key not in ("data.packing", "distributed.main_port")
            and not (preset.task == "script" and key.startswith(("data.", "training.")))]
    if left:
        raise PresetMismatch(f"{', '.join(left)}: still auto; `autotrain-wizard run` resolves it")
    if preset.task not in TRAINABLE_TASKS:
        raise PresetMismatch(f"task: {preset.task} cannot be trained by this version; it trains {', '.join(TRAINABLE_TASKS)}")
    return preset


def check_outside(preset: Preset, accelerator: Any, control: Any) -> None:
    """Raises PresetMismatch on every rank when rank 0 could not report where the preset says; entered by all ranks."""
    missing = what_is_missing(preset, os.environ) if accelerator.is_main_process else []
    if not control.all_ok(not missing):
        raise PresetMismatch("; ".join(f"{what}: {todo}" for what, todo in missing) or "rank 0 cannot report where the preset says")


def steps_to_resume(run: RunDir) -> list[int] | None:
    """The checkpoints there are when this is not the first start of the run, else None."""
    again = run.latest_attempt() > 1 or int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0
    return run.checkpoint_steps() if again else None


def load_data(run: RunDir, life: Life, preset: Preset, task: Any, accelerator: Any, control: Any,
              keeper: bool) -> tuple[Any, Any]:
    """Prepare the data once per run's folder, by its keeper, and open it on every rank. Returns (data, tokenizer)."""
    life.phase("loading data", s_limit=24 * 3600)
    import transformers.modeling_utils  # noqa: F401 (slow to import, and the data may still be in the making)
    from transformers import AutoTokenizer

    from engine.data.ahead import prepare_once
    from engine.errors import DataError

    folder = run.root / "data"
    failure: EngineError | None = None
    try:
        if keeper:
            prepare_once(run, preset, lambda report: task.prepare_data(preset, folder, report),
                         lambda detail, share: life.phase("loading data", share, detail))
    except EngineError as error:
        failure = error
    if not control.all_ok(failure is None, long=True):
        raise failure or DataError("another rank could not prepare the data; see its log")
    data = task.open_data(folder)
    if len(data.train) == 0:
        raise DataError(f"data.train: {preset.data.train} has no usable row")
    if accelerator.is_main_process:
        life.phase("loading data", 1.0, task.describe_data(data))
        for message in data.summary["warnings"]:
            life.warn("data", message)
    # machines without a shared folder each prepared their own
    same = int(data.summary["fingerprint"][:8], 16)
    if control.total(same)[0] != same * accelerator.num_processes:
        raise DataError(f"data.train: {preset.data.train} is not the same on all machines")
    return data, AutoTokenizer.from_pretrained(folder / "tokenizer", trust_remote_code=preset.model.trust_remote_code)


def total_steps(preset: Preset, sequences: int) -> int:
    """Optimizer steps of the whole training: as given, or so many that the data passes `epochs` times."""
    if preset.training.max_steps is not None:
        return preset.training.max_steps
    return max(1, math.ceil((preset.training.epochs or 1.0) * sequences / preset.training.global_batch))


def _describe_model(model: Any, preset: Preset) -> dict[str, Any]:
    from engine.model import flops_per_token, parameter_counts

    parameters, trainable = parameter_counts(model)
    return {"parameters": parameters, "trainable_parameters": trainable,
            "flops_per_token": flops_per_token(model, preset.data.max_length)}


def _plan(preset: Preset, data: Any, total: int) -> dict[str, Any]:
    plan = preset.training
    return {
        "total_steps": total, "steps_per_epoch": round(len(data.train) / plan.global_batch, 3),
        "global_batch": plan.global_batch, "micro_batch": plan.micro_batch,
        "gradient_accumulation": plan.gradient_accumulation, "max_length": preset.data.max_length,
        "packing": data.packing, "train_rows": data.train.rows, "train_tokens": int(data.train.tokens.sum()),
        "valid_rows": data.valid.rows if data.valid is not None else 0, "learning_rate": plan.learning_rate,
        "log_every": plan.log_every,
    }


if __name__ == "__main__":
    code = main()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):  # the log's disk is full
            stream.flush()
    if "engine.script" in sys.modules:
        sys.modules["engine.script"].leave()
    # the interpreter's own ending takes a second or two, and everything is on disk by now
    os._exit(code)
