"""The engine against Hugging Face Trainer: time for the same steps, and the memory of the process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.measure import Effort, Result, paired, span
from benchmarks.programs import ROOT, own_home
from engine.contract.load import dump_preset, preset_from_data
from engine.contract.run_dir import RunDir

ABOUT = "time and peak memory of the same training by the engine and by Hugging Face Trainer, one CPU rank"
_MODEL = {"model_type": "llama", "vocab_size": 4096, "hidden_size": 192, "intermediate_size": 512, "num_hidden_layers": 4,
          "num_attention_heads": 6, "num_key_value_heads": 3, "max_position_embeddings": 512, "tie_word_embeddings": True}
_LENGTH, _BATCH, _MICRO = 128, 8, 4
#: Steps that warm up, and steps that are measured.
STEPS = (3, 20)
_LIMIT_S = 900


def run(effort: Effort) -> list[Result]:
    rounds = effort.rounds(5)
    with TemporaryDirectory(prefix="benchmark-") as folder, own_home() as env:
        data = _write_text(Path(folder, "text.jsonl"))
        # one side after the other in processes of their own, since memory is counted by the process
        sides = ("engine", "trainer")
        pairs = [{side: _train(side, Path(folder, f"{side}-{number}"), data, env) for side in sides} for number in range(rounds)]
    found = {side: [pair[side] for pair in pairs] for side in sides}
    losses = [record["losses"] for records in found.values() for record in records]
    apart = max(abs(a - b) / b for other in losses for a, b in zip(losses[0], other, strict=True))
    if apart > 1e-3:
        raise RuntimeError(f"the two do not train alike: their losses differ by up to {apart:.2%}")

    def ratios(key: str) -> list[float]:
        return paired(*([record[key] for record in found[side]] for side in sides))

    what = f"{_BATCH * _LENGTH:,} tokens a step in two micro-batches"
    return [
        Result(f"step time, {what}", "Hugging Face Trainer", ratios("wall_s"), aim=1.03, details=found,
               note=f"in CPU time {span(ratios('cpu_s'))}; losses agree to {apart:.0e}; tokens/s are the inverse"),
        Result("peak memory of the process", "Hugging Face Trainer", ratios("peak_bytes"), aim=1.0),
    ]


def _train(side: str, folder: Path, data: Path, env: dict[str, str]) -> dict[str, Any]:
    preset = preset_from_data({
        "name": "trainer", "task": "llm-pretrain", "model": {"from_config": _MODEL},
        "data": {"train": str(data), "max_length": _LENGTH, "packing": True},
        "training": {"max_steps": sum(STEPS) + 1, "global_batch": _BATCH, "micro_batch": _MICRO, "gradient_accumulation": _BATCH // _MICRO,
                     "learning_rate": 1e-3, "scheduler": "constant", "warmup_steps": 0, "precision": "fp32",
                     "gradient_checkpointing": False, "eval_every": "never", "log_every": 10, "seed": 7},
        "distributed": {"backend": "none", "strategy": "single", "num_gpus_per_node": 0, "num_processes_per_node": 1,
                        "threads_per_process": 1, "communication": {"bucket_mb": 25}}})
    run = RunDir.create(folder, preset.name)
    run.attempt(1).mkdir()
    run.resolved(1).write_text(dump_preset(preset, full=True))
    answer = folder / "answer.json"
    env = {**env, "ACCELERATE_USE_CPU": "true", "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    try:
        subprocess.run([sys.executable, "-m", "benchmarks.trainer_rank", side, str(run.root), str(answer)],
                       cwd=ROOT, env=env, check=True, timeout=_LIMIT_S, capture_output=True, text=True)
    except subprocess.CalledProcessError as error:
        log = run.log(0).read_text()[-2000:] if run.log(0).exists() else error.stderr[-2000:]
        raise RuntimeError(f"{side} did not run: {log}") from None
    return json.loads(answer.read_text())


def _write_text(path: Path, rows: int = 1500) -> Path:
    """Texts of 20 to 119 words, the same each time."""
    words = ["a", "rank", "waits", "for", "gradients", "while", "another", "reads", "its", "data", "and", "buckets", "travel"]
    path.write_text("".join(json.dumps({"text": " ".join(words[(row * 7 + i * (row % 5 + 1)) % len(words)]
                                                        for i in range(20 + row * 37 % 100))}) + "\n" for row in range(rows)))
    return path
