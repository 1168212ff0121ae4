"""The command line: what it imports, how each error ends, and what the small commands print."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import wizard.commands.runs
from engine.contract.run_dir import RunDir, Status, process_record
from wizard import cli
from wizard.errors import ExitCode, PreflightError

TINY = """\
# a tiny one
version: 1
name: tiny
task: llm-pretrain
model:
  from_config: {model_type: llama, vocab_size: 320, hidden_size: 32, intermediate_size: 64, num_hidden_layers: 2,
                num_attention_heads: 2, num_key_value_heads: 1, max_position_embeddings: 64, tie_word_embeddings: true}
data: {train: text.txt, max_length: 32}
training: {max_steps: 8, global_batch: 4}
distributed: {backend: gloo, strategy: ddp, num_gpus_per_node: 0, num_processes_per_node: 2}
"""
HEAVY = ("torch", "accelerate", "transformers", "datasets")


@pytest.fixture
def tiny(place):
    (place / "tiny.yaml").write_text(TINY)
    (place / "text.txt").write_text("A line of text about something.\n" * 200)
    return "tiny.yaml"


def said(capsys) -> str:
    return capsys.readouterr().err


def imported_by(*words: str) -> tuple[int, set[str]]:
    """(exit code, top-level modules imported) of a command in a fresh interpreter."""
    code = f"import sys; from wizard import cli; code = cli.main({list(words)!r}); print('MODULES', *sorted({{m.split('.')[0] for m in sys.modules}})); sys.exit(code)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    return done.returncode, set(done.stdout.rpartition("MODULES ")[2].split())


@pytest.mark.parametrize("words", [["--help"], ["run", "--help"], ["--version"]])
def test_help_imports_nothing_heavy(words):
    code, modules = imported_by(*words)
    assert code == ExitCode.OK
    assert not modules & {"pydantic", "textual", "questionary", "psutil", "yaml", *HEAVY}


@pytest.mark.parametrize("words", [["run", "tiny.yaml", "--dry-run"], ["runs"], ["presets", "list"], ["stop"]])
def test_no_command_imports_torch(tiny, words):
    code, modules = imported_by(*words)
    assert code in (ExitCode.OK, ExitCode.USAGE)
    assert not modules & {"textual", "questionary", *HEAVY}


def test_bare_call_is_new(monkeypatch):
    import wizard.commands.new

    seen = []
    monkeypatch.setattr(wizard.commands.new, "run", lambda args: seen.append(args) or 0)
    assert cli.main([]) == ExitCode.OK and cli.main(["--debug"]) == ExitCode.OK
    assert [args.command for args in seen] == ["new", "new"] and seen[1].debug


# how errors end

@pytest.mark.parametrize("words", [["bogus"], ["run"], ["run", "quickstart", "--bogus"], ["run", "quickstart", "--set", "x"],
                                   ["stop"], ["stop", "nothing"], ["run", "quickstart", "--dry-run", "--node-rank", "1"],
                                   ["run", "quickstart", "--resume"], ["run", "--resume", "nothing"]])
def test_usage(words, capsys):
    assert cli.main(words) == ExitCode.USAGE
    assert "Traceback" not in said(capsys)


def test_internal_error_is_one_line_and_debug_shows_where(monkeypatch, capsys):
    def broken(_args):
        raise RuntimeError("surprise")

    monkeypatch.setattr(wizard.commands.runs, "run", broken)
    assert cli.main(["runs"]) == ExitCode.INTERNAL
    text = said(capsys)
    assert "RuntimeError: surprise" in text and "--debug" in text and "Traceback" not in text
    assert cli.main(["runs", "--debug"]) == cli.main(["--debug", "runs"]) == ExitCode.INTERNAL
    assert "Traceback" in said(capsys)


def test_errors_keep_their_code(monkeypatch, capsys):
    def full(_args):
        raise PreflightError("the disk is full", "free some space")

    monkeypatch.setattr(wizard.commands.runs, "run", full)
    assert cli.main(["runs"]) == ExitCode.PREFLIGHT
    assert said(capsys) == "autotrain-wizard: error: the disk is full\n  free some space\n"


def test_ctrl_c(monkeypatch, capsys):
    def interrupted(_args):
        raise KeyboardInterrupt

    monkeypatch.setattr(wizard.commands.runs, "run", interrupted)
    assert cli.main(["runs"]) == ExitCode.INTERRUPTED


def test_a_reader_that_leaves_is_no_error():
    done = subprocess.run(["bash", "-c", f"{shlex.quote(sys.executable)} -m wizard.cli presets show quickstart | head -c1; exit ${{PIPESTATUS[0]}}"],
                          capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "#", "")


# bad input to run

def test_three_mistakes_are_reported_at_once(place, capsys):
    (place / "bad.yaml").write_text("version: 1\nname: bad\ntask: llm-sftt\nmodel: {path: m, lora: 3}\ndata: {train: x}\n"
                                    "training: {max_step: 5}\n")
    assert cli.main(["run", "bad.yaml"]) == ExitCode.INVALID
    text = said(capsys)
    assert "3 problems" in text and all(part in text for part in ("bad.yaml:3: task", "bad.yaml:4: model.lora", "did you mean `max_steps`"))


@pytest.mark.parametrize(("settings", "message"), [
    (["data.train=missing.jsonl"], "does not exist"),
    (["data.train=empty.jsonl"], "is empty"),
    (["data.train=rows.jsonl", "data.columns.text=body"], "content"),
    (["model.path=./nowhere"], "does not exist"),
    (["task=vlm"], "a task this version trains"),
    (["training.max_steps=0"], "at least 1"),
    (["distributed.env={RANK: \"1\"}"], "a variable that the launch decides"),
    (["distributed.num_nodes=2"], "the address of the first machine"),
    (["distributed.backend=nccl"], "nccl"),
])
def test_what_cannot_be_trained_is_said_before_anything_starts(tiny, place, capsys, settings, message):
    (place / "empty.jsonl").write_text("")
    (place / "rows.jsonl").write_text('{"content": "a"}\n{"content": "b"}\n')
    words = [word for setting in settings for word in ("--set", setting)]
    assert cli.main(["run", tiny, *words]) == ExitCode.INVALID
    text = said(capsys)
    assert message in text and "Traceback" not in text
    assert not (place / "runs").exists()


def test_a_place_that_cannot_be_written(tiny, place, capsys):
    (place / "file").write_text("")
    assert cli.main(["run", tiny, "--runs", "file/runs"]) == ExitCode.PREFLIGHT
    assert "cannot be written" in said(capsys)


def test_a_port_that_is_taken(tiny, capsys):
    import socket

    with socket.socket() as holder:
        holder.bind(("", 0))
        holder.listen()
        port = holder.getsockname()[1]
        assert cli.main(["run", tiny, "--set", f"distributed.main_port={port}"]) == ExitCode.PREFLIGHT
    assert f"port {port} is in use" in said(capsys)


# dry run

def test_dry_run_prints_the_preset_and_a_command_and_makes_nothing(tiny, place, capsys):
    assert cli.main(["run", tiny, "--dry-run", "--set", "training.max_steps=3"]) == ExitCode.OK
    out = capsys.readouterr().out
    assert "max_steps: 3" in out and f"train: {place / 'text.txt'}" in out
    words = shlex.split(out.strip().splitlines()[-1])
    assert "accelerate.commands.launch" in words and "--multi_gpu" in words and "ACCELERATE_USE_CPU=true" in words
    assert not (place / "runs").exists()


def test_dry_run_as_json(tiny, place, capsys):
    assert cli.main(["run", tiny, "--dry-run", "--json"]) == ExitCode.OK
    told = json.loads(capsys.readouterr().out)
    assert told["resolved"]["training"]["micro_batch"] * told["resolved"]["training"]["gradient_accumulation"] == 2
    assert told["argv"][-1] == told["run_dir"]


def test_several_machines_by_hand(tiny, capsys):
    settings = ["--set", "distributed.num_nodes=2", "--set", "distributed.main_address=10.9.8.7"]
    assert cli.main(["run", tiny, "--dry-run", "--node-rank", "1", *settings]) == ExitCode.OK
    command = capsys.readouterr().out.strip().splitlines()[-1]
    assert "--machine_rank 1" in command and "--main_process_ip 10.9.8.7 --main_process_port 29500" in command


# presets, runs, stop

def test_presets(place, tiny, capsys):
    assert cli.main(["presets", "list", "--json"]) == ExitCode.OK
    rows = json.loads(capsys.readouterr().out)
    assert {"name": "quickstart", "task": "llm-pretrain", "origin": "shipped"}.items() <= next(r for r in rows if r["name"] == "quickstart").items()
    assert cli.main(["presets", "show", tiny]) == ExitCode.OK
    assert capsys.readouterr().out == TINY
    (place / "bad.yaml").write_text("name: x\n")
    assert cli.main(["presets", "check", tiny, "quickstart"]) == ExitCode.OK
    assert cli.main(["presets", "check", tiny, "bad.yaml"]) == ExitCode.INVALID
    assert cli.main(["presets", "show", "nowhere"]) == ExitCode.INVALID


def test_runs_lists_state_step_and_age(place, capsys):
    assert cli.main(["runs"]) == ExitCode.OK and "no runs yet" in capsys.readouterr().out
    run = RunDir.create(place / "runs", "tiny")
    run.preset.write_text(TINY)
    run.write_status(Status(state="running", attempt=1, started_unix_s=0,
                            processes=[process_record("supervisor").model_copy(update={"create_time": 1.0})]))
    run.events(0).write_text('{"event":"step","rank":0,"step":7}\n')
    assert cli.main(["runs"]) == ExitCode.OK
    assert capsys.readouterr().out.splitlines()[1].split()[:3] == [f"tiny/{run.root.name}", "lost", "7"]
    assert cli.main(["runs", "--json"]) == ExitCode.OK
    assert json.loads(capsys.readouterr().out)[0]["state"] == "lost"
    assert cli.main(["stop", "tiny"]) == ExitCode.LOST
    run.write_status(Status(state="finished", attempt=1, started_unix_s=0))
    assert cli.main(["stop", "tiny"]) == ExitCode.OK


def test_a_resumed_run_refuses_by_name(place, tiny, capsys):
    run = RunDir.create(place / "runs", "tiny")
    run.preset.write_text(TINY)
    run.write_status(Status(state="stopped", attempt=1, started_unix_s=0))
    assert cli.main(["run", str(run.root), "--resume", "--set", "training.seed=1", "--set", "training.log_every=1"]) == ExitCode.INVALID
    text = said(capsys)
    assert "training.seed" in text and "may change only" in text and "\n--set: training.log_every" not in text


def test_python_dash_m_is_the_same_program():
    done = subprocess.run([sys.executable, "-m", "wizard.cli", "--version"], capture_output=True, text=True, timeout=60, cwd=Path(os.sep))
    assert done.returncode == 0 and done.stdout.startswith("autotrain-wizard ")
