"""The reducer against whole runs: what every watcher relies on."""

from __future__ import annotations

import pytest

from engine.contract.events import ExitReason
from engine.contract.run_dir import RunDir
from tests.fake_run import FakeRun
from wizard.monitor import health, words
from wizard.monitor.reader import RunReader


def reader(run: RunDir, **options) -> RunReader:
    return RunReader(run, status_of=RunDir.read_status, **options)


def state_of(fake: FakeRun):
    found = reader(fake.run)
    state = found.poll()
    assert found.caught_up
    return state


def test_a_whole_run(tmp_path):
    fake = FakeRun(tmp_path, ranks=2, steps=60).play()
    state = state_of(fake)
    assert (state.name, state.task, state.world_size) == ("quickstart", "llm-pretrain", 2)
    assert (state.backend, state.strategy, state.precision) == ("gloo", "ddp", "fp32")
    assert state.state == "finished" and not state.alive
    assert state.step == state.total_steps == 60 and state.progress() == 1.0
    assert state.epoch() == pytest.approx(2.0)
    assert state.throughput.tokens == 60 * 2 * 2048
    assert state.throughput.tokens_per_s_mean() == pytest.approx(2 * 2048 / 0.5, rel=0.01)
    assert state.evaluations == 3 and state.evaluation["step"] == 60
    assert state.checkpoints == 3 and state.checkpoint_s == pytest.approx(1.5)
    assert state.generation["prompt"] == "Return the"
    assert len(state.loss) == 60 and len(state.eval_loss) == 3
    assert state.ranks[1].ended == "finished"
    assert words.activity(state, fake.now) == "finished: all steps done"


def test_the_global_loss_is_weighted_by_target_tokens(tmp_path):
    fake = FakeRun(tmp_path)
    fake.launch()
    fake.load()
    base = fake.step_fields(0, 1)
    fake.write(0, "step", **base | {"loss_sum": 30.0, "target_tokens": 10, "tokens": 12})
    found = reader(fake.run)
    assert found.poll().last_step is None  # rank 1 has not spoken
    fake.write(1, "step", **base | {"loss_sum": 30.0, "target_tokens": 30, "tokens": 40})
    total = found.poll().last_step
    assert total.loss == pytest.approx(60 / 40) and total.tokens == 52


def test_nan_is_told_in_words_and_kept_out_of_the_curve(tmp_path):
    state = state_of(FakeRun(tmp_path, steps=60).play("nan"))
    assert state.loss.non_finite == 1 and state.loss.first_non_finite == 30
    assert len(state.loss) == 59
    assert words.bad_values(state.loss) == "NaN or infinite at step 30"


def test_a_resumed_run_shows_its_newest_attempt(tmp_path):
    fake = FakeRun(tmp_path, steps=60).play("resumed")
    state = state_of(fake)
    assert state.attempt == 2 and state.resumed_from_step == 20
    x, _ = state.loss.points()
    assert x == list(range(1, 61))
    assert state.step == 60 and state.state == "finished"
    assert state.unreadable == 0  # the line in which the killed rank died is no news
    assert state.throughput.tokens == (30 + 40) * 2 * 2048


def test_ranks_restarted_within_an_attempt_are_a_new_life(tmp_path):
    fake = FakeRun(tmp_path, steps=60)
    fake.launch()
    fake.load()
    fake.status("running")
    fake.train(1, 30)
    fake.flush()
    for rank, writer in fake.writers.items():  # the launcher starts the group again: same attempt, seq from 0
        writer.close()
        fake.writers[rank] = type(writer)(fake.run.events(rank), rank, fake.attempt)
    fake.resumed_from = 20
    fake.load()
    fake.train(21, 25)
    fake.flush()
    state = state_of(fake)
    assert state.life == (1, 1) and state.step == 25
    assert state.loss.points()[0] == list(range(1, 26))


def test_eta_counts_evaluations_and_checkpoints(tmp_path):
    fake = FakeRun(tmp_path, steps=100, step_s=0.5, eval_every=20, checkpoint_every=50)
    fake.launch()
    fake.load()
    fake.status("running")
    fake.train(1, 50)
    state = state_of(fake)
    # 50 steps of 0.5 s, evaluations at 60, 80 and 100 of 1 s, one checkpoint at 100 of 0.5 s
    assert state.eta_s() == pytest.approx(25 + 3 + 0.5, rel=0.02)


def test_after_the_last_step_there_is_no_eta(tmp_path):
    fake = FakeRun(tmp_path, steps=40)
    fake.launch()
    fake.load()
    fake.status("running")
    fake.train(1, 40)
    fake.flush()
    fake.phase("saving model")
    state = state_of(fake)
    assert state.alive and state.step == 40 and state.eta_s() is None


