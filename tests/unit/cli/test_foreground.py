"""Signals while a command stays with its run, and an output whose reader leaves."""

from __future__ import annotations

import os
import signal

import pytest

from engine.contract.events import ExitReason
from engine.contract.run_dir import RunDir, Status
from wizard.errors import ExitCode
from wizard.launch.foreground import HungUp, PatientOutput, StopSignals, wait_for_first_step


@pytest.fixture
def run(place) -> RunDir:
    run = RunDir.create(place, "it")
    run.preset.write_text("version: 1\n")
    run.attempt(1).mkdir()
    return run


def status(state: str, kind: str = "completed") -> Status:
    return Status(state=state, attempt=1, started_unix_s=0, exit_reason=ExitReason(kind=kind))


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, ExitCode.INTERRUPTED), (signal.SIGTERM, ExitCode.TERMINATED)])
def test_first_signal_asks_for_a_checkpoint_second_for_the_end(run, capsys, number, code):
    with StopSignals(run).listening() as signals:
        assert run.read_stop() is None and signals.code(status("stopped", "requested")) == ExitCode.STOPPED
        os.kill(os.getpid(), number)
        assert run.read_stop() == {"checkpoint": True}
        os.kill(os.getpid(), number)
        assert run.read_stop() == {"checkpoint": False}
    assert signals.code(status("stopped", "requested")) == code
    assert signals.code(status("finished")) == ExitCode.OK, "it finished all the same"
    assert signals.code(status("failed", "exception")) == ExitCode.TRAINING_FAILED
    assert "checkpoint" in capsys.readouterr().err
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_hang_up_leaves_the_run_alone(run):
    with pytest.raises(HungUp), StopSignals(run).listening():
        os.kill(os.getpid(), signal.SIGHUP)
    assert run.read_stop() is None


def test_signals_that_come_before_the_run_find_it_when_it_is_there(run):
    with StopSignals().listening() as signals:
        os.kill(os.getpid(), signal.SIGTERM)
        signals.attach(run)
        assert run.read_stop() == {"checkpoint": True} and signals.first == signal.SIGTERM
    with pytest.raises(HungUp), StopSignals().listening() as signals:
        os.kill(os.getpid(), signal.SIGHUP)
        signals.attach(run)


def test_an_ignored_signal_stays_ignored(run):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # nohup
    try:
        with StopSignals(run).listening():
            os.kill(os.getpid(), signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize(("state", "kind", "code"), [
    ("finished", "completed", ExitCode.OK), ("failed", "exception", ExitCode.TRAINING_FAILED), ("failed", "data", ExitCode.INVALID),
    ("failed", "launch", ExitCode.TRAINING_FAILED), ("stopped", "requested", ExitCode.STOPPED)])
def test_detached_and_ended_before_the_first_step(run, state, kind, code):
    run.write_status(status(state, kind))
    assert wait_for_first_step(run, StopSignals(run)) == code


def test_detached_and_lost(run):
    run.write_status(status("running"))
    assert wait_for_first_step(run, StopSignals(run)) == ExitCode.LOST


def test_detached_returns_at_the_first_step_of_this_attempt(run):
    run.attempt(2).mkdir()
    run.write_status(status("failed", "exception"))
    run.events(0).write_text('{"event":"step","rank":0,"attempt":1,"step":7}\n')
    assert wait_for_first_step(run, StopSignals(run)) == ExitCode.TRAINING_FAILED
    run.events(0).write_text('{"event":"step","rank":0,"attempt":2,"step":8}\n')
    assert wait_for_first_step(run, StopSignals(run)) == ExitCode.OK


def test_output_nobody_reads_goes_nowhere(capsys):
    class Closed:
        def write(self, _text):
            raise BrokenPipeError

    out = PatientOutput(Closed())
    assert out.write("one") == 3 and out.write("two") == 3 and not out.isatty()
    assert capsys.readouterr().err.count("nobody reads") == 1
