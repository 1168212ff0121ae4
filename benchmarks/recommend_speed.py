"""How long a whole recommendation takes: 8 GPUs (aim: under 10 ms) and 128 machines of 8 (aim: under 100 ms).

Run from the checkout: `python benchmarks/recommend_speed.py`. Prints the median and the slowest of 30 in milliseconds.
"""

from __future__ import annotations

import statistics
import time
from pathlib import Path

from wizard.advice.recommend import recommend
from wizard.facts.model import read_model_facts
from wizard.hardware.inventory import load_inventory
from wizard.questions.needs import TrainingNeeds

MACHINE = Path(__file__).resolve().parents[1] / "tests" / "recorded" / "machines" / "8x-h100.json"
SEVEN_B = {
    "model_type": "qwen2", "hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28,
    "num_attention_heads": 28, "num_key_value_heads": 4, "vocab_size": 152064,
}  # fmt: skip


def milliseconds(nodes: int) -> list[float]:
    first = load_inventory(MACHINE)
    machines = [first.model_copy(update={"host": f"node{at}"}, deep=True) for at in range(nodes)]
    facts, needs = read_model_facts(None, SEVEN_B, Path(".")), TrainingNeeds(task="llm-sft")
    times = []
    for _ in range(30):
        began = time.perf_counter()
        recommend(machines[0], needs, facts, None, machines[1:])
        times.append((time.perf_counter() - began) * 1000)
    return times


def main() -> None:
    for nodes in (1, 16, 128):
        times = milliseconds(nodes)
        print(f"{nodes:>4} x 8 GPUs: median {statistics.median(times):6.2f} ms, slowest {max(times):6.2f} ms")


if __name__ == "__main__":
    main()
