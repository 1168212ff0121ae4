"""The process above the launcher: keeps status.json, carries out stop requests, leaves nothing behind.

`python -m wizard.launch.supervisor RUN_DIR` runs attempt N's `launch.json`. It is detached from any terminal, so a
closed window or a lost ssh connection does not touch the training; SIGTERM asks for a stop with a checkpoint, a
second one for a stop at once.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil

from engine.contract.events import ExitReason
from engine.contract.run_dir import Process, RunDir, Status, process_record
from wizard.launch import processes
from wizard.launch.environment import child_environment
from wizard.launch.launcher_log import read_tail, root_cause
from wizard.launch.rank_watch import RankWatch
from wizard.launch.stop_ladder import Patience, StopLadder
from wizard.launch.verdict import Evidence, Verdict, conclude

POLL_S = 0.5


class Supervisor:
    """One attempt of one run, from start to verdict."""

    def __init__(self, run: RunDir, patience: Patience | None = None):
        self.run, self.patience = run, patience or Patience()
        self.attempt = run.latest_attempt()
        self.launch = json.loads((run.attempt(self.attempt) / "launch.json").read_text(encoding="utf-8"))
        first, count = self.launch["first_rank"], self.launch["local_ranks"]
        self.watch = RankWatch(run, self.attempt, range(first, first + count))
        self.status = Status(state="starting", attempt=self.attempt, started_unix_s=time.time(),
                             processes=[process_record("supervisor")])
        self._signals = 0
        self._failed_at: float | None = None
        self._wake, self._waker = os.pipe()

    def supervise(self) -> Status:
        """Run the attempt to its end and return the final status."""
        self._listen()
        processes.adopt_orphans()
        self._write_status()
        log_start = self.run.launcher_log.stat().st_size if self.run.launcher_log.exists() else 0
        try:
            launcher = self._spawn()
        except OSError as error:
            return self._close(Verdict("failed", ExitReason(kind="launch", message=f"the launcher did not start: {error}")))
        self._know(process_record("launcher", pid=launcher.pid))
        ladder = StopLadder(self.watch, psutil.Process(launcher.pid), self._everything, self.patience)
        while launcher.poll() is None:
            self._wait()
            self._look()
            request = self._stop_request()
            if request is not None:
                ladder.act(at_once=request is False)
            self._clear_stuck()
        while self.watch.poll():
            pass
        processes.end(self._everything(), grace_s=2.0)
        return self._close(self._verdict(launcher.returncode, ladder, log_start))

    def _spawn(self) -> subprocess.Popen:
        with open(self.run.launcher_log, "ab") as log:
            log.write(f"--- attempt {self.attempt}\n".encode())
            return subprocess.Popen(
                self.launch["argv"], cwd=self.run.root, env=child_environment(os.environ, self.launch["env"]),
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                # the kernel watches the thread that forks, so this must stay the main thread
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
        before = self.status.model_copy()
        own = [record for record in self.status.processes if record.role != "rank"]
        self.status.processes = own + self.watch.processes()
        if self.status.state == "starting" and self.watch.all_ready:
            self.status.state = "running"
        if self._stop_request() is not None:
            self.status.state = "stopping"
        if self.status != before:
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

    def _clear_stuck(self) -> None:
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
            hanging = {trace.rank: found for trace in self.watch.traces.values()
                       if trace.process and (found := processes.find(trace.process))}
            for rank in hanging:
                self.watch.traces[rank].cleared = True
            processes.end(hanging.values(), grace_s=0)

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
            traces=self.watch.traces, launcher_exit=returncode, launcher_log=log, root=root_cause(log),
            stopped_by=stopped_by, killed=ladder.killed, model_exists=self.run.model.is_dir()))

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
            # no room for a second file: the old one's blocks are there, and a torn read is better than no verdict
            print(f"status.json could not be replaced ({error}); writing over it", flush=True)
            with contextlib.suppress(OSError):
                self.run.status.write_text(self.status.model_dump_json() + "\n", encoding="utf-8")
        return self.status


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
    print(f"{status.state}: {status.exit_reason.kind if status.exit_reason else ''}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
