"""`autotrain-wizard runs`: what was run, and how it is."""

from __future__ import annotations

import argparse

HELP = "list the runs, newest first"


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-n", "--number", type=int, default=20, metavar="N", help="show at most N (default 20; 0: all)")
    parser.add_argument("--json", action="store_true", help="print a JSON list")


def run(args: argparse.Namespace) -> int:
    from wizard.launch.glance import glance
    from wizard.launch.index import all_runs

    found = all_runs()
    shown = found[: args.number] if args.number > 0 else found
    glances = [glance(each) for each in shown]
    if args.json:
        import dataclasses
        import json

        print(json.dumps([dataclasses.asdict(each) for each in glances], ensure_ascii=False))
        return 0
    if not glances:
        print("no runs yet; start one: autotrain-wizard run PRESET")
        return 0
    rows = [("RUN", "STATE", "STEP", "AGE"), *(each.row() for each in glances)]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    for row in rows:
        print("  ".join((row[0].ljust(widths[0]), row[1].ljust(widths[1]), row[2].rjust(widths[2]), row[3].rjust(widths[3]))))
    if len(shown) < len(found):
        print(f"({len(found) - len(shown)} older; all of them: autotrain-wizard runs -n 0)")
    return 0
