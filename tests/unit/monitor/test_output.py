"""Plain lines, JSON lines, exit codes and closing words."""

from __future__ import annotations

import io
import json
import re
import threading

import pytest

from engine.contract.events import ExitReason
from engine.contract.run_dir import RunDir, Status
from tests.fake_run import FakeRun
from wizard.errors import ExitCode
from wizard.monitor import logs, outcome
from wizard.monitor.json_lines import follow_json
from wizard.monitor.plain import PlainLines, follow_plain


@pytest.fixture(autouse=True)
def _status_as_written(monkeypatch):
    monkeypatch.setattr("wizard.launch.liveness.current_status", RunDir.read_status)


def plain(fake: FakeRun, **options) -> list[str]:
    out = io.StringIO()
    follow_plain(fake.run, out, **options)
    return out.getvalue().splitlines()


def test_plain_tells_each_thing_once_in_order(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = plain(FakeRun(tmp_path / "runs", steps=20, eval_every=10, checkpoint_every=20).play())
    assert all(re.match(r"\d\d:\d\d:\d\d \S", line) for line in lines)
    text = [re.sub(r" {2,}", "  ", line[9:]) for line in lines]
    root = "runs/quickstart"
    assert re.fullmatch(rf"starting 2 ranks over gloo \(cpu\)  run {root}/[\d-]+", text[0])
    assert text[1:3] == ["loading libraries", "connecting"]
    assert "loading data  41,204 texts, 6.1 M tokens" in text
    steps = [line for line in text if line.startswith("step")]
    assert [line.split()[1] for line in steps] == ["1/20", "5/20", "10/20", "15/20", "20/20"]
    assert re.fullmatch(r"step 20/20  loss \d\.\d{3}  8,192 tokens/s", steps[-1])
    assert sum(line.startswith("evaluation  step") for line in text) == 2
    assert sum(line.startswith("checkpoint  step 20  31.5 MB") for line in text) == 1
    assert re.fullmatch(rf"finished  loss \d\.\d{{3}}  mean 8,192 tokens/s  model {root}/[\d-]+/model", text[-1])
    assert "\x1b" not in "".join(lines)
    assert lines == sorted(lines, key=lambda line: line[:8])


def test_plain_says_why_it_failed(tmp_path):
    assert re.search(r"failed +rank 1: out of memory: CUDA out of memory", plain(FakeRun(tmp_path).play("exception"))[-1])


def test_plain_shows_nan_in_words(tmp_path):
    assert any("loss NaN or infinite" in line for line in plain(FakeRun(tmp_path, steps=60).play("nan")))


def test_plain_announces_each_attempt(tmp_path):
    lines = plain(FakeRun(tmp_path, steps=60).play("resumed"))
    starts = [line for line in lines if " starting " in line]
    assert len(starts) == 2 and "attempt 2, 2 ranks" in starts[1]
    assert any(re.search(r"resumed +from step 20", line) for line in lines)


def test_joining_late_shows_the_last_lines_only(tmp_path):
    lines = plain(FakeRun(tmp_path, steps=500).play(), history=False)
    assert len(lines) == 22 and re.fullmatch(r"\([\d,]+ earlier lines left out\)", lines[0])


def test_a_resumed_run_does_not_repeat_its_first_attempt(tmp_path):
    lines = plain(FakeRun(tmp_path, steps=60, log_every=20).play("resumed"), history=False)
    assert re.search(r"starting attempt 2, 2 ranks", lines[0])
    assert re.search(r"resumed +from step 20", "\n".join(lines))
    assert [line.split()[2] for line in lines if " step " in line and "/60" in line][0] == "40/60"
    assert "left out" not in "\n".join(lines)


def test_progress_is_told_without_the_phase_twice(tmp_path):
    fake = FakeRun(tmp_path)
    fake.launch()
    fake.phase("loading data", progress=0.1, detail="reading")
    fake.sleep(12)
    fake.phase("loading data", progress=0.52, detail="tokenizing rows")
    fake.status("failed", ExitReason(kind="lost"))
    assert [line[9:] for line in plain(fake) if "loading data" in line] == [
        "loading data        reading", "loading data        52 %: tokenizing rows"]


def test_a_hang_of_all_ranks_is_told_once_and_names_none(tmp_path, monkeypatch):
    fake = FakeRun(tmp_path, ranks=3, steps=60)
    fake.launch()
    fake.load()
    fake.status("running")
    fake.train(1, 30)
    fake.hang(-1, 90, 30)
    monkeypatch.setattr("wizard.monitor.plain.time.time", lambda: fake.now)
    out = io.StringIO()
    lines = PlainLines(fake.run, out)
    for _ in range(2):
        lines.reader.poll()
        lines.after_poll()
    fake.sleep(1)
    fake.train(31, 31)
    fake.flush()
    lines.reader.poll()
    lines.after_poll()
    text = [line[9:] for line in out.getvalue().splitlines() if "moving" in line]
    assert text == ["not moving          no rank has moved for 1 min 30 s (training, step 30)", "moving again        all ranks"]


def test_a_classifier_in_plain_and_in_the_closing_words(tmp_path):
    fake = FakeRun(tmp_path, steps=40, task="text-classification").play()
    lines = plain(fake)
    assert any(re.search(r"evaluation +step 40  loss 2\.\d+  accuracy 0\.912  macro F1 0\.896  took 1 s", line) for line in lines)
    assert "accuracy 0.912, macro F1 0.896, mean 8,192 tokens/s" in outcome.summary(fake.run, fake.run.read_status())


@pytest.mark.parametrize(("tells", "step", "end"), [
    (("loss", "samples", "total"), r"step +20/20 +loss \d\.\d+  32 samples/s$", r"finished +loss \d\.\d+  mean 32 samples/s$"),
    (("samples",), r"step +20/20 +32 samples/s$", r"finished +mean 32 samples/s$"),
    ((), r"step +20/20 +2 steps/s$", r"finished +mean 2 steps/s$"),
])
def test_a_script_in_plain_says_only_what_it_tells(tmp_path, tells, step, end):
    fake = FakeRun(tmp_path, steps=20, eval_every=10, task="script", tells=tells).play()
    lines = plain(fake)
    assert re.search(step, [line for line in lines if re.search(r" step +\d+/", line)][-1])
    assert re.search(end, lines[-1])
    assert any(re.search(r"evaluation +step 20  accuracy 0\.875$", line) for line in lines)
    text = "\n".join(lines)
    assert "n/a" not in text and "NaN" not in text and "not joined" not in text
    assert sum(bool(re.search(r" step +\d+/", line)) for line in lines) == 5
    summary = outcome.summary(fake.run, fake.run.read_status())
    assert "accuracy 0.875" in summary and "n/a" not in summary and "model" not in summary


def test_json_of_tasks_without_tokens(tmp_path):
    fake = FakeRun(tmp_path, steps=20, eval_every=10, task="script").play()
    out = io.StringIO()
    follow_json(fake.run, out)
    events = [json.loads(line) for line in out.getvalue().splitlines()]
    steps = [event for event in events if event["event"] == "step"]
    assert [event["step"] for event in steps] == list(range(1, 21))
    assert steps[-1]["tokens_per_s"] is None and steps[-1]["samples_per_s"] == pytest.approx(32) and steps[-1]["loss"] > 0
    assert [event["metrics"] for event in events if event["event"] == "evaluation"] == [{"accuracy": 0.875}] * 2
    assert events[-1]["tokens_per_s_mean"] is None and events[-1]["samples_per_s_mean"] == pytest.approx(32)


def test_a_request_to_stop_is_told(tmp_path):
    asked = threading.Event()
    asked.set()
    assert any("stop requested" in line for line in plain(FakeRun(tmp_path).play(), stop_requested=asked))


def test_colour_only_on_a_terminal_that_wants_it(tmp_path, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    fake = FakeRun(tmp_path).play()
    monkeypatch.delenv("NO_COLOR", raising=False)
    out = Terminal()
    follow_plain(fake.run, out)
    assert "\x1b[32mfinished" in out.getvalue()
    monkeypatch.setenv("NO_COLOR", "1")
    out = Terminal()
    follow_plain(fake.run, out)
    assert "\x1b" not in out.getvalue()


def test_json_lines_are_rank_0s_steps_and_end_with_the_supervisors_word(tmp_path):
    fake = FakeRun(tmp_path, steps=20).play()
    out = io.StringIO()
    follow_json(fake.run, out)
    events = [json.loads(line) for line in out.getvalue().splitlines()]
    steps = [event for event in events if event["event"] == "step"]
    assert [event["step"] for event in steps] == list(range(1, 21))
    assert all(event["rank"] == 0 and event["loss"] > 0 for event in steps)
    assert steps[-1]["tokens_per_s"] == pytest.approx(8192)
    assert [event["event"] for event in events].count("run_ended") == 1
    last = events[-1]
    assert last["state"] == "finished" and last["model_path"] == str(fake.run.model)
    assert last["run_dir"] == str(fake.run.root) and last["tokens_per_s_mean"] == pytest.approx(8192)
    assert last["exit_reason"]["kind"] == "completed"


def test_json_ends_properly_when_ranks_were_killed_or_spoke_nan(tmp_path):
    for fault in ("killed", "nan"):
        out = io.StringIO()
        follow_json(FakeRun(tmp_path / fault, steps=20).play(fault).run, out)
        lines = out.getvalue().splitlines()
        assert "NaN" not in out.getvalue()
        assert json.loads(lines[-1])["event"] == "run_ended"
        if fault == "nan":
            assert [json.loads(line)["loss"] for line in lines if '"event": "step"' in line][9] is None


def status(state: str, kind: str | None = None) -> Status:
    reason = ExitReason(kind=kind) if kind else None
    return Status(state=state, attempt=1, started_unix_s=0.0, ended_unix_s=5.0, exit_reason=reason)


@pytest.mark.parametrize(("found", "code"), [
    (status("finished", "completed"), ExitCode.OK), (status("finished", "early_stopped"), ExitCode.OK),
    (status("running"), ExitCode.OK), (status("stopped", "requested"), ExitCode.STOPPED),
    (status("lost", "lost"), ExitCode.LOST), (status("failed", "hung"), ExitCode.LOST),
    (status("failed"), ExitCode.TRAINING_FAILED),
    *((status("failed", kind), ExitCode.INVALID) for kind in ("preset", "data", "model")),
    *((status("failed", kind), ExitCode.TRAINING_FAILED)
      for kind in ("exception", "out_of_memory", "non_finite", "disk", "signal", "launch")),
])
def test_exit_codes(found, code):
    assert outcome.exit_code(found) == code


def test_the_closing_words_of_a_finished_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fake = FakeRun(tmp_path / "runs", steps=60).play()
    text = outcome.summary(fake.run, fake.run.read_status())
    assert text.startswith("finished after ") and "60 steps, loss 1.9" in text and "mean 8,192 tokens/s" in text
    assert re.search(r"model   runs/quickstart/[\d-]+/model\n", text)
    assert "`Return the` goes on:" in text and "number of items in [list]." in text


def test_the_closing_words_of_a_failed_run(tmp_path):
    fake = FakeRun(tmp_path, steps=60).play("exception")
    text = outcome.summary(fake.run, fake.run.read_status())
    assert text.startswith("failed at step 30 after ")
    assert "cause   rank 1: out of memory" in text
    assert "torch.OutOfMemoryError: CUDA out of memory" in text and "rank-00001.log" in text
    assert "run --resume" in text and "from step 20:" in text


def test_a_run_that_goes_on_says_how_to_come_back(tmp_path):
    fake = FakeRun(tmp_path)
    fake.launch()
    fake.status("running")
    text = outcome.summary(fake.run, fake.run.read_status())
    assert "goes on" in text and "watch " in text and "stop " in text


def test_the_log_tells_the_first_cause_not_its_echo():
    lines = ["step 1", "Traceback (most recent call last):", '  File "a.py", line 1, in f', "    x()",
             "ValueError: the data is bad", "W1201 12:00 torch/distributed/elastic noise",
             "Traceback (most recent call last):", '  File "b.py", line 2, in g', "    y()",
             "RuntimeError: Connection closed by peer"]
    assert logs.meaningful(lines)[-1] == "ValueError: the data is bad"
    assert logs.meaningful(["a", "", " 10%|#  | 1/10 [00:01, 3it/s]", "b"]) == ["a", "b"]
    assert logs.meaningful([]) == []


def test_without_a_rank_the_launchers_log_is_read(tmp_path):
    run = RunDir.create(tmp_path, "x")
    run.launcher_log.write_text("python: can't open file\n")
    assert logs.failure_lines(run, None) == (run.launcher_log, ["python: can't open file"])


def test_the_closing_words_name_the_best_step_and_the_hub(tmp_path):
    fake = FakeRun(tmp_path, steps=60).play()
    fake.write(0, "exported", path=str(fake.run.model), step=40, best=True, metric="eval_loss", value=2.3456)
    fake.write(0, "pushed", repo="me/model", url="https://hub.example/me/model", private=True)
    text = outcome.summary(fake.run, fake.run.read_status())
    assert re.search(r"model .*\n          of step 40, the best evaluation \(eval_loss 2\.34\d\)\n  hub     https://hub\.example/me/model\n", text)
