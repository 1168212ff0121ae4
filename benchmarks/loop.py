"""The engine's loop against the shortest loop in torch, step time by step time."""

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
from engine.contract.preset import Preset
from engine.contract.run_dir import RunDir

ABOUT = "step time of the engine's loop against a plain torch loop; same model, batches and optimizer, one CPU rank"
_LLAMA = {"model_type": "llama", "max_position_embeddings": 512, "tie_word_embeddings": True}
#: name: (model, sequence length, sequences a step, micro-batch, steps a block, blocks of each loop, aim)
_CASES: dict[str, tuple[dict[str, int], int, int, int, int, int, float | None]] = {
    "0.1 M parameters, 256 tokens a step": (
        {"vocab_size": 512, "hidden_size": 64, "intermediate_size": 160, "num_hidden_layers": 2, "num_attention_heads": 2,
         "num_key_value_heads": 2}, 64, 4, 4, 40, 20, None),
    "2 M parameters, 1,024 tokens a step": (
        {"vocab_size": 4096, "hidden_size": 192, "intermediate_size": 512, "num_hidden_layers": 4, "num_attention_heads": 6,
         "num_key_value_heads": 3}, 128, 8, 8, 2, 24, 1.03),
}
_LIMIT_S = 900


def run(effort: Effort) -> list[Result]:
    with TemporaryDirectory(prefix="benchmark-") as folder, own_home() as env:
        data = _write_text(Path(folder, "text.jsonl"))
        return [_case(name, Path(folder, str(number)), data, env, effort) for number, name in enumerate(_CASES)]


def _case(name: str, folder: Path, data: Path, env: dict[str, str], effort: Effort) -> Result:
    model, length, batch, micro, block, blocks, aim = _CASES[name]
    blocks = effort.rounds(blocks)
    # one block of each to warm up, a step before the first, and one whose beginning ends the last
    preset = _preset(data, model, length, batch, micro, steps=2 + block * (blocks + 1))
    run = RunDir.create(folder, preset.name)
    run.attempt(1).mkdir()
    run.resolved(1).write_text(dump_preset(preset, full=True))
    answer = folder / "answer.json"
    # the ranks' environment, and a process of its own since a rank takes over its process's output and signals
    env = {**env, "ACCELERATE_USE_CPU": "true", "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    try:
        subprocess.run([sys.executable, "-m", "benchmarks.loop_rank", str(run.root), str(block), str(answer)],
                       cwd=ROOT, env=env, check=True, timeout=_LIMIT_S, capture_output=True, text=True)
    except subprocess.CalledProcessError as error:
        log = run.log(0).read_text()[-2000:] if run.log(0).exists() else error.stderr
        raise RuntimeError(f"the loops did not run: {log}") from None
    return _result(name, json.loads(answer.read_text()), aim)


def _result(name: str, found: dict[str, Any], aim: float | None) -> Result:
    apart = max(abs(a - b) / b for a, b in zip(found["engine_losses"], found["plain_losses"], strict=True))
    if apart > 1e-3:
        raise RuntimeError(f"{name}: the two loops do not train alike, their losses differ by up to {apart:.2%}")
    wall = paired(found["engine_s"], found["plain_s"])
    cpu = paired(found["engine_cpu_s"], found["plain_cpu_s"])
    itself = paired(found["plain_s"][::2][: len(wall) // 2], found["plain_s"][1::2][: len(wall) // 2])
    return Result(name, "a plain torch loop", wall, aim=aim, note=f"in CPU time {span(cpu)}; the plain loop against itself "
                  f"{span(itself)}; losses agree to {apart:.0e}", details={**found, "cpu_ratios": cpu, "plain_against_itself": itself})


def _preset(data: Path, model: dict[str, int], length: int, batch: int, micro: int, steps: int) -> Preset:
    return preset_from_data({
        "name": "loop", "task": "llm-pretrain", "model": {"from_config": {**_LLAMA, **model}},
        "data": {"train": str(data), "max_length": length, "packing": True},
        "training": {"max_steps": steps, "global_batch": batch, "micro_batch": micro, "gradient_accumulation": batch // micro,
                     "learning_rate": 1e-3, "scheduler": "constant", "warmup_steps": 0, "precision": "fp32",
                     "gradient_checkpointing": False, "eval_every": "never", "seed": 7},
        "distributed": {"backend": "none", "strategy": "single", "num_gpus_per_node": 0, "num_processes_per_node": 1,
                        "threads_per_process": 1, "communication": {"bucket_mb": 25}}})


def _write_text(path: Path, rows: int = 1500) -> Path:
    """Texts of 20 to 119 words, the same each time: enough for packed sequences that hold several documents."""
    words = ["the", "rank", "waits", "for", "gradients", "while", "another", "reads", "its", "data", "and", "a", "bucket", "travels"]
    path.write_text("".join(json.dumps({"text": " ".join(words[(row * 7 + i * (row % 5 + 1)) % len(words)]
                                                        for i in range(20 + row * 37 % 100))}) + "\n" for row in range(rows)))
    return path
