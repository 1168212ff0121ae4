"""The smaller parts: settings, index, stop of what is not there, checks before a launch, presets by name."""

from __future__ import annotations

import errno
import os
import socket
from collections import namedtuple
from types import SimpleNamespace

import pytest

from engine.contract.load import parse_preset, preset_from_data
from engine.contract.problems import PresetError
from engine.contract.run_dir import RunDir, Status, process_record
from tests.unit.launch.test_command import preset
from wizard.errors import ExitCode, InvalidError, PreflightError, UsageError
from wizard.launch import checks, index
from wizard.launch.glance import glance
from wizard.launch.launcher_log import RootCause, exit_codes, root_cause
from wizard.launch.left_behind import ender
from wizard.launch.liveness import current_status
from wizard.launch.overrides import check_resumable, parse_settings, patched
from wizard.launch.stop import stop_run
from wizard.launch.supported import check_supported
from wizard.presets.find import find_preset, list_presets
from wizard.presets.save import save_preset

TEXT = """\
# a comment
version: 1
name: it
task: llm-pretrain
model: {path: gpt2}
data: {train: x.txt}
training:
  epochs: 2  # two passes
"""


@pytest.fixture(autouse=True)
def _home(tmp_path, monkeypatch):
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setenv("AUTOTRAIN_WIZARD_RUNS", str(tmp_path / "runs"))


def make_run(root, name="it", now=None) -> RunDir:
    run = RunDir.create(root, name, now)
    run.preset.write_text(TEXT)
    run.attempt(1).mkdir()
    return run


# settings

def test_settings_are_read_as_yaml():
    assert parse_settings(["a.b=3e-5", "c=auto", "d={x: 1}", "e=no", "f=a=b"]) == {
        "a.b": 3e-5, "c": "auto", "d": {"x": 1}, "e": "no", "f": "a=b"}
    with pytest.raises(UsageError):
        parse_settings(["training.max_steps"])


def test_settings_are_patched_into_the_text_and_replace_their_opposite():
    text = patched(TEXT, {"training.max_steps": 20})
    assert "# a comment" in text and "# two passes" in text
    assert parse_preset(text).training.max_steps == 20 and parse_preset(text).training.epochs is None


def test_a_resumed_run_lets_only_some_keys_change():
    check_resumable({"training.max_steps": 9, "distributed.env.NCCL_DEBUG": "INFO", "distributed.num_nodes": 2})
    with pytest.raises(PresetError) as caught:
        check_resumable({"training.learning_rate": 1, "training.max_step": 3, "training.log_every": 1})
    assert [problem.key for problem in caught.value.problems] == ["training.learning_rate", "training.max_step"]
    assert caught.value.problems[1].nearest == "training.max_steps"


def test_what_a_launch_must_refuse_is_refused_all_at_once():
    bad = preset(env={"RANK": "1", "OMP_NUM_THREADS": "4", "HF_TOKEN": "x", "NCCL_DEBUG": "INFO"}, num_nodes=2)
    with pytest.raises(PresetError) as caught:
        check_supported(bad.model_copy(update={"task": "tabular"}))
    assert [problem.key.split(".")[-1] for problem in caught.value.problems] == ["task", "RANK", "OMP_NUM_THREADS", "HF_TOKEN", "main_address"]


@pytest.mark.parametrize(("values", "key", "words"), [
    ({"distributed": {"strategy": "deepspeed"}}, "distributed.strategy", "fsdp"),
    ({"distributed": {"strategy": "fsdp"}, "model": {"path": "m", "quantization": "int4", "adapter": {}}}, "distributed.strategy", "ddp"),
    ({"distributed": {"fsdp": {"offload_params": True}, "num_gpus_per_node": 0}}, "distributed.fsdp.offload_params", "false"),
])
def test_strategies_that_would_run_as_something_else_are_refused(values, key, words):
    whole = {"name": "it", "task": "llm-pretrain", "model": {"path": "m"}, "data": {"train": "x.txt"}, **values}
    with pytest.raises(PresetError) as caught:
        check_supported(preset_from_data(whole))
    (problem,) = caught.value.problems
    assert problem.key == key and words in problem.expected


# finding runs

def test_runs_are_found_from_anywhere_newest_first(tmp_path, monkeypatch):
    first, second, other = (make_run(tmp_path / "a", "one", 1e9), make_run(tmp_path / "b", "one", 1.1e9), make_run(tmp_path / "runs", "two"))
    for age, run in enumerate((first, second, other)):
        os.utime(run.preset, (1e9 + age, 1e9 + age))
        if run is not other:
            index.remember(run)
    index.remember(first)
    assert [run.root for run in index.all_runs()] == [other.root, second.root, first.root]
    assert index.find_run(None).root == other.root
    assert index.find_run("one").root == second.root
    assert index.find_run(index.short_name(first)).root == first.root
    assert index.find_run(str(first.root)).root == first.root
    with pytest.raises(UsageError, match="no run `three`"):
        index.find_run("three")


def test_no_run_at_all_says_how_to_start_one():
    with pytest.raises(UsageError) as caught:
        index.find_run(None)
    assert "autotrain-wizard run" in caught.value.todo


# status

