"""One rank that runs the engine's loop and a plain one in turns: `python -m benchmarks.loop_rank RUN_DIR BLOCK ANSWER`.

The engine trains exactly as it does in a run: its whole entry is called, and only between two of its steps, after
every BLOCK steps, does the plain loop get its turn for as many. ANSWER is a JSON file of the seconds of each block.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from engine.contract.run_dir import RunDir
from engine.life import Life


class Turns:
    """Times the engine's blocks from outside and runs the plain loop's between them."""

    def __init__(self, training: Any, block: int):
        self.training, self.block = training, block
        self.plain = _plain_loop(training)
        self.seconds: dict[str, list[float]] = {"engine_s": [], "engine_cpu_s": [], "plain_s": [], "plain_cpu_s": []}
        self._before: tuple[float, float] | None = None

    def step_begins(self) -> None:
        """Called by the engine before each step: at the end of a block its own clock stops and the plain loop runs."""
        step = self.training.progress.step
        if step == 0:
            self.plain.run(1)
        if step % self.block != 1 % self.block:
            return
        if self._before is not None:
            self._took("engine", self._before)
            before = _clock()
            self.plain.run(self.block)
            self._took("plain", before)
        self._before = _clock()

    def _took(self, which: str, before: tuple[float, float]) -> None:
        now = _clock()
        self.seconds[f"{which}_s"].append(now[0] - before[0])
        self.seconds[f"{which}_cpu_s"].append(now[1] - before[1])

    def measured(self) -> dict[str, list[float]]:
        """The blocks of both loops without the first of each, which warm up."""
        return {name: values[1:] for name, values in self.seconds.items()}


def _clock() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()


def _plain_loop(training: Any) -> Any:
    from transformers import AutoTokenizer

    from benchmarks.baselines.plain_loop import PlainLoop
    from engine.data.order import step_indices
    from engine.model import build_model
    from engine.optim import build_optimizer

    preset, data = training.preset, training.data.train
    plan = preset.training
    if plan.gradient_accumulation != 1:
        raise ValueError("the plain loop does not accumulate")
    model = build_model(preset, AutoTokenizer.from_pretrained(training.life.run.root / "data" / "tokenizer"))
    batches = [data.collate(step_indices(len(data), plan.seed, step, plan.global_batch)) for step in range(plan.max_steps)]
    return PlainLoop(model, build_optimizer(model, plan, from_scratch=True), batches, plan.max_grad_norm)


def main() -> int:
    run, block, answer = RunDir(Path(sys.argv[1])), int(sys.argv[2]), Path(sys.argv[3])
    life = Life(run, 0, 1)
    from engine import loop, train

    original = loop.Training.run
    turns: list[Turns] = []

    def run_in_turns(training: Any) -> str:
        turns.append(Turns(training, block))
        word = training._word

        def word_in_turn() -> int:
            turns[0].step_begins()
            return word()

        training._word = word_in_turn
        original(training)
        return "requested"  # no model to write: it is the loop that is measured

    loop.Training.run = run_in_turns
    train.train(run, life)
    life.end("stopped", "requested")
    steps = [json.loads(line) for line in run.events(0).read_text().splitlines() if '"event": "step"' in line]
    count = turns[0].plain.step
    answer.write_text(json.dumps({
        **turns[0].measured(), "block": block,
        "engine_losses": [record["loss_sum"] / record["target_tokens"] for record in steps][:count],
        "plain_losses": [float(loss) for loss in turns[0].plain.losses]}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