def test_reading_in_small_pieces_gives_the_same(tmp_path, monkeypatch):
    fake = FakeRun(tmp_path, ranks=3, steps=60).play("resumed")
    whole = state_of(fake)
    monkeypatch.setattr("wizard.monitor.reader.READ_BYTES", 500)
    monkeypatch.setattr("wizard.monitor.reader._LEAST_BYTES", 500)
    pieces = reader(fake.run)
    while not pieces.caught_up:
        pieces.poll(budget_s=0.0)
    assert pieces.state.loss.points() == whole.loss.points()
    assert pieces.state.throughput.tokens == whole.throughput.tokens
    assert pieces.state.throughput.tokens_per_s_mean() == pytest.approx(whole.throughput.tokens_per_s_mean())


def test_a_stuck_rank_is_named_although_its_heart_beats(tmp_path):
    fake = FakeRun(tmp_path, ranks=3, steps=60).play("hung")
    state = state_of(fake)
    stall = health.stall(state, fake.now)
    assert len(stall.ranks) == 3 and stall.suspect.rank == 2 and stall.suspect.s == pytest.approx(90, abs=6)
    assert words.state_words(state, fake.now) == "not moving"
    assert words.activity(state, fake.now) == "rank 2 has not moved for 1 min 30 s (training, step 30); the other 2 wait"


def hung_run(folder, ranks: int = 3, slow_rank: int | None = None) -> FakeRun:
    fake = FakeRun(folder, ranks=ranks, steps=60, slow_rank=slow_rank)
    fake.launch()
    fake.load()
    fake.status("running")
    fake.train(1, 30)
    return fake


def test_no_rank_is_named_where_all_stand_at_the_same_place(tmp_path):
    fake = hung_run(tmp_path)
    fake.hang(-1, 90, 30)
    state = state_of(fake)
    stall = health.stall(state, fake.now)
    assert stall.suspect is None and stall.everyone and stall.who() == "all ranks"
    assert words.activity(state, fake.now) == "no rank has moved for 1 min 30 s (training, step 30)"


def test_who_was_slow_before_a_hang_is_a_hint(tmp_path):
    fake = hung_run(tmp_path, slow_rank=1)
    fake.hang(-1, 90, 30)
    text = words.activity(state_of(fake), fake.now)
    assert text.startswith("no rank has moved for") and text.endswith("; before that the others waited for rank 1")


def test_the_one_rank_in_another_phase_is_named(tmp_path):
    fake = hung_run(tmp_path)
    fake.flush()
    fake.write(1, "phase", name="evaluating", progress=None, detail=None, s_limit=None)
    fake.hang(-1, 5, 30)
    fake.write(1, "phase", name="evaluating", progress=None, detail=None, s_limit=None)
    stall = health.stall(state_of(fake), fake.now + 80)
    assert stall.suspect.rank == 1


def test_of_two_ranks_in_different_phases_neither_is_named(tmp_path):
    fake = hung_run(tmp_path, ranks=2)
    fake.flush()
    fake.write(1, "phase", name="saving checkpoint", progress=None, detail=None, s_limit=None)
    fake.sample(30)
    fake.write(1, "phase", name="saving checkpoint", progress=None, detail=None, s_limit=None)
    text = str(health.stall(state_of(fake), fake.now + 80))
    assert text.startswith("no rank has moved for") and "rank 0: training, step 30" in text
    assert "rank 1: saving checkpoint, step 30" in text


def test_the_one_rank_that_is_silent_is_named(tmp_path):
    fake = hung_run(tmp_path)
    fake.flush()
    for _ in range(20):
        fake.sleep(5)
        for rank in (0, 2):
            fake.write(rank, "heartbeat", phase="training", step=30, s_in_phase=5.0)
    text = words.activity(state_of(fake), fake.now)
    assert text.startswith("rank 1 has not moved for") and "nothing heard from it for 1 min 40 s" in text


def test_a_rank_that_stands_while_the_others_move_is_named(tmp_path):
    fake = hung_run(tmp_path)
    fake.flush()
    for step in range(31, 231):
        fake.sleep(0.5)
        for rank in (0, 2):
            fake.write(rank, "step", **fake.step_fields(rank, step))
    stall = health.stall(state_of(fake), fake.now)
    assert stall.suspect.rank == 1 and not stall.everyone and stall.who() == "rank 1"


def test_ranks_that_never_spoke_are_counted(tmp_path):
    fake = FakeRun(tmp_path, ranks=2)
    fake.launch()
    fake.phase("connecting")
    fake.run.events(1).unlink()
    text = str(health.stall(state_of(fake), fake.now + 100))
    assert text == "no rank has moved for 1 min 40 s (connecting, step 0); nothing heard from them for 1 min 40 s; 1 rank never spoke"


def test_a_slow_phase_with_its_own_limit_is_not_hung(tmp_path):
    fake = FakeRun(tmp_path)
    fake.launch()
    fake.phase("loading model", s_limit=600)
    state = state_of(fake)
    assert health.stall(state, fake.now + 300) is None
    assert len(health.stall(state, fake.now + 700).ranks) == 2


def test_long_steps_move_the_limit(tmp_path):
    fake = FakeRun(tmp_path, step_s=20.0, log_every=1)
    fake.launch()
    fake.load()
    fake.train(1, 5)
    state = state_of(fake)
    assert health.stall(state, fake.now + 150) is None
    assert health.stall(state, fake.now + 250) is not None


