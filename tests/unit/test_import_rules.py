"""The import rules of the design, held by a look at every file and by processes of their own."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TRAINING = {"torch", "accelerate", "transformers", "datasets", "peft"}


def imports_of(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module)
    return found


def files(*folders: str) -> list[Path]:
    return [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]


def offenders(paths, wrong) -> list[str]:
    return [f"{path.relative_to(ROOT)}: {name}" for path in paths for name in imports_of(path) if wrong(path, name)]


def top(name: str) -> str:
    return name.split(".")[0]


def test_the_engine_never_imports_the_wizard():
    assert offenders(files("engine"), lambda _, name: top(name) == "wizard") == []


def test_the_wizard_sees_only_the_contract():
    assert offenders(files("wizard"), lambda _, name: top(name) == "engine" and not name.startswith("engine.contract")) == []


def test_the_wizard_and_the_contract_never_import_training_libraries():
    assert offenders(files("wizard", "engine/contract"), lambda _, name: top(name) in TRAINING) == []


def test_only_the_tui_imports_textual_and_only_prompts_imports_questionary():
    def wrong(path: Path, name: str) -> bool:
        if top(name) in ("textual", "textual_plotext", "rich"):
            return "tui" not in path.relative_to(ROOT).parts
        return top(name) == "questionary" and path.name != "prompts.py"

    assert offenders(files("wizard", "engine"), wrong) == []


def test_advice_and_questions_do_no_io():
    io = {"os", "subprocess", "pathlib", "socket", "psutil", "shutil", "tempfile", "urllib"}
    assert offenders(files("wizard/advice", "wizard/questions"), lambda _, name: top(name) in io or name.startswith("wizard.hardware.probe")) == []


def test_packages_start_empty():
    for package in ("engine", "engine/contract"):
        assert (ROOT / package / "__init__.py").read_text() == ""


COMMANDS = [["--help"], ["--version"], ["run", "--help"], ["new", "--help"], ["watch", "--help"]]


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_help_imports_nothing_heavy(arguments):
    heavy = loaded_after(arguments)
    assert heavy & (TRAINING | {"textual", "pydantic", "questionary", "yaml", "psutil"}) == set()
    if "--help" in arguments:
        assert heavy & {"pathlib", "typing"} == set()  # a third of the time to an answer


def test_the_first_screen_waits_for_nothing_that_it_does_not_show():
    code = "import sys, wizard.cli, wizard.commands.new, wizard.tui.app, wizard.tui.screens.welcome; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.split()) & {"pydantic", "yaml", "psutil", "wizard.session", "engine.contract.preset"} == set()


@pytest.mark.parametrize("arguments", [
    ["run", "quickstart", "--dry-run"], ["presets", "list"], ["probe", "--json"], ["recommend", "quickstart", "--json"],
    ["new", "--defaults"], ["runs"],
], ids=" ".join)
def test_no_command_imports_a_training_library(arguments, tmp_path):
    assert loaded_after(arguments, tmp_path) & TRAINING == set()


def loaded_after(arguments: list[str], cwd: Path | None = None) -> set[str]:
    code = ("import sys\nfrom wizard.cli import main\n"
            "try:\n    code = main(sys.argv[1:])\nexcept SystemExit as end:\n    code = end.code\n"
            "print('LOADED', *{name.split('.')[0] for name in sys.modules}, file=sys.stderr)\nsys.exit(code)")
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=120, cwd=cwd)
    assert done.returncode == 0, done.stdout + done.stderr
    return set(done.stderr.split("LOADED")[1].split())
