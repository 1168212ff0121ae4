"""Stands in for torchrun: starts ranks in sessions of their own, hands SIGTERM on, prints a Root Cause block, exits 1."""

import signal
import subprocess
import sys
import time
from pathlib import Path

RANK = Path(__file__).with_name("fake_rank.py")


def main() -> int:
    root, scenario, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    if scenario == "broken-launch":
        print("Traceback (most recent call last):\n  File \"x.py\", line 1, in <module>\nModuleNotFoundError: No module named 'accelerate'")
        return 1
    begun = 1 if scenario == "one-of-two" else count
    ranks = [subprocess.Popen([sys.executable, str(RANK), root, str(rank), scenario], start_new_session=True)
             for rank in range(begun)]
    signal.signal(signal.SIGTERM, lambda *_: [rank.send_signal(signal.SIGTERM) for rank in ranks])
    failed = None
    while None in [rank.poll() for rank in ranks]:
        failed = failed or next(((i, r.returncode) for i, r in enumerate(ranks) if r.returncode), None)
        time.sleep(0.02)
    failed = failed or next(((i, r.returncode) for i, r in enumerate(ranks) if r.returncode), None)
    if failed:
        print(f"Root Cause (first observed failure):\n[0]:\n  time : now\n  host : here\n  rank      : {failed[0]} (local_rank: {failed[0]})"
              f"\n  exitcode  : {failed[1]} (pid: 1)\n", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
