"""What a run reports to the outside: checked before the launch on the machine of rank 0, and no secret written down."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest

from engine.contract.load import dump_preset, preset_from_data
from engine.contract.outside import token_of, what_is_missing
from engine.contract.preset import Preset
from engine.contract.run_dir import RunDir
from tests.unit.launch.test_command import preset as plain_preset
from wizard.errors import ExitCode, PreflightError
from wizard.launch.attempts import write_attempt
from wizard.launch.checks import check_launch
from wizard.launch.environment import noted

TOKEN = "hf_" + "NotARealTokenButItMustNotBeFound"
PUSH: dict[str, Any] = {"hub": {"push": True, "repo": "me/model", "token": "${HF_OWN}"}}


def preset(**sections: Any) -> Preset:
    return preset_from_data(plain_preset().model_dump() | sections)


def test_missing_packages_and_a_missing_token_are_said_before_the_launch(tmp_path, monkeypatch):
    monkeypatch.delenv("HF_OWN", raising=False)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    made = preset(**PUSH, tracking={"to": ["wandb", "tensorboard"]})
    with pytest.raises(PreflightError) as caught:
        check_launch(made, None, tmp_path)
    assert caught.value.code == ExitCode.PREFLIGHT
    for words in ("wandb, tensorboard not installed", "HF_OWN is not set", "autotrain-wizard[trackers]", "export HF_OWN="):
        assert words in str(caught.value)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name == "tensorboardX" or None)
    assert what_is_missing(preset(tracking={"to": ["tensorboard"]}), {}) == []
    check_launch(made, None, tmp_path, node_rank=1)  # another machine reports nothing


def test_the_token_is_the_variable_that_is_named_else_the_stored_login(tmp_path):
    named, plain = preset(**PUSH).hub, preset(hub={"push": True, "repo": "me/model"}).hub
    (tmp_path / "token").write_text("stored\n")
    environment = {"HF_HOME": str(tmp_path)}
    assert token_of(named, {**environment, "HF_OWN": "own", "HF_TOKEN": "other"}) == "own"
    assert token_of(named, {**environment, "HF_TOKEN": "other"}) is None
    assert token_of(plain, {**environment, "HF_TOKEN": "other"}) == "other"
    assert token_of(plain, environment) == "stored" and token_of(plain, {"HF_HOME": str(tmp_path / "none")}) is None


def test_no_file_of_an_attempt_holds_the_token(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_OWN", TOKEN)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    assert noted({"HF_OWN": TOKEN, "HF_HOME": "/c"}) == {"HF_HOME": "/c"}
    run, made = RunDir.create(tmp_path, "it"), preset(**PUSH)
    run.preset.write_text(dump_preset(made))
    write_attempt(run, 1, made, "{}", 0)
    files = [file for file in run.root.rglob("*") if file.is_file() and file.parent.name != "path"]
    assert len(files) >= 5 and "${HF_OWN}" in run.resolved(1).read_text()
    assert not any(TOKEN in file.read_text() for file in files)
