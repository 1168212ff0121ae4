"""The questions line by line, with keys from a pipe."""

from __future__ import annotations

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from engine.contract.load import load_preset, preset_from_data
from tests.unit.questions.machines import cpu_machine, flow
from wizard import prompts, session
from wizard.paths import shipped_presets, user_presets

ENTER, DOWN, UP, CLEAR = "\r", "\x1b[B", "\x1b[A", "\x05\x15"


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("AUTOTRAIN_WIZARD_RUNS", str(tmp_path / "runs"))
    monkeypatch.setattr(session, "read_machine", cpu_machine)
    monkeypatch.setattr("wizard.launch.prepare.read_inventory", cpu_machine)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)


def ask(keys: str, call):
    with create_pipe_input() as pipe, create_app_session(input=pipe, output=DummyOutput()):
        pipe.send_text(keys)
        return call()


def test_enter_through_all_is_the_quickstart(tmp_path):
    asked = flow()
    ask(ENTER * 12, lambda: prompts.ask_all(asked, tmp_path))
    assert preset_from_data(asked.preset_data()) == load_preset(shipped_presets() / "quickstart.yaml")


def test_going_back_and_answering_otherwise(tmp_path):
    asked = flow()
    keys = ENTER * 7 + CLEAR + "<" + ENTER + CLEAR + "30 steps" + ENTER + ENTER * 5
    ask(keys, lambda: prompts.ask_all(asked, tmp_path))
    assert asked.preset_data()["training"]["max_steps"] == 30


def test_data_that_is_not_there_is_asked_for_again(tmp_path, capsys):
    asked = flow()
    asked.go_to("data.train")
    keys = CLEAR + "./gone.txt" + ENTER + CLEAR + "builtin:python-docs" + ENTER + ENTER * 8
    ask(keys, lambda: prompts.ask_all(asked, tmp_path))
    assert "does not exist" in capsys.readouterr().out
    assert asked.preset_data()["data"]["train"] == "builtin:python-docs"


def test_save_and_leave(capsys):
    code = ask(ENTER * 12 + DOWN + DOWN + ENTER + ENTER, prompts.run_prompts)
    assert code == 0
    assert load_preset(user_presets() / "quickstart.yaml").name == "quickstart"
    assert "accelerate.commands.launch" in capsys.readouterr().out


def test_launching(monkeypatch):
    started = []
    monkeypatch.setattr(prompts, "_launch", lambda plan: started.append(plan.prepared) or 0)
    assert ask(ENTER * 12 + ENTER, prompts.run_prompts) == 0
    assert started[0].resolved.distributed.num_processes_per_node == 2
