"""`new --defaults`: a preset without a screen."""

from __future__ import annotations

import pytest

from engine.contract.load import load_preset, parse_preset
from tests.unit.questions.machines import cpu_machine
from wizard import session
from wizard.cli import main
from wizard.errors import ExitCode
from wizard.paths import shipped_presets


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr(session, "read_machine", cpu_machine)


def test_defaults_on_standard_output_are_the_quickstart(capsys):
    assert main(["new", "--defaults"]) == 0
    assert parse_preset(capsys.readouterr().out) == load_preset(shipped_presets() / "quickstart.yaml")


def test_set_and_file(tmp_path, capsys):
    assert main(["new", "--defaults", "--set", "training.max_steps=20", "--set", "name=first", "-o", "first.yaml"]) == 0
    out = capsys.readouterr()
    assert out.out == "" and "autotrain-wizard run first.yaml" in out.err
    preset = load_preset(tmp_path / "first.yaml")
    assert (preset.name, preset.training.max_steps) == ("first", 20)


def test_it_refuses_to_overwrite(tmp_path, capsys):
    (tmp_path / "mine.yaml").write_text("mine")
    assert main(["new", "--defaults", "-o", "mine.yaml"]) == ExitCode.USAGE
    assert (tmp_path / "mine.yaml").read_text() == "mine" and "--force" in capsys.readouterr().err
    assert main(["new", "--defaults", "-o", "mine.yaml", "--force"]) == 0
    assert load_preset(tmp_path / "mine.yaml").name == "quickstart"


@pytest.mark.parametrize(("words", "code", "said"), [
    (["--set", "training.max_stps=3", "--set", "foo=1"], ExitCode.INVALID, ["2 problems", "max_steps", "foo"]),
    (["--set", "training.learning_rate=fast"], ExitCode.INVALID, ["learning_rate", "a number"]),
    (["--set", "training.max_steps"], ExitCode.USAGE, ["key=value"]),
    (["--set", "data.train=./gone.jsonl"], ExitCode.INVALID, ["gone.jsonl", "does not exist"]),
    (["--set", "model.path=./gone"], ExitCode.INVALID, ["gone", "does not exist"]),
    (["--set", "task=llm-sft"], ExitCode.INVALID, ["model.path", "data.train"]),
    (["--set", "training.global_batch=15"], ExitCode.INVALID, ["global_batch", "14 or 16"]),
    (["--from", "no-such"], ExitCode.INVALID, ["no-such"]),
])
def test_what_is_wrong_is_said_and_nothing_is_written(words, code, said, tmp_path, capsys):
    assert main(["new", "--defaults", "-o", "x.yaml", *words]) == code
    message = capsys.readouterr().err
    assert all(word in message for word in said), message
    assert "Traceback" not in message
    assert [path.name for path in tmp_path.iterdir()] == []


def test_without_a_terminal_nobody_is_asked(monkeypatch, capsys):
    import io

    monkeypatch.setattr("sys.stdin", io.StringIO())
    for words in ([], ["new"], ["new", "--prompts"]):
        assert main(words) == ExitCode.USAGE
        assert "new --defaults -o FILE" in capsys.readouterr().err


def test_from_a_preset_with_set(tmp_path, capsys):
    assert main(["new", "--defaults", "--from", "quickstart", "--set", "training.epochs=1"]) == 0
    out = capsys.readouterr().out
    preset = parse_preset(out)
    assert preset.training.epochs == 1 and preset.training.max_steps is None
