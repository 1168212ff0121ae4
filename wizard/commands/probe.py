"""`probe`: what this machine has, or what a pasted text says of another."""

from __future__ import annotations

import argparse

HELP = "show what this machine has: processors, memory, GPUs and their links, network, software"


def arguments(parser: argparse.ArgumentParser) -> None:
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument(
        "--json", action="store_true", help="print the whole inventory; `recommend --inventory FILE` reads it"
    )
    shape.add_argument("--yaml", action="store_true", help="the same as YAML")
    parser.add_argument(
        "--from-text",
        "--from-nvidia-smi",
        dest="from_text",
        metavar="FILE",
        help="read another machine from text: nvidia-smi tables and matrices, rocm-smi, ibstatus, lscpu, "
        "collect_env, ip addr, plain words; - for standard input",
    )


def run(args: argparse.Namespace) -> int:
    from wizard.hardware.inventory import dump_inventory
    from wizard.hardware.probe import read_inventory
    from wizard.hardware.text import inventory_lines

    if args.from_text:
        from wizard.hardware.reading.source import read_machine_text

        inventory = read_machine_text(args.from_text).inventory
    else:
        inventory = read_inventory()
    if args.json:
        print(dump_inventory(inventory), end="")
    elif args.yaml:
        import json

        import yaml

        data = json.loads(dump_inventory(inventory))
        print(yaml.safe_dump(data, sort_keys=False, allow_unicode=True), end="")
    else:
        print("\n".join(inventory_lines(inventory)))
    return 0
