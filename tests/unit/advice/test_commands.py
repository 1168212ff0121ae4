"""`probe` and `recommend`, as they are called."""

from __future__ import annotations

import json

import pytest

from tests.unit.advice.machines import FOLDER, TINY
from wizard.cli import main
from wizard.errors import ExitCode
from wizard.hardware.inventory import HardwareInventory


def output(capsys, *arguments: str) -> str:
    assert main(list(arguments)) == ExitCode.OK
    return capsys.readouterr().out


def test_probe_prints_an_inventory_that_recommend_reads(capsys, tmp_path):
    text = output(capsys, "probe", "--json")
    HardwareInventory.model_validate_json(text)
    file = tmp_path / "here.json"
    file.write_text(text)
    assert "strategy" in output(capsys, "recommend", "--inventory", str(file))
    assert "memory" in output(capsys, "probe")


def test_json_holds_decisions_findings_and_unknowns(capsys):
    answer = json.loads(output(capsys, "recommend", "--json", "--inventory", str(FOLDER / "4x-a100-nvlink.json")))
    assert set(answer) == {"decisions", "findings", "unknown"}
    assert {"backend", "strategy", "devices", "precision", "batch", "network", "env"} <= set(answer["decisions"])
    assert set(answer["decisions"]["backend"]) == {"value", "reason", "confidence", "facts", "alternative"}
    assert answer["decisions"]["backend"]["value"] == "nccl"


def test_a_shipped_preset_by_name(capsys):
    assert "Gloo" in output(capsys, "recommend", "quickstart")


def test_settings_change_the_answer(capsys):
    where = str(FOLDER / "4x-a100-nvlink.json")
    answer = json.loads(
        output(
            capsys,
            "recommend",
            "--json",
            "--inventory",
            where,
            "--set",
            "distributed.num_gpus_per_node=2",
            "--set",
            f"model.from_config={json.dumps(TINY)}",
        )
    )
    assert answer["decisions"]["processes"]["value"] == 2 and answer["decisions"]["memory"]["value"]["fits"]


def test_a_plan_for_another_machine_may_name_what_is_only_there(capsys):
    text = output(
        capsys,
        "recommend",
        "--inventory",
        str(FOLDER / "8x-h100.json"),
        "--set",
        "model.path=/there/only",
        "--set",
        "data.train=/there/d.jsonl",
    )
    assert "not known" in text and "/there/only" in text


@pytest.mark.parametrize(
    "arguments,code,message",
    [
        (["--inventory", "/nothing.json"], ExitCode.USAGE, "/nothing.json"),
        (["no-such-preset"], ExitCode.INVALID, "no such preset"),
        (["--set", "training.lr=1"], ExitCode.INVALID, "learning_rate"),
        (["--set", "distributed.num_processes_per_node=two"], ExitCode.INVALID, "whole number"),
        (["--set", "model.path=/there/only"], ExitCode.INVALID, "does not exist"),
        (["--set", "nonsense"], ExitCode.USAGE, "nonsense"),
    ],
)
def test_mistakes_are_one_clear_message(capsys, arguments, code, message):
    assert main(["recommend", *arguments]) == code
    said = capsys.readouterr()
    assert message in said.err and said.out == "" and "Traceback" not in said.err
