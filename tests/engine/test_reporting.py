"""What is told outside the run's folder: trackers and the hub. Neither ever ends a training, and no secret is written."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.engine.fake_hub import FakeHub
from tests.engine.pool import RankFailed
from tests.engine.trainings import events, losses, new_run, tiny_preset, train_on_rank, write_text

TOKEN = "hf_" + "NotARealTokenButItMustNotBeFound"


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    return write_text(tmp_path_factory.mktemp("data") / "text.jsonl")


def train_with_fake_trackers(rank: int, root: str) -> Any:
    """wandb writes what it is told to a file, mlflow cannot be started, trackio takes nothing."""
    from accelerate.tracking import LOGGER_TYPE_TO_CLASS, GeneralTracker

    from engine import train

    class Fake(GeneralTracker):
        name, requires_logging_directory = "fake", False

        def __init__(self, project: str, **options: Any):
            super().__init__()
            self.told = [{"project": project, "options": options}]

        @property
        def tracker(self) -> Any:
            return self

        def store_init_configuration(self, values: dict[str, Any]) -> None:
            self.told.append(values)

        def log(self, values: dict[str, float], step: int | None = None, **_: Any) -> None:
            self.told.append({"step": step, **values})

        def finish(self) -> None:
            Path(root, f"told-{rank}.json").write_text(json.dumps(self.told))

    class Unreachable(Fake):
        def start(self) -> None:
            raise ConnectionError("no route to host")

    class Refusing(Fake):
        def log(self, *_: Any, **__: Any) -> None:
            raise TimeoutError

    original, missing = dict(LOGGER_TYPE_TO_CLASS), train.what_is_missing
    LOGGER_TYPE_TO_CLASS.update(wandb=Fake, mlflow=Unreachable, trackio=Refusing)
    train.what_is_missing = lambda *_: []
    try:
        return train_on_rank(rank, root)
    finally:
        LOGGER_TYPE_TO_CLASS.update(original)
        train.what_is_missing = missing


def test_rank_0_tells_the_numbers_of_all_ranks_and_a_broken_tracker_is_left_out(ranks, tmp_path, data):
    preset = tiny_preset(data, 2, data__valid=0.2, training__eval_every=4, training__log_every=3, training__max_steps=10,
                         tracking={"to": ["wandb", "mlflow", "trackio"], "project": "mine"})
    run = new_run(tmp_path, preset)
    assert ranks(2).run(train_with_fake_trackers, str(run.root))[0][0] == "finished"
    assert not (run.root / "told-1.json").exists()
    started, settings, *told = json.loads((run.root / "told-0.json").read_text())
    assert started["project"] == "mine" and started["options"]["name"] == run.root.name
    assert settings["training.max_steps"] == 10 and not any(key.startswith(("hub", "distributed.env")) for key in settings)

    trained = [record for record in told if "train/loss" in record]
    assert [record["step"] for record in trained] == [3, 6, 9, 10]
    sums = [(record["step"], record["loss_sum"], record["target_tokens"]) for record in events(run, "step")]
    first = [part for part in sums if part[0] <= 3]
    assert trained[0]["train/loss"] == pytest.approx(sum(part[1] for part in first) / sum(part[2] for part in first))
    assert trained[3]["train/loss"] == pytest.approx(losses(run)[10])
    assert trained[0]["train/tokens_per_s"] > 0 and 0 < trained[0]["train/epoch"] < trained[3]["train/epoch"]
    assert trained[0]["train/learning_rate"] == [record for record in events(run, "step", 0) if record["step"] == 3][0]["learning_rate"]
    evaluated = {record["step"]: record["eval/loss"] for record in told if "eval/loss" in record}
    assert evaluated == {record["step"]: record["loss"] for record in events(run, "evaluation")} and len(evaluated) == 3

    warned = [record["message"] for record in events(run, "warning")]
    assert len(warned) == 2 and "mlflow cannot be used" in warned[0] and "no route to host" in warned[0]
    assert "trackio does not take the numbers" in warned[1]


def test_tensorboard_files_are_in_the_run(ranks, tmp_path, data):
    pytest.importorskip("tensorboard")
    preset = tiny_preset(data, 2, training__max_steps=4, tracking={"to": ["tensorboard"]})
    run = new_run(tmp_path, preset)
    ranks(2).run(train_on_rank, str(run.root))
    assert events(run, "warning") == []
    assert ranks(1).run(read_tensorboard, str(run.root / "tensorboard" / "tiny"))[0] == pytest.approx(losses(run))


def read_tensorboard(_rank: int, folder: str) -> dict[int, float]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(folder)
    found.Reload()
    return {item.step: item.value for item in found.Scalars("train/loss")}


def test_a_slow_tracker_costs_the_training_nothing(ranks):
    seconds, warned = ranks(1).run(tell_a_slow_tracker)[0]
    assert seconds["tell"] < 0.5 and seconds["close"] < 2
    assert len(warned) == 1 and "within 0 s" in warned[0]


def tell_a_slow_tracker(_rank: int) -> tuple[dict[str, float], list[str]]:
    from engine.tracking import Trackers

    class Slow:
        def log(self, *_: Any) -> None:
            time.sleep(10)

    warned: list[str] = []
    trackers = Trackers({"wandb": Slow}, warned.append)
    began = time.perf_counter()
    for step in range(5000):
        trackers.tell({"train/loss": 1.0}, step)
    told = time.perf_counter()
    trackers.close(limit_s=0.2)
    return {"tell": told - began, "close": time.perf_counter() - told}, warned


@pytest.mark.skipif(importlib.util.find_spec("mlflow") is not None, reason="mlflow is installed")
def test_a_missing_package_is_said_before_anything_is_read(ranks, tmp_path, data):
    run = new_run(tmp_path, tiny_preset(data, 2, tracking={"to": ["mlflow"]}))
    with pytest.raises(RankFailed, match=r"PresetMismatch: tracking.to: mlflow not installed: .*autotrain-wizard\[trackers\]"):
        ranks(2).run(train_on_rank, str(run.root))
    assert {record["exit_reason"]["kind"] for record in events(run, "run_ended")} == {"preset"}
    assert "loading data" not in {record["name"] for record in events(run, "phase")}


def train_towards(rank: int, root: str, url: str, token: str | None) -> Any:
    from engine import hub

    os.environ.update({"HF_ENDPOINT": url, "NO_PROXY": "127.0.0.1"} | ({"MY_TOKEN": token} if token else {}))
    waits, hub._WAITS_S = hub._WAITS_S, (0.01,)
    try:
        return train_on_rank(rank, root)
    finally:
        hub._WAITS_S = waits
        for name in ("HF_ENDPOINT", "NO_PROXY", "MY_TOKEN"):
            os.environ.pop(name, None)


def pushing(data: Path, **hub: Any) -> Any:
    return tiny_preset(data, 2, training__max_steps=2, hub={"push": True, "repo": "me/model", "token": "${MY_TOKEN}", **hub})


def test_the_model_is_pushed_when_it_is_on_disk(ranks, tmp_path, data):
    run = new_run(tmp_path, pushing(data))
    with FakeHub(TOKEN, failures=1) as hub:
        assert ranks(2).run(train_towards, str(run.root), hub.url, TOKEN)[0][0] == "finished"
        assert hub.created["visibility"] == "private"
        for file in run.model.iterdir():
            assert hub.files[file.name] == file.read_bytes()
    assert [(record["repo"], record["url"], record["private"]) for record in events(run, "pushed")] == [("me/model", f"{hub.url}/me/model", True)]
    assert events(run, "warning") == []
    names = [record["name"] for record in events(run, "phase", 0)]
    assert names.index("saving model") < names.index("pushing model") < names.index("ending")
    assert nowhere(TOKEN, tmp_path)


@pytest.mark.parametrize(("answers", "token", "words"), [
    ({"forbidden": True}, TOKEN, "403"), ({"public": True}, TOKEN, "the repository is public"), ({}, TOKEN + "x", "Invalid credentials"),
    (None, TOKEN, "refused")])
def test_a_push_that_fails_says_what_to_do_and_the_run_is_finished(ranks, tmp_path, data, answers, token, words):
    run = new_run(tmp_path, pushing(data))
    with FakeHub(TOKEN, **answers or {}) as hub:
        url = hub.url if answers is not None else "http://127.0.0.1:9"
        assert ranks(2).run(train_towards, str(run.root), url, token)[0][0] == "finished"
        assert hub.files == {}
    warning = events(run, "warning")[0]
    assert warning["kind"] == "hub" and words in warning["message"]
    assert f"hf upload me/model {run.model} . --private" in warning["message"]
    assert events(run, "pushed") == [] and run.model.is_dir() and nowhere(token, tmp_path)


def test_a_push_without_a_token_is_refused_before_the_training(ranks, tmp_path, data):
    run = new_run(tmp_path, pushing(data))
    with pytest.raises(RankFailed, match=r"PresetMismatch: hub.push: no access token \(MY_TOKEN is not set\): export MY_TOKEN="):
        ranks(2).run(train_towards, str(run.root), "http://127.0.0.1:9", None)


def nowhere(secret: str, folder: Path) -> bool:
    """Whether no file below `folder` holds the secret."""
    return not any(secret.encode() in file.read_bytes() for file in folder.rglob("*") if file.is_file())


CUT_SHORT = """
import os, signal, sys
from engine.contract.run_dir import RunDir
from engine.life import Life
life = Life(RunDir(sys.argv[1]), 0, 1)
life.phase("pushing model")
life.result = ("completed", "/runs/it/model")
os.kill(os.getpid(), signal.SIGTERM)
"""


def test_a_stop_while_the_model_is_pushed_leaves_a_finished_run(tmp_path):
    run = new_run(tmp_path, tiny_preset(tmp_path, 1))
    assert subprocess.run([sys.executable, "-c", CUT_SHORT, str(run.root)], timeout=60).returncode == 0
    ended = events(run, "run_ended")[0]
    assert (ended["state"], ended["exit_reason"]["kind"], ended["model_path"]) == ("finished", "completed", "/runs/it/model")
    assert "SIGTERM while pushing model" in events(run, "warning")[0]["message"]
