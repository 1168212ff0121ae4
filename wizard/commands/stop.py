"""`autotrain-wizard stop`: end a run cleanly, from any terminal."""

from __future__ import annotations

import argparse
import sys

HELP = "stop a run, with a checkpoint"


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", nargs="?", metavar="RUN", help="folder, NAME or NAME/STAMP (default: the one that is running)")
    parser.add_argument("--now", action="store_true", help="at once, without a checkpoint")
    parser.add_argument("--no-wait", action="store_true", help="only ask; do not wait until it has stopped")
    parser.add_argument("--timeout", type=float, metavar="S", help="give up waiting after S seconds (code 7)")


def run(args: argparse.Namespace) -> int:
    """0 when the run has stopped (or had ended well before); 5 or 7 when it failed or was lost."""
    from engine.contract.run_dir import ENDED
    from wizard.errors import ExitCode
    from wizard.launch.index import short_name
    from wizard.launch.liveness import current_status
    from wizard.launch.stop import stop_run
    from wizard.monitor import outcome

    target = _target(args.run)
    before = current_status(target)
    if before is not None and before.state in ENDED:
        print(f"{short_name(target)}: {before.state} already", file=sys.stderr)
    else:
        print(f"stopping {short_name(target)}{' at once' if args.now else ' with a checkpoint'}", file=sys.stderr)
    try:
        status = stop_run(target, now=args.now, wait=not args.no_wait, timeout_s=args.timeout)
    except KeyboardInterrupt:
        print("no longer waiting; the request to stop stands", file=sys.stderr)
        return ExitCode.INTERRUPTED
    if args.no_wait and status.state not in ENDED:
        return ExitCode.OK
    print(outcome.summary(target, status))
    return ExitCode.OK if status.state in ("stopped", "finished") else outcome.exit_code(status)


def _target(ref: str | None):
    """The run named, or the only one that is running. Raises UsageError when that is not clear."""
    from wizard.errors import UsageError
    from wizard.launch.index import all_runs, find_run, short_name
    from wizard.launch.liveness import is_alive

    if ref is not None:
        return find_run(ref)
    alive = [found for found in all_runs() if is_alive(found)]
    if not alive:
        raise UsageError("no run is running", "all runs: autotrain-wizard runs")
    if len(alive) > 1:
        raise UsageError(f"{len(alive)} runs are running", f"name one: {', '.join(map(short_name, alive))}")
    return alive[0]
