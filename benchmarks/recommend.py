"""How long a whole recommendation takes: facts are in memory, so this is the advice alone."""

from __future__ import annotations

import time
from pathlib import Path

from benchmarks.measure import Effort, Result, quartiles
from benchmarks.programs import ROOT
from wizard.advice.recommend import recommend
from wizard.facts.model import read_model_facts
from wizard.hardware.inventory import HardwareInventory, load_inventory
from wizard.questions.needs import TrainingNeeds

ABOUT = "recommend() for 8 GPUs against 10 ms, and for 128 machines of 8 against 100 ms"
_MACHINE = ROOT / "tests" / "recorded" / "machines" / "8x-h100.json"
_MODEL = {"model_type": "qwen2", "hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28,
          "num_attention_heads": 28, "num_key_value_heads": 4, "vocab_size": 152064}


def run(effort: Effort) -> list[Result]:
    return [_result("8 GPUs", 1, 0.010, effort.rounds(60)), _result("128 machines of 8 GPUs", 128, 0.100, effort.rounds(24))]


def _result(what: str, machines: int, limit_s: float, rounds: int) -> Result:
    wall, cpu = _seconds(machines, rounds)
    low, high = (1000 * value for value in quartiles(wall))
    return Result(f"recommend() for {what}", f"{limit_s * 1000:.0f} ms", [value / limit_s for value in wall], aim=1.0,
                  note=f"{low:.1f} to {high:.1f} ms, of CPU time {1000 * min(cpu):.1f} ms at best", details={"wall_s": wall, "cpu_s": cpu})


def _seconds(machines: int, rounds: int) -> tuple[list[float], list[float]]:
    """(wall, CPU) seconds of each round; the first, which compiles patterns and models, is left out."""
    first, *others = _inventories(machines)
    facts, needs = read_model_facts(None, _MODEL, Path(".")), TrainingNeeds(task="llm-sft", num_nodes=machines)
    wall, cpu = [], []
    for _ in range(rounds + 1):
        began, used = time.perf_counter(), time.process_time()
        recommend(first, needs, facts, None, others)
        wall.append(time.perf_counter() - began)
        cpu.append(time.process_time() - used)
    return wall[1:], cpu[1:]


def _inventories(count: int) -> list[HardwareInventory]:
    one = load_inventory(_MACHINE)
    return [one.model_copy(update={"host": f"node{index}"}, deep=True) for index in range(count)]
