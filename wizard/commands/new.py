"""`new`: ask a way to a training, in a full screen or line by line; or write a preset without asking."""

from __future__ import annotations

import argparse

HELP = "answer a few questions and get a preset, and a training if you like"

EXAMPLES = """\
examples:
  autotrain-wizard new                                    the questions in a full screen
  autotrain-wizard new --prompts                          the same questions, line by line
  autotrain-wizard new --from llama-dialogues             begin with a preset's values
  autotrain-wizard new --defaults --set training.max_steps=50 -o first.yaml"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLES
    parser.add_argument("--prompts", action="store_true", help="ask line by line, for terminals without a full screen")
    parser.add_argument("--from", dest="preset", metavar="PRESET", help="a preset, by file or name, to begin with")
    parser.add_argument("--defaults", action="store_true", help="ask nothing and take every default")
    parser.add_argument("--set", dest="overrides", metavar="KEY=VALUE", action="append", default=[],
                        help="answer a key of the preset, such as data.train=./texts (may be repeated)")
    parser.add_argument("-o", "--output", metavar="FILE",
                        help="with --defaults: where the preset is written (default: standard output)")
    parser.add_argument("--force", action="store_true", help="with -o: replace the file if it exists")


def run(args: argparse.Namespace) -> int:
    from wizard.errors import UsageError
    overrides = {}
    if args.overrides:  # what reads them takes longer to import than the first screen takes to appear
        from wizard.launch.overrides import parse_settings

        overrides = parse_settings(args.overrides)
    if args.defaults:
        return _write(args, overrides)
    if args.output or args.force:
        raise UsageError("-o and --force go with --defaults", "the review of the questions has `save`")
    if args.prompts:
        from wizard.prompts import run_prompts

        return run_prompts(args.preset, overrides)
    return _ask(args, overrides)


def _ask(args: argparse.Namespace, overrides: dict) -> int:
    """The full screen where there can be one, else the prompts, else a clear word."""
    import sys

    from wizard.tui.terminal import why_no_screen

    reason = why_no_screen()
    if reason is None:
        from wizard.tui.app import run_app

        return run_app("new" if args.preset or overrides else "welcome", args.preset, overrides)
    print(f"autotrain-wizard: no full screen here ({reason}); asking line by line", file=sys.stderr)
    from wizard.prompts import run_prompts

    return run_prompts(args.preset, overrides)


def _write(args: argparse.Namespace, overrides: dict) -> int:
    """All defaults as a preset: checked whole before a byte is written."""
    import sys
    from pathlib import Path

    from wizard import session
    from wizard.errors import UsageError
    from wizard.presets.save import save_preset

    target = Path(args.output).expanduser() if args.output else None
    if target is not None and target.exists() and not args.force:
        raise UsageError(f"{target}: exists already", "choose another name, or replace it with --force")
    if args.prompts:
        raise UsageError("--defaults asks nothing, so --prompts has no part in it", "leave one of the two out")
    flow, base = session.new_flow(session.read_machine(), args.preset, overrides)
    session.learn_all(flow, base)
    session.refuse_problems(flow)
    text = session.finished(flow, base, target.parent if target else None, overrides)
    if target is None:
        print(text, end="")
        return 0
    saved = save_preset(text, target, overwrite=args.force)
    print(f"autotrain-wizard: wrote {saved}\n  start it: autotrain-wizard run {saved}", file=sys.stderr)
    return 0
