"""`python -m benchmarks [NAME ...]`: measure, show a table, keep the numbers as JSON."""

from __future__ import annotations

import argparse
import importlib
import sys
import time
import traceback
from pathlib import Path

from benchmarks import table
from benchmarks.measure import Effort, Result, Skipped

#: Each is a module with `ABOUT` and `run(effort) -> list[Result]`; `-` in a name is `_` in its module's.
NAMES = ("loop", "trainer", "startup", "monitor", "first-step", "recommend")
RESULTS = Path(__file__).parent / "results"


def main(argv: list[str] | None = None) -> int:
    """0 when everything chosen was measured (whatever the ratios are) or skipped, 1 when a benchmark broke."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure on this machine. Ratios of paired runs; "
                                     "a machine that is busy with something else widens the spread.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"what to measure: {', '.join(NAMES)} (default: all)")
    parser.add_argument("--quick", action="store_true", help="a quarter of the rounds: to see that it works, not for the record")
    parser.add_argument("--out", type=Path, default=RESULTS, metavar="DIR", help="folder for the JSON (default: benchmarks/results)")
    parser.add_argument("--list", action="store_true", help="say what there is to measure")
    args = parser.parse_args(argv)
    unknown = [name for name in args.names if name not in NAMES]
    if unknown:
        parser.error(f"no benchmark called {', '.join(unknown)}; there are {', '.join(NAMES)}")
    if args.list:
        for name in NAMES:
            print(f"{name:12}{_module(name).ABOUT}")
        return 0
    return _measure(args.names or list(NAMES), Effort(args.quick), args.out)


def _measure(names: list[str], effort: Effort, folder: Path) -> int:
    results: dict[str, list[Result] | str] = {}
    load, broken = table.load(), False
    path = folder / f"{time.strftime('%Y%m%d-%H%M%S')}.json"
    for name in dict.fromkeys(names):
        began = time.monotonic()
        print(f"{name}: {_module(name).ABOUT}", file=sys.stderr, flush=True)
        try:
            results[name] = _module(name).run(effort)
        except Skipped as reason:
            results[name] = f"skipped: {reason}"
        except Exception as error:  # the other benchmarks still have something to say
            traceback.print_exc()
            results[name], broken = f"failed: {type(error).__name__}: {' '.join(str(error).split())[:80]}", True
        print(f"{name}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
        table.write(path, results, load)  # after each, so that an interrupted measurement keeps what it has
    print("\n".join(table.lines(results)))
    for note in table.notes(results):
        print(note)
    print(f"numbers: {path}", file=sys.stderr)
    return 1 if broken else 0


def _module(name: str):
    return importlib.import_module(f"benchmarks.{name.replace('-', '_')}")


if __name__ == "__main__":
    sys.exit(main())
