"""The process above the launcher: keeps status.json, carries out stop requests, leaves nothing behind.

`python -m wizard.launch.supervisor RUN_DIR` runs the newest attempt's `launch.json`, and starts a group of ranks that
crashed again, as a new attempt from the newest checkpoint, up to `distributed.max_restarts` times. It is detached from any terminal, so a
closed window or a lost ssh connection does not touch the training; SIGTERM asks for a stop with a checkpoint, a
second one for a stop at once.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil

from engine.contract.events import ExitReason
from engine.contract.run_dir import Process, RunDir, Status, process_record
from wizard.launch import processes
from wizard.launch.attempts import read_launch, write_restart
from wizard.launch.environment import child_environment
from wizard.launch.launcher_log import exit_codes, read_tail, root_cause
from wizard.launch.rank_watch import RankWatch
from wizard.launch.stop_ladder import Patience, StopLadder
from wizard.launch.verdict import Evidence, Verdict, conclude

POLL_S = 0.5
#: Crashes that may not come again; a wrong preset, full memory or a full disk would.
_WORTH_A_RESTART = frozenset({"exception", "signal", "lost", "hung"})
#: A rank on a full disk can write neither its checkpoint nor why it ends.
_FULL_BYTES = 1 << 20


class Supervisor:
    """One run from the start of an attempt to the verdict."""

    def __init__(self, run: RunDir, patience: Patience | None = None):
        self.run, self.patience = run, patience or Patience()
        self.started_unix_s = time.time()
        self._signals = 0
        self._wake, self._waker = os.pipe()
        self._begin(run.latest_attempt())
        self._restarts_left = self.launch.get("max_restarts", 0)

    def _begin(self, attempt: int) -> None:
        self.attempt, self.launch = attempt, read_launch(self.run, attempt)
        first, count = self.launch["first_rank"], self.launch["local_ranks"]
        self.watch = RankWatch(self.run, attempt, range(first, first + count))
        self.status = Status(state="starting", attempt=attempt, started_unix_s=self.started_unix_s,
                             processes=[process_record("supervisor")])
        self._failed_at: float | None = None
        self._gone_at: float | None = None
        self._ahead: subprocess.Popen | None = None

    def supervise(self) -> Status:
        """Run the attempt, and those that follow a crash, to the end; returns the final status."""
        self._listen()
        processes.adopt_orphans()
        while True:
            verdict = self._run_attempt()
            if verdict.state != "failed" or not self._may_restart(verdict.reason):
                return self._close(verdict)
            try:
                following = write_restart(self.run, self.attempt, verdict.reason)
            except OSError as error:
                _note(f"no restart: {error}")
                return self._close(verdict)
            self._restarts_left -= 1
            _note(f"attempt {self.attempt} failed ({verdict.reason.message}); trying again")
            self._begin(following)

    def _may_restart(self, reason: ExitReason) -> bool:
        return self._restarts_left > 0 and reason.kind in _WORTH_A_RESTART and self._stop_request() is None

    def _run_attempt(self) -> Verdict:
        self._write_status()
        log_start = self.run.launcher_log.stat().st_size if self.run.launcher_log.exists() else 0
        self._prepare_ahead()
        try:
            launcher = self._spawn()
        except OSError as error:
            return Verdict("failed", ExitReason(kind="launch", message=f"the launcher did not start: {error}"))
        self._know(process_record("launcher", pid=launcher.pid))
        ladder = StopLadder(self.watch, psutil.Process(launcher.pid), self._everything, self.patience)
        while launcher.poll() is None:
            self._wait()
            self._look()
            request = self._stop_request()
            if request is not None:
                ladder.act(at_once=request is False)
            self._clear_stuck(launcher.pid)
            if self._folder_gone():
                processes.end(self._everything(), grace_s=0)
        while self.watch.poll():
            pass
        processes.end(self._everything(), grace_s=2.0)
        return self._verdict(launcher.returncode, ladder, log_start)

    def _spawn(self) -> subprocess.Popen:
        with open(self.run.launcher_log, "ab") as log:
            log.write(f"--- attempt {self.attempt}\n".encode())
            return subprocess.Popen(
                self.launch["argv"], cwd=self.run.root, env=child_environment(os.environ, self.launch["env"]),
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                # the kernel watches the thread that forks, so this must stay the main thread
                preexec_fn=processes.dying_with_parent())

    def _prepare_ahead(self) -> None:
        """Begin with the data, which would wait for the launcher and all libraries. Without it the ranks do that."""
        if (self.run.root / "data").exists():
            return
        # ranks must not spread their tokenizing over the cores of all the others; here nobody else is
        env = {**self.launch["env"], "TOKENIZERS_PARALLELISM": "true"}
        with contextlib.suppress(OSError), open(self.run.logs / "data.log", "ab") as log:
            self._ahead = subprocess.Popen(
                [sys.executable, "-m", "engine.data.ahead", str(self.run.root)], cwd=self.run.root,
                env=child_environment(os.environ, env), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                preexec_fn=processes.dying_with_parent())

    def _listen(self) -> None:
        """Wake up from waiting at once when a signal or the launcher's end comes."""
        os.set_blocking(self._waker, False)
        os.set_blocking(self._wake, False)
        signal.set_wakeup_fd(self._waker, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)

    def _on_signal(self, *_: object) -> None:
        self._signals += 1

    def _wait(self) -> None:
        select.select([self._wake], [], [], POLL_S)
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake, 4096)

    def _look(self) -> None:
        """Take in what the ranks said and pass it on to the readers of status.json."""
        self.watch.poll()
        if self._ahead is not None:
            self._ahead.poll()  # no zombie
        before = self.status.model_copy()
        own = [record for record in self.status.processes if record.role != "rank"]
        self.status.processes = own + self.watch.processes()
        if self.status.state == "starting" and self.watch.all_ready:
            self.status.state = "running"
        if self._stop_request() is not None:
            self.status.state = "stopping"
        if self.status != before or not self.run.status.exists():
            self._write_status()

    def _stop_request(self) -> bool | None:
        """None: go on; True: stop with a checkpoint; False: at once. The STOP file is the one channel for all."""
        request = self.run.read_stop()
        if self._signals > (0 if request is None else 1):
            wanted = self._signals < 2
            if request is None or request.get("checkpoint", True) != wanted:
                with contextlib.suppress(OSError):  # on a full disk the signal still counts
                    self.run.request_stop(checkpoint=wanted)
                return wanted
        return None if request is None else bool(request.get("checkpoint", True))

    def _clear_stuck(self, launcher: int) -> None:
        """End ranks that hang on after another has failed, and a launcher that stays when all have ended.

        With NCCL the healthy ranks wait in a collective for the lost one, up to the group's timeout.
        """
        failed = any(trace.ended and trace.ended.get("state") == "failed" for trace in self.watch.traces.values())
        gone = any(trace.process and not trace.ended and processes.find(trace.process) is None
                   for trace in self.watch.traces.values())
        if not (failed or gone or self.watch.all_ended):
            self._failed_at = None
            return
        self._failed_at = self._failed_at or time.monotonic()
        waited = time.monotonic() - self._failed_at
        if self.watch.all_ended and waited > self.patience.ended_s:
            processes.end(self._everything(), grace_s=2.0)
        elif (failed or gone) and not self.watch.all_ended and waited > self.patience.leftovers_s:
            for trace in self.watch.traces.values():
                hangs = trace.ended is None and (trace.process is None or processes.find(trace.process) is not None)
                trace.cleared = trace.cleared or hangs
            # not only the recorded ones: a rank that hangs while it connects has not told its pid yet
            processes.end(processes.descendants(launcher), grace_s=0)

    def _folder_gone(self) -> bool:
        """Whether the run's folder was removed: nothing of the training could be kept. A network disk may be away for
        a moment."""
        if self.run.root.is_dir():
            self._gone_at = None
            return False
        self._gone_at = self._gone_at or time.monotonic()
        return time.monotonic() - self._gone_at > self.patience.folder_gone_s

    def _everything(self) -> list[psutil.Process]:
        """All that this attempt started and that still lives: descendants, orphans adopted, and recorded pids."""
        found = {child.pid: child for child in processes.descendants(os.getpid())}
        for record in self.watch.processes():
            process = processes.find(record)
            if process:
                found[process.pid] = process
        return list(found.values())

    def _verdict(self, returncode: int, ladder: StopLadder, log_start: int) -> Verdict:
        request, stopped_by = self._stop_request(), None
        if request is not None:
            stopped_by = "stopped on request"
            if request is False:
                stopped_by = "stopped at once, without a checkpoint, on request"
            elif not self.watch.training_began:
                stopped_by = "stopped on request before the first step"
            elif ladder.killed:
                stopped_by = "stopped on request; it did not reach a step boundary in time and was ended without a checkpoint"
        size = self.run.launcher_log.stat().st_size if self.run.launcher_log.exists() else 0
        log = read_tail(self.run.launcher_log, min(size - log_start, 256 * 1024) if size > log_start else 0)
        return conclude(Evidence(
            traces=self.watch.traces, launcher_exit=returncode, launcher_log=log, root=root_cause(log), exit_codes=exit_codes(log),
            stopped_by=stopped_by, killed=ladder.killed, model_exists=self.run.model.is_dir(), disk_full=self._disk_full(),
            machines=self.launch.get("machines", 1)))

    def _disk_full(self) -> bool:
        try:
            return shutil.disk_usage(self.run.root).free < _FULL_BYTES
        except OSError:
            return False

    def _know(self, record: Process) -> None:
        self.status.processes = [*self.status.processes, record]
        self._write_status()

    def _write_status(self) -> None:
        with contextlib.suppress(OSError):  # a full disk must not end the training; the next change tries again
            self.run.write_status(self.status)

    def _close(self, verdict: Verdict) -> Status:
        self.status.state, self.status.exit_reason = verdict.state, verdict.reason
        self.status.model_path, self.status.ended_unix_s = verdict.model_path, time.time()
        try:
            self.run.write_status(self.status)
        except OSError as error:
            _note(f"status.json could not be replaced ({error}); writing over it")
            with contextlib.suppress(OSError):
                self._write_over()
        return self.status

    def _write_over(self) -> None:
        """The verdict without room for a second file: into the blocks that the old one holds. Raises OSError."""
        text = self.status.model_dump_json().encode() + b"\n"
        with open(self.run.status, "r+b", buffering=0) as file:
            file.write(text)
            file.truncate(len(text))


def _note(text: str) -> None:
    with contextlib.suppress(OSError):  # the log may lie on the same full disk
        print(text, flush=True)


def main() -> int:
    run = RunDir(Path(sys.argv[1]))
    supervisor = Supervisor(run)
    try:
        status = supervisor.supervise()
    except BaseException as error:
        # whatever happened to us, nothing we started may outlive us and the status must not stay `running`
        processes.end(processes.descendants(os.getpid()), grace_s=0)
        supervisor._close(Verdict("failed", ExitReason(kind="launch", message=f"the supervisor failed: {error!r}")))
        raise
    _note(f"{status.state}: {status.exit_reason.kind if status.exit_reason else ''}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
