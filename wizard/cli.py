"""The command line: which commands there are, and how each error ends.

Only argparse is imported before a command is chosen, so that `--help` answers at once.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import importlib.util
import os
import sys

from wizard.errors import ExitCode, WizardError

#: In the order of `--help`. `new` is also what a bare `autotrain-wizard` does.
COMMANDS = ("new", "run", "watch", "stop", "runs", "probe", "recommend", "presets")
PROG = "autotrain-wizard"
DESCRIPTION = ("From these machines and this model to the fastest correct distributed fine-tune: "
               "asked, explained, launched, watched.")
EPILOG = """\
Without a command it asks its way to a training, in a full screen.

exit codes: 0 finished, or what was asked was done · 1 internal error · 2 usage · 3 preset, data or model invalid ·
4 preflight failed · 5 training failed · 6 stopped on request · 7 lost · 129, 130, 143 by signal"""


def main(argv: list[str] | None = None) -> int:
    """Run one command and return its exit code. Never raises for what a person can mend."""
    words = list(sys.argv[1:] if argv is None else argv)
    own_engine()
    try:
        parser = build_parser()
        args = parser.parse_args(words)
        if args.command is None:
            args = parser.parse_args([*words, "new"])
    except SystemExit as ended:  # argparse prints and exits: 0 after --help, 2 for a usage error
        return int(ended.code or 0)
    try:
        code = _command(args.command).run(args)
        sys.stdout.flush()
        return int(code)
    except WizardError as error:
        return _fail(error, args.debug, str(error), error.code)
    except KeyboardInterrupt:
        _say("interrupted")
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        _close_stdout()  # whoever read our output has seen enough
        return ExitCode.OK
    except Exception as error:
        if type(error).__name__ == "PresetError":  # by name: its class lives behind the heavy imports
            return _fail(error, args.debug, _problems(error), ExitCode.INVALID)
        todo = "" if args.debug else "\n  this is a fault of autotrain-wizard; --debug before the command shows where"
        return _fail(error, args.debug, f"{type(error).__name__}: {error}{todo}", ExitCode.INTERNAL)


def build_parser() -> argparse.ArgumentParser:
    """The parser of all commands, each declared by its own module."""
    parser = argparse.ArgumentParser(prog=PROG, description=DESCRIPTION, epilog=EPILOG,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version and exit")
    parser.add_argument("--debug", action="store_true", help="show tracebacks")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for name in COMMANDS:
        module = _command(name)
        child = commands.add_parser(name, help=module.HELP, description=module.HELP,
                                    formatter_class=argparse.RawDescriptionHelpFormatter)
        child.add_argument("--debug", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS)
        module.arguments(child)
    return parser


def own_engine() -> None:
    """Make `import engine` mean the package beside this one.

    An empty entry of PYTHONPATH (`:/some/folder`) means the current folder, where a person's own `engine.py` may lie.
    """
    package = os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(__file__))), "engine")
    source = os.path.join(package, "__init__.py")
    if "engine" not in sys.modules and os.path.isfile(source):
        spec = importlib.util.spec_from_file_location("engine", source, submodule_search_locations=[package])
        sys.modules["engine"] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import version

        print(f"{PROG} {version(PROG)}")
        parser.exit(0)


def _command(name: str) -> object:
    return importlib.import_module(f"wizard.commands.{name}")


def _problems(error: Exception) -> str:
    problems = error.problems
    if len(problems) == 1:
        return str(problems[0])
    return "\n".join([f"{len(problems)} problems:", *(f"  {problem}" for problem in problems)])


def _fail(error: Exception, debug: bool, text: str, code: ExitCode) -> int:
    if debug:
        import traceback

        with contextlib.suppress(OSError):
            traceback.print_exception(error, file=sys.stderr)
    _say(f"error: {text}")
    return int(code)


def _say(text: str) -> None:
    with contextlib.suppress(OSError):
        sys.stdout.flush()
    with contextlib.suppress(OSError, ValueError):
        print(f"{PROG}: {text}", file=sys.stderr, flush=True)


def _close_stdout() -> None:
    """Leave no pipe for the interpreter to flush, and complain about, on its way out."""
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
