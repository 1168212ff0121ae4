"""`autotrain-wizard run`: launch a preset, or go on with a run, and stay with it to its end."""

from __future__ import annotations

import argparse
import os
import sys

HELP = "train what a preset says, or resume a run"


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("preset", nargs="?", metavar="PRESET", help="preset file, preset name, or (with --resume) a run's folder")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="override a key of the preset; repeatable")
    parser.add_argument("--dry-run", action="store_true", help="print the resolved preset and the exact command; start nothing")
    parser.add_argument("--detach", action="store_true", help="return when the first step is done; the run goes on")
    parser.add_argument("--resume", nargs="?", const="", metavar="RUN",
                        help="go on from the newest checkpoint of RUN (default: the newest run of PRESET)")
    parser.add_argument("--json", action="store_true", help="print events as JSON lines; the last one is `run_ended`")
    parser.add_argument("--plain", action="store_true", help="print lines (the default where a full screen cannot work)")
    parser.add_argument("--close", action="store_true", help="close the monitor by itself when the run ends")
    parser.add_argument("--runs", metavar="DIR", help="folder that runs go to (default: $AUTOTRAIN_WIZARD_RUNS, else ./runs)")
    parser.add_argument("--node-rank", type=int, metavar="N",
                        help="number of this machine, from 0, where a preset of several is started by hand on each "
                             "(a resumed run keeps its own)")


def run(args: argparse.Namespace) -> int:
    """0 finished (or dry run, or detached and the first step seen); otherwise the outcome's code."""
    from wizard.errors import ExitCode, UsageError

    if args.preset is None and not args.resume:
        raise UsageError("run: no preset", "autotrain-wizard run PRESET; the presets there are: autotrain-wizard presets list")
    if args.dry_run:
        return _dry_run(args)
    start = _starter(args)
    from wizard.launch.foreground import HungUp, StopSignals, follow_to_end, say
    from wizard.launch.left_behind import ender
    from wizard.launch.rendezvous import waiting_words

    try:
        with StopSignals().listening() as signals:
            started = start()
            signals.attach(started)
            if warning := ender(os.environ):
                say(f"note: {warning}")
            if waiting := waiting_words(started):
                say(waiting)
            if args.detach:
                return _detach(started, signals)
            if args.json or args.plain or not _full_screen():
                say(f"run {started.root}")
                return follow_to_end(started, signals, args.json, history=args.resume is None)
            return _monitor(started, signals, args.close)
    except HungUp:
        return ExitCode.HANGUP


def _starter(args: argparse.Namespace):
    """All checks done, a function that starts the run: from there on a signal must find the run to stop."""
    from pathlib import Path

    from wizard.launch.overrides import parse_settings
    from wizard.launch.prepare import prepare
    from wizard.launch.start import resume_run, start_run

    settings = parse_settings(args.set)
    if args.resume is not None:
        run = _run_to_resume(args)
        return lambda: resume_run(run, settings, args.node_rank)
    prepared = prepare(args.preset, settings)
    return lambda: start_run(prepared, Path(args.runs) if args.runs else None, args.node_rank or 0)


def _run_to_resume(args: argparse.Namespace):
    """RUN as given; else PRESET when it is a run's folder; else the newest run of that preset's name, on a disk that
    machines share the one of this machine's number."""
    from pathlib import Path

    from engine.contract.load import load_preset
    from engine.contract.run_dir import RunDir
    from wizard.launch.attempts import node_of
    from wizard.launch.index import find_run, is_run
    from wizard.presets.find import find_preset

    if args.resume:
        return find_run(args.resume)
    if is_run(Path(args.preset)):
        return RunDir(Path(args.preset).resolve())
    name = load_preset(find_preset(args.preset).path).name
    return find_run(name, None if args.node_rank is None else lambda run: node_of(run) == args.node_rank)


def _dry_run(args: argparse.Namespace) -> int:
    import time
    from pathlib import Path

    from engine.contract.load import dump_preset
    from engine.contract.run_dir import RunDir
    from wizard.launch.attempts import node_of
    from wizard.launch.checks import check_launch
    from wizard.launch.command import launch_command
    from wizard.launch.overrides import check_resumable, parse_settings
    from wizard.launch.prepare import prepare
    from wizard.launch.start import check_node_rank, prepare_resume, with_port
    from wizard.paths import runs_root

    settings = parse_settings(args.set)
    if args.resume is not None:
        check_resumable(settings)
        target = _run_to_resume(args)
        prepared = prepare_resume(target, settings)
        node_rank = node_of(target) or 0 if args.node_rank is None else args.node_rank
    else:
        node_rank = args.node_rank or 0
        prepared = prepare(args.preset, settings)
        root = Path(args.runs).absolute() if args.runs else runs_root()
        target = RunDir(root / prepared.resolved.name / time.strftime("%Y%m%d-%H%M%S"))
    resolved = with_port(prepared.resolved)
    check_node_rank(resolved, node_rank)
    check_launch(resolved, prepared.model, target.root, node_rank)
    launch = launch_command(resolved, target, target.latest_attempt() + 1, node_rank)
    if args.json:
        import json

        print(json.dumps({"resolved": resolved.model_dump(), "argv": launch.argv, "env": launch.env,
                          "accelerate_config": launch.accelerate_config,
                          "run_dir": str(target.root)}, ensure_ascii=False))
        return 0
    print("# the preset as it would run here")
    print(dump_preset(resolved, full=True))
    print("# the command, with the environment it adds")
    print(launch.shell())
    return 0


def _detach(started, signals) -> int:
    from wizard.launch.foreground import say, wait_for_first_step

    code = wait_for_first_step(started, signals)
    print(started.root)
    if code == 0:
        say(f"the run goes on\n  watch   autotrain-wizard watch {started.root}\n  stop    autotrain-wizard stop {started.root}")
    return code


def _monitor(started, signals, close: bool) -> int:
    from engine.contract.run_dir import ENDED
    from wizard.launch.liveness import current_status
    from wizard.monitor import outcome
    from wizard.tui.app import run_monitor

    signals.quiet = True  # a line on stderr would be drawn over the screen
    code = run_monitor(started, close_when_done=close)
    status = current_status(started)
    if status is None:
        return code
    print(outcome.summary(started, status))
    return signals.code(status) if status.state in ENDED else code


def _full_screen() -> bool:
    """Textual reads keys from stdin and draws on stderr; someone who redirects stdout wants lines there."""
    streams = (sys.stdin, sys.stdout, sys.stderr)
    return all(stream is not None and stream.isatty() for stream in streams) and os.environ.get("TERM") not in (None, "", "dumb")
