"""Stands in for one rank: tells what a real one tells, and ends as its scenario says."""

import os
import signal
import sys
import time

import psutil

from engine.contract.events import EventWriter
from engine.contract.run_dir import RunDir

STEPS = 5


def main() -> int:
    signal.alarm(120)  # whatever becomes of the test, no endless rank stays
    run, rank, scenario = RunDir(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    events = EventWriter(run.events(rank), rank, run.latest_attempt())
    stops = []
    if "deaf" in scenario:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    else:
        signal.signal(signal.SIGTERM, lambda *_: stops.append(1))

    def end(state, kind, step, message="", **more):
        events.write("run_ended", state=state, step=step, **more,
                     exit_reason={"kind": kind, "rank": rank, "step": step, "message": message})

    events.write("phase", name="loading data", progress=None, detail=None, s_limit=None)
    events.write("rank_ready", world_size=2, backend="gloo", device="cpu", strategy="ddp", precision="fp32", host=os.uname().nodename,
                 pid=os.getpid(), create_time=psutil.Process().create_time(), threads=1)
    if "stuck-loading" in scenario:
        while not stops:
            time.sleep(0.02)
        end("stopped", "requested", 0)
        return 143
    step = 0
    events.write("phase", name="training", progress=None, detail=None, s_limit=None)
    while True:
        if "endless" in scenario or step < STEPS:
            step += 1
            events.write("step", step=step, loss_sum=1.0, target_tokens=1, tokens=1, samples=1, learning_rate=1.0,
                         grad_norm=1.0, step_time_ms=10.0, data_ms=0.0, compute_ms=10.0, optimizer_ms=0.0)
        if step == 3 and rank == 1 and scenario == "raises":
            end("failed", "exception", step, "ValueError: boom")
            return 5
        if step == 3 and rank == 1 and "killed" in scenario:
            os.kill(os.getpid(), signal.SIGKILL)
        if step == 3 and rank == 0 and scenario == "raises":
            time.sleep(0.3)
            end("failed", "exception", step, "RuntimeError: Connection closed by peer")
            return 5
        if "endless" not in scenario and step >= STEPS:
            break
        if (run.stop_file.exists() or stops) and "deaf" not in scenario:
            (run.checkpoints / f"step-{step:08d}").mkdir(exist_ok=True)
            end("stopped", "requested", step)
            return 0
        time.sleep(0.02)
    if rank == 0 and scenario != "no-model":
        run.model.mkdir(exist_ok=True)
    end("finished", "completed", step, model_path=str(run.model))
    if scenario == "lingers":
        time.sleep(60)
    return 0


if __name__ == "__main__":
    sys.exit(main())