def test_a_run_whose_supervisor_is_another_process_now_is_lost(tmp_path):
    run = make_run(tmp_path)
    me = process_record("supervisor")
    run.write_status(Status(state="running", attempt=1, started_unix_s=0, processes=[me]))
    assert current_status(run).state == "running"
    run.write_status(Status(state="running", attempt=1, started_unix_s=0, processes=[me.model_copy(update={"create_time": 1.0})]))
    assert current_status(run).state == "lost"
    run.write_status(Status(state="running", attempt=1, started_unix_s=0, processes=[me.model_copy(update={"boot_id": "before"})]))
    assert current_status(run).state == "lost"
    assert stop_run(run).state == "lost", "and stopping it harms nobody"
    run.write_status(Status(state="running", attempt=1, started_unix_s=0, processes=[me.model_copy(update={"host": "elsewhere"})]))
    assert current_status(run).state == "running", "another machine's processes cannot be seen from here"


def test_stopping_what_has_ended_or_never_began(tmp_path):
    run = make_run(tmp_path)
    with pytest.raises(UsageError):
        stop_run(run)
    run.write_status(Status(state="finished", attempt=1, started_unix_s=0))
    assert stop_run(run).state == "finished" and not run.stop_file.exists()


def test_a_glance_at_a_run(tmp_path):
    run = make_run(tmp_path)
    assert glance(run).row()[1:3] == ("not started", "-")
    run.events(0).write_text('{"event":"step","rank":0,"step":1234}\n{"event":"heartbeat","rank":0,"step":1234}\n{"event":"st')
    assert glance(run).row()[2] == "1,234"


# the launcher's log

def test_root_cause_of_several_ranks_and_of_one():
    block = ("Failures:\n[1]:\n  rank      : 0 (local_rank: 0)\n  exitcode  : 1 (pid: 7)\nRoot Cause (first observed failure):\n[0]:\n"
             "  time      : x\n  host      : y\n  rank      : 3 (local_rank: 3)\n  exitcode  : -9 (pid: 8)\n")
    assert root_cause(block) == RootCause(3, -9) and "out-of-memory" in root_cause(block).words()
    assert exit_codes(block) == {0: 1, 3: -9}
    assert root_cause("... returned non-zero exit status 3.") == RootCause(0, 3)
    assert root_cause("died with <Signals.SIGTERM: 15>.").words() == "killed by SIGTERM"
    assert root_cause("all well") is None


# checks before a launch

def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(PreflightError, match="cannot be written") as caught:
        checks.check_writable(tmp_path / "file" / "runs")
    assert caught.value.code == ExitCode.PREFLIGHT and "--runs" in caught.value.todo


def test_a_full_disk_is_said_before_anything_starts(tmp_path, monkeypatch):
    def full(*_args, **_options):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(checks.tempfile, "NamedTemporaryFile", full)
    with pytest.raises(PreflightError, match="disk is full"):
        checks.check_writable(tmp_path)


def test_a_disk_too_small_for_the_checkpoints(tmp_path, monkeypatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(checks.shutil, "disk_usage", lambda _: usage(10**10, 0, 10**9))
    needed = checks.bytes_needed(preset(), SimpleNamespace(parameters=10**8))
    assert needed == 10**8 * 12 * 3 + 4 * 10**8 + checks._OTHER_BYTES
    with pytest.raises(PreflightError, match="1 GB free, and this run needs about 4.06 GB"):
        checks.check_disk(tmp_path, needed)
    assert checks.bytes_needed(preset(), SimpleNamespace(parameters=None)) is None


def test_a_port_that_is_taken():
    with socket.socket() as holder:
        holder.bind(("", 0))
        holder.listen()
        port = holder.getsockname()[1]
        with pytest.raises(PreflightError, match=f"port {port} is in use"):
            checks.check_port(preset(main_port=port))
    checks.check_port(preset())


# presets by name

def test_presets_by_path_and_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert find_preset("quickstart").origin == "shipped" and find_preset("quickstart").base == tmp_path
    saved = save_preset(TEXT)
    assert find_preset("it").path == saved and "# a comment" in saved.read_text()
    assert [found.name for found in list_presets()][0] == "it"
    with pytest.raises(UsageError, match="exists already"):
        save_preset(TEXT)
    save_preset(TEXT.replace("name: it", "name: quickstart"))
    assert find_preset("quickstart").origin == "yours", "one's own comes first"
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "p.yaml").write_text(TEXT)
    assert find_preset("sub/p.yaml").base == tmp_path / "sub"
    with pytest.raises(InvalidError, match="quickstat: no such preset file or name") as caught:
        find_preset("quickstat")
    assert "did you mean `quickstart`" in caught.value.todo


# what ends a run that is left behind

def test_who_would_end_a_run_that_is_left(tmp_path):
    (tmp_path / "logind.conf").write_text("[Login]\n#KillUserProcesses=no\nKillUserProcesses=yes\n")
    places = (str(tmp_path / "logind.conf"), str(tmp_path / "logind.conf.d"))
    assert ender({}, places) is None
    assert "Slurm job 12" in ender({"SLURM_JOB_ID": "12"}, places)
    assert "systemd service" in ender({"INVOCATION_ID": "x"}, places)
    assert "logging out" in ender({"XDG_SESSION_ID": "2"}, places)
    (tmp_path / "logind.conf").write_text("KillUserProcesses=no\n")
    assert ender({"XDG_SESSION_ID": "2"}, places) is None
