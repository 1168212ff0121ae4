"""`autotrain-wizard watch`: attach to a run from any terminal; leaving it never touches the run."""

from __future__ import annotations

import argparse
import sys

HELP = "watch a run: live monitor, plain lines or JSON"


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", nargs="?", metavar="RUN", help="folder, NAME or NAME/STAMP of a run (default: the newest)")
    parser.add_argument("--plain", action="store_true", help="print lines (the default where a full screen cannot work)")
    parser.add_argument("--json", action="store_true", help="print the run's events as JSON lines, from its start")


def run(args: argparse.Namespace) -> int:
    """Exit code of the run's outcome; 0 when the monitor was left while the run goes on."""
    from wizard.launch.index import find_run

    found = find_run(args.run)
    if args.json:
        return _follow(found, as_json=True)
    from wizard.tui.terminal import why_no_screen

    if args.plain or why_no_screen() is not None:
        return _follow(found, as_json=False)
    return _monitor(found)


def _monitor(found) -> int:
    from engine.contract.run_dir import ENDED
    from wizard.launch.liveness import current_status
    from wizard.monitor import outcome
    from wizard.tui.app import run_monitor

    code = run_monitor(found)
    status = current_status(found)
    if code or status is None:
        return code
    print(outcome.summary(found, status))
    return outcome.exit_code(status) if status.state in ENDED else code


def _follow(found, as_json: bool) -> int:
    from wizard.errors import ExitCode
    from wizard.monitor import outcome
    from wizard.monitor.json_lines import follow_json
    from wizard.monitor.plain import follow_plain

    try:
        status = follow_json(found, sys.stdout) if as_json else follow_plain(found, sys.stdout, history=False)
    except KeyboardInterrupt:
        print("\nno longer watching; the run goes on", file=sys.stderr)
        return ExitCode.INTERRUPTED
    if not as_json:
        print(outcome.summary(found, status))
    return outcome.exit_code(status)

