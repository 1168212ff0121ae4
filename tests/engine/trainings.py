"""Small trainings for tests: presets of a tiny Llama, run by a pool of ranks, read back from the run's folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from engine.contract.load import dump_preset, preset_from_data
from engine.contract.preset import Preset
from engine.contract.run_dir import RunDir

TINY = {"model_type": "llama", "vocab_size": 300, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
        "num_attention_heads": 2, "num_key_value_heads": 2, "max_position_embeddings": 128, "tie_word_embeddings": True}


def write_text(path: Path, rows: int = 80) -> Path:
    """JSONL with a column `text` of sentences of uneven length, the same each time."""
    words = "the rank waits for gradients while another reads its data and a bucket travels over the wire".split()
    lines = [json.dumps({"text": " ".join(words[(row * 7 + i * (row % 5 + 1)) % len(words)] for i in range(4 + row * 13 % 29))})
             for row in range(rows)]
    path.write_text("\n".join(lines) + "\n")
    return path


def tiny_preset(data: Path, world: int, **overrides: Any) -> Preset:
    """A resolved preset: `world` CPU ranks, 6 steps of 8 sequences of 32 tokens. `overrides`: section__key=value."""
    values: dict[str, Any] = {
        "name": "tiny", "task": "llm-pretrain", "model": {"from_config": dict(TINY)},
        "data": {"train": str(data), "max_length": 32, "packing": True},
        "training": {"max_steps": 6, "global_batch": 8, "micro_batch": 8 // world, "gradient_accumulation": 1, "learning_rate": 3e-3,
                     "precision": "fp32", "gradient_checkpointing": False, "log_every": 1, "seed": 7},
        "distributed": {"backend": "gloo" if world > 1 else "none", "strategy": "ddp" if world > 1 else "single",
                        "num_gpus_per_node": 0, "num_processes_per_node": world, "threads_per_process": 1, "timeout_s": 60,
                        "communication": {"bucket_mb": 25}},
    }
    for key, value in overrides.items():
        section, _, name = key.partition("__")
        if name:
            values.setdefault(section, {})[name] = value
        else:
            values[section] = value
    return preset_from_data(values)


def new_run(folder: Path, preset: Preset) -> RunDir:
    run = RunDir.create(folder, preset.name)
    next_attempt(run, preset)
    return run


def next_attempt(run: RunDir, preset: Preset) -> None:
    number = run.latest_attempt() + 1
    run.attempt(number).mkdir()
    run.resolved(number).write_text(dump_preset(preset, full=True))


def train_on_rank(rank: int, root: str, stop_after: int | None = None) -> tuple[str, str, str | None]:
    """What `engine.train` does on one rank of a pool. `stop_after`: rank 0 asks for a stop in that step."""
    from accelerate.state import AcceleratorState, GradientState, PartialState

    from engine import train as entry
    from engine.life import Life

    for state in (AcceleratorState, GradientState, PartialState):
        state._reset_state()
    run = RunDir(root)
    life = Life(run, rank, run.latest_attempt())
    if stop_after is not None:
        import engine.loop

        original = engine.loop.Training._word

        def word(self: Any) -> int:
            if self.accelerator.is_main_process and self.progress.step + 1 >= stop_after:
                run.request_stop()
            return original(self)

        engine.loop.Training._word = word
    try:
        outcome = entry.train(run, life)
        life.end(outcome[0], outcome[1], model_path=outcome[2])
        return outcome
    except BaseException as error:
        life.end("failed", getattr(error, "kind", "exception"), str(error))
        raise
    finally:
        if stop_after is not None:
            engine.loop.Training._word = original


def events(run: RunDir, kind: str, rank: int | None = None) -> list[dict[str, Any]]:
    """All events of a kind, in the order of rank and writing."""
    files = run.event_files()
    chosen = files.values() if rank is None else [files[rank]]
    records = [json.loads(line) for path in chosen for line in path.read_text().splitlines()]
    return [record for record in records if record["event"] == kind]


def losses(run: RunDir) -> dict[int, float]:
    """Mean target-token loss over all ranks by step; of a step done twice the highest attempt's."""
    sums: dict[int, dict[int, tuple[float, int]]] = {}
    for record in events(run, "step"):
        total, targets = sums.setdefault(record["step"], {}).get(record["attempt"], (0.0, 0))
        sums[record["step"]][record["attempt"]] = (total + record["loss_sum"], targets + record["target_tokens"])
    return {step: pair[0] / pair[1] for step, attempts in sorted(sums.items()) for pair in [attempts[max(attempts)]]}