def test_clocks_that_differ_do_not_make_a_rank_stuck(tmp_path):
    fake = FakeRun(tmp_path, steps=60)
    fake.launch()
    fake.load()
    fake.status("running")
    fake.train(1, 30)
    # the wall clock was set back by an hour: only the monotonic one tells how long nothing moved
    assert health.stall(state_of(fake), fake.now - 3600) is None


def test_the_straggler_has_the_lowest_wait_and_the_most_work(tmp_path):
    state = state_of(FakeRun(tmp_path, ranks=4, steps=60).play("slow-rank"))
    found = health.straggler(state)
    assert found.rank == 3 and found.part == "compute" and found.cost == pytest.approx(0.095, abs=0.02)


def test_even_ranks_have_no_straggler(tmp_path):
    assert health.straggler(state_of(FakeRun(tmp_path, ranks=4, steps=60).play())) is None


def test_what_nobody_told_is_unknown(tmp_path):
    state = reader(FakeRun(tmp_path).run).poll()
    assert state.state == "starting" and state.status is None and state.ranks == {}
    assert state.progress() == 0.0 and state.eta_s() is None and state.epoch() is None and state.elapsed_s(1e9) is None
    assert state.throughput.tokens_per_s_now() is None and state.loss.last is None


def test_events_of_a_newer_version_and_of_other_shapes_are_no_crash(tmp_path):
    fake = FakeRun(tmp_path)
    fake.launch()
    fake.load()
    fake.write(0, "teleported", v=9, where="mars")
    fake.write(0, "step", v=9, **fake.step_fields(0, 1) | {"target_tokens": "many"})
    fake.write(0, "evaluation", step="x", loss="low", duration_s="long")
    found = reader(fake.run)
    state = found.poll()
    assert state.newer_version == 9 and state.unreadable == 2
    assert any("newer than this program" in problem for problem in found.problems())


def test_a_folder_that_vanishes_is_told(tmp_path):
    import shutil

    fake = FakeRun(tmp_path).play()
    found = reader(fake.run)
    found.poll()
    shutil.rmtree(fake.run.root)
    assert found.poll().step == 60
    assert "is gone" in found.problems()[0]


def test_an_old_verdict_does_not_end_a_run_that_was_resumed(tmp_path):
    fake = FakeRun(tmp_path).play("exception")
    found = reader(fake.run)
    assert found.poll().state == "failed"
    fake.run.attempt(2).mkdir()
    assert found.poll().alive


def test_of_a_run_that_ended_the_verdict_says_how_its_ranks_did(tmp_path):
    fake = FakeRun(tmp_path, ranks=3, steps=60).play("killed")
    state = state_of(fake)
    assert state.ranks[2].ended is None and state.ranks[0].ended == "failed"
    ends = {rank: words.rank_end_words(state, found) for rank, found in state.ranks.items()}
    assert ends == {0: ("ended after rank 2", False), 1: ("ended after rank 2", False), 2: ("killed by SIGKILL", True)}


def test_a_rank_that_was_ended_with_the_run_said_nothing(tmp_path):
    fake = FakeRun(tmp_path, steps=60).play("exception")
    state = state_of(fake)
    assert words.rank_end_words(state, state.ranks[0]) == ("ended after rank 1", False)
    assert words.rank_end_words(state, state.ranks[1]) == ("failed", True)
    fake.status("failed", ExitReason(kind="signal", message="the launcher was killed by SIGKILL; its ranks were ended with it"))
    state = state_of(fake)
    assert words.rank_end_words(state, state.ranks[0]) == ("ended with the run", False)
    fake.status("lost", ExitReason(kind="lost"))
    state = state_of(fake)
    assert words.rank_end_words(state, state.ranks[0]) == ("lost", True)


@pytest.mark.parametrize("tells", [("loss", "samples"), ("samples",), ("loss",), ()])
def test_a_script_is_measured_in_what_it_tells(tmp_path, tells):
    state = state_of(FakeRun(tmp_path, steps=40, task="script", tells=tells).play())
    assert state.step == 40 and state.loss.non_finite == state.eval_loss.non_finite == 0
    assert bool(len(state.loss)) == ("loss" in tells) and state.evaluation["metrics"] == {"accuracy": 0.875}
    unit, amount = ("samples", 16) if "samples" in tells else ("steps", 1)
    assert state.throughput.unit == unit and state.throughput.mean() == pytest.approx(amount / 0.5, rel=0.01)
    assert state.throughput.best == pytest.approx(amount / 0.5, rel=0.01) and len(state.speed)
    assert state.throughput.tokens_per_s_mean() is None


def test_names_of_metrics_are_words():
    assert words.metrics({"metrics": {"accuracy": 0.9121, "macro_f1": 0.5, "top_5": None, "odd": "x"}}) == [
        ("accuracy", "0.912"), ("macro F1", "0.5"), ("top 5", "n/a")]
    assert words.metrics(None) == []
