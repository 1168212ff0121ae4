"""`autotrain-wizard presets`: list, show and check presets."""

from __future__ import annotations

import argparse

HELP = "list, show and check presets"


def arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    listing = actions.add_parser("list", help="the presets there are by name")
    listing.add_argument("--json", action="store_true", help="print a JSON list")
    show = actions.add_parser("show", help="print a preset")
    show.add_argument("preset", metavar="PRESET", help="file or name")
    check = actions.add_parser("check", help="say everything that is wrong with presets (code 3)")
    check.add_argument("preset", nargs="+", metavar="PRESET", help="files or names")


def run(args: argparse.Namespace) -> int:
    return {"list": _list, "show": _show, "check": _check, None: _list}[args.action](args)


def _list(args: argparse.Namespace) -> int:
    from wizard.paths import user_presets
    from wizard.presets.find import list_presets

    rows = [_row(found) for found in list_presets()]
    if getattr(args, "json", False):
        import json

        print(json.dumps(rows, ensure_ascii=False))
        return 0
    names = max((len(row["name"]) for row in rows), default=0)
    tasks = max((len(row["task"]) for row in rows), default=0)
    for row in rows:
        print(f"{row['name']:<{names}}  {row['task']:<{tasks}}  {row['origin']:<7}  {row['about']}".rstrip())
    print(f"(your own go to {user_presets()})")
    return 0


def _row(found) -> dict[str, str]:
    """Name, task and the first comment of a preset; a broken one is listed with its first problem."""
    from engine.contract.load import load_preset, read_preset_text
    from engine.contract.problems import PresetError

    row = {"name": found.name, "origin": found.origin, "path": str(found.path)}
    try:
        task = load_preset(found.path).task
        first = next(iter(read_preset_text(found.path).splitlines()), "")
    except PresetError as error:
        return {**row, "task": "?", "about": f"cannot be used: {error.problems[0]}"}
    about = first.lstrip("# ").strip() if first.startswith("#") else ""
    return {**row, "task": task, "about": about if len(about) <= 70 else about[:69] + "…"}


def _show(args: argparse.Namespace) -> int:
    from engine.contract.load import read_preset_text
    from wizard.presets.find import find_preset

    print(read_preset_text(find_preset(args.preset).path), end="")
    return 0


def _check(args: argparse.Namespace) -> int:
    from engine.contract.load import load_preset
    from engine.contract.problems import PresetError
    from wizard.launch.supported import check_supported
    from wizard.presets.find import find_preset

    problems = []
    for ref in args.preset:
        path = find_preset(ref).path
        try:
            check_supported(load_preset(path), str(path))
        except PresetError as error:
            problems += error.problems
            continue
        print(f"{ref}: good")
    if problems:
        raise PresetError(problems)
    return 0
