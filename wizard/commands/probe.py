"""`probe`: what this machine has."""

from __future__ import annotations

import argparse

HELP = "show what this machine has: processors, memory, GPUs and their links, network, software"


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--json", action="store_true", help="print the whole inventory; `recommend --inventory FILE` reads it"
    )


def run(args: argparse.Namespace) -> int:
    from wizard.hardware.inventory import dump_inventory
    from wizard.hardware.probe import read_inventory
    from wizard.hardware.text import inventory_lines

    inventory = read_inventory()
    if args.json:
        print(dump_inventory(inventory), end="")
    else:
        print("\n".join(inventory_lines(inventory)))
    return 0
