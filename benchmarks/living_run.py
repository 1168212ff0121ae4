"""A made-up run that is alive: `python -m benchmarks.living_run FOLDER NAME RANKS PAST_STEPS` writes until it is ended."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from tests.fake_run import FakeRun

STEP_S = 0.5


def main() -> None:
    folder, name, ranks, past = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    # on a made-up clock first, which then goes on as the real one; evaluations and checkpoints as rare as in long runs
    fake = FakeRun(folder, ranks, steps=1_000_000, step_s=STEP_S, name=name, eval_every=200, checkpoint_every=200, gpu=ranks > 2,
                   began=time.time() - past * STEP_S * 1.02 - 10)
    fake.launch()
    fake.load()
    fake.status("running")
    fake.train(1, past)
    fake.live, fake.began = True, time.time() - fake.clock
    print(fake.run.root, flush=True)
    fake.train(past + 1, fake.steps)


if __name__ == "__main__":
    main()
