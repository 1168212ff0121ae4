"""Presets of tasks that are no language model, from the file to what would be launched."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.contract.load import preset_from_data
from engine.contract.preset import unresolved
from engine.contract.problems import PresetError
from engine.contract.run_dir import RunDir
from wizard.errors import InvalidError
from wizard.launch.command import launch_command
from wizard.launch.prepare import prepare
from wizard.launch.rank_watch import RankTrace
from wizard.launch.verdict import Evidence, conclude

HEAD = "version: 1\nname: own\n"


@pytest.fixture
def place(tmp_path) -> Path:
    (tmp_path / "own.py").write_text("print('hello')\n")
    (tmp_path / "own.yaml").write_text(HEAD + "task: script\nscript: {path: own.py, args: [--fast]}\n"
                                              "distributed: {num_processes_per_node: 2, num_gpus_per_node: 0}\n")
    return tmp_path


def test_a_script_is_found_beside_its_preset_and_nothing_is_decided_for_it(place):
    prepared = prepare(place / "own.yaml", {})
    resolved = prepared.resolved
    assert (resolved.script.path, resolved.script.folder) == (str(place / "own.py"), str(place))
    assert prepared.model is None and prepared.data is None
    decisions = prepared.recommendation.decisions
    assert all(decisions[name].value is None for name in ("memory", "speed", "batch", "precision", "learning_rate", "max_length"))
    assert (resolved.distributed.backend, resolved.distributed.strategy, resolved.training.precision) == ("gloo", "ddp", "fp32")
    assert all(key.startswith(("data.", "training.")) or key == "distributed.main_port" for key in unresolved(resolved))
    assert not any(text.startswith(("model", "data")) for text in prepared.recommendation.unknown)
    assert all(prepared.recommendation.summary())
    launch = launch_command(resolved, RunDir(place), 1)
    assert "--multi_gpu" in launch.argv and launch.argv[launch.argv.index("--mixed_precision") + 1] == "no"
    assert launch.env["PYTHONSAFEPATH"] == "1"


def test_a_precision_that_is_asked_for_reaches_accelerate(place):
    assert prepare(place / "own.yaml", {"training.precision": "bf16"}).resolved.training.precision == "bf16"


@pytest.mark.parametrize(("content", "path", "words"), [
    ("x", "owm.py", r"owm.py does not exist"),
    ("def f(:\n", "own.py", r"own.py, line 1: not Python"),
    ("x", ".", "is a folder"),
])
def test_a_script_that_cannot_run_is_refused_before_the_launch(place, content, path, words):
    (place / "own.py").write_text(content)
    with pytest.raises(InvalidError, match=words):
        prepare(place / "own.yaml", {"script.path": path})


def test_a_script_must_be_named(place):
    (place / "none.yaml").write_text(HEAD + "task: script\n")
    with pytest.raises(PresetError, match="script.path"):
        prepare(place / "none.yaml", {})


def test_a_script_needs_to_leave_no_model(place):
    def ended(**fields) -> dict[int, RankTrace]:
        trace = RankTrace(0, seen=True)
        trace.ended = {"event": "run_ended", "state": "finished", "exit_reason": {"kind": "completed"}, "step": 3, "model_path": None, **fields}
        return {0: trace}

    def verdict(traces):
        return conclude(Evidence(traces=traces, launcher_exit=0, launcher_log="", root=None, exit_codes={}, stopped_by=None,
                                 killed=False, model_exists=False))

    assert verdict(ended(model_expected=False)).state == "finished"
    assert verdict(ended()).state == "failed"


def test_labelled_texts(tmp_path):
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps({"review": f"text {n} " * 30, "stars": n % 5}) + "\n" for n in range(50)))
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text(json.dumps({
        "model_type": "bert", "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64,
        "vocab_size": 300, "max_position_embeddings": 512}))
    (tmp_path / "a.yaml").write_text(HEAD + "task: text-classification\nmodel: {path: model}\ndata: {train: rows.jsonl, valid: 0.2}\n"
                                            "distributed: {num_gpus_per_node: 0}\n")
    prepared = prepare(tmp_path / "a.yaml", {})
    assert prepared.data.label_roles == {"text": "review", "label": "stars"}
    assert prepared.resolved.data.packing is False and isinstance(prepared.resolved.data.max_length, int)
    assert prepared.resolved.data.max_length <= 512
    assert "logits" not in prepared.recommendation.decisions["memory"].reason
    with pytest.raises(InvalidError, match=r"data.columns.label: there is no column 'star' .*did you mean 'stars'"):
        prepare(tmp_path / "a.yaml", {"data.columns": {"label": "star"}})


def test_tasks_to_come_are_refused_by_name(tmp_path):
    with pytest.raises(PresetError, match="text-classification, script"):
        prepare(preset_from_data({"name": "t", "task": "vlm", "model": {"path": "a/b"}, "data": {"train": "c/d"}}), {}, tmp_path)
