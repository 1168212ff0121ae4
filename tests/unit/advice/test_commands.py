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
    assert set(answer) == {"decisions", "findings", "unknown", "comparison"}
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


def test_a_machine_from_text(capsys, tmp_path, monkeypatch):
    import io

    file = tmp_path / "topo.txt"
    file.write_text("2x RTX A6000\n     GPU0 GPU1\nGPU0 X NV4\nGPU1 NV4 X\n")
    answer = json.loads(output(capsys, "recommend", "--json", "--from-text", str(file)))
    assert set(answer) == {"decisions", "findings", "unknown", "comparison"}
    assert answer["decisions"]["backend"]["value"] == "nccl" and answer["decisions"]["devices"]["value"]["count"] == 2
    inventory = HardwareInventory.model_validate_json(output(capsys, "probe", "--json", "--from-nvidia-smi", str(file)))
    assert inventory.links[0].path == "NV4" and inventory.evidence["link.0.1.path"].startswith("line 3")
    assert "A6000" in output(capsys, "probe", "--yaml", "--from-text", str(file))
    saved = tmp_path / "saved.json"
    saved.write_text(inventory.model_dump_json())
    assert "NVLink" in output(capsys, "recommend", "--inventory", str(saved))
    monkeypatch.setattr("sys.stdin", io.StringIO("8x AMD Instinct MI300X"))
    assert "RCCL" in output(capsys, "recommend", "--from-text", "-")


def test_gpus_of_unknown_number_are_printed_as_all(capsys, tmp_path):
    file = tmp_path / "ports.txt"
    file.write_text("Infiniband device 'mlx5_0' port 1 status:\n  state: 4: ACTIVE\n  link_layer: InfiniBand\n")
    text = output(capsys, "recommend", "--from-text", str(file))
    assert "all GPUs" in text and "n/a" in text and "the text names no GPU" in text


@pytest.mark.parametrize("command", ["probe", "recommend"])
@pytest.mark.parametrize("text,message", [(None, "cannot be read"), ("  \n", "empty")])
def test_text_that_is_not_there(capsys, tmp_path, command, text, message):
    file = tmp_path / "pasted.txt"
    if text is not None:
        file.write_text(text)
    assert main([command, "--from-text", str(file)]) == ExitCode.USAGE
    assert message in capsys.readouterr().err


def test_text_and_inventory_exclude_each_other(capsys):
    assert main(["recommend", "--from-text", "a", "--inventory", "b"]) == ExitCode.USAGE
    assert "not allowed with" in capsys.readouterr().err
