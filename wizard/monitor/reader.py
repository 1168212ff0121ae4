"""From a run's folder to a RunState: nothing but the folder is read, and each byte of it once."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any

from engine.contract.events import VERSION
from engine.contract.run_dir import ENDED, RunDir, Status
from wizard.monitor.schedule import Schedule
from wizard.monitor.state import Life, RunState, StepTotal
from wizard.monitor.tail import READ_BYTES, EventTail

Listener = Callable[[dict[str, Any], StepTotal | None], None]
#: Events of ranks that are ahead of the others wait; a rank with so many of them is not read further.
_MOST_WAITING = 20_000
#: Read in one round over all ranks, so that a thousand of them need no more memory than one.
_ROUND_BYTES = 8 << 20
_LEAST_BYTES = 16 << 10


class _RankFile:
    """The events of one rank that are read but not yet reduced, each with the life it belongs to."""

    def __init__(self, tail: EventTail):
        self.tail = tail
        self.waiting: deque[tuple[Life, dict[str, Any]]] = deque()
        self.restarts = 0
        self._attempt, self._seq, self._restart = 0, -1, 0

    def read(self) -> None:
        if len(self.waiting) >= _MOST_WAITING:
            return
        events = self.tail.poll()
        if self.tail.restarts != self.restarts:  # replaced or cut short: what follows is told from its start
            self.restarts = self.tail.restarts
            self._attempt, self._seq, self._restart = 0, -1, 0
        for event in events:
            attempt, seq = event.get("attempt"), event.get("seq")
            if not (isinstance(attempt, int) and isinstance(seq, int) and isinstance(event.get("t_mono_s"), (int, float))
                    and isinstance(event.get("t_unix_s"), (int, float))):
                self.tail.unreadable += 1
                continue
            if attempt != self._attempt or seq <= self._seq:  # the latter: restarted by the launcher within the attempt
                self._restart = self._restart + 1 if attempt == self._attempt else 0
                self._attempt = attempt
                # the line in which its process was killed before is nothing to report for as long as the run goes on
                self.tail.unreadable = max(0, self.tail.unreadable - 1)
            self._seq = seq
            self.waiting.append(((attempt, self._restart), event))


class RunReader:
    """Reduces the events of all ranks, oldest life first.

    `listener` is called for every event after it was reduced, with the step it completed or None. `status_of`
    reads the status (by default with its processes checked). One thread at a time may poll.
    """

    def __init__(self, run: RunDir, listener: Listener | None = None,
                 status_of: Callable[[RunDir], Status | None] | None = None):
        self.run = run
        self._status_of = status_of
        self.state = RunState()
        self.caught_up = False
        self._listener = listener
        self._files: dict[int, _RankFile] = {}
        self._schedule_of = -1
        self._broken = 0

    def poll(self, budget_s: float = 1.0) -> RunState:
        """Read what is new, for about `budget_s` seconds at most; `caught_up` tells whether that was all.

        The status is read before the events: what the ranks wrote before a status that says `ended` is then in
        the state too, once caught up.
        """
        until = time.monotonic() + budget_s
        self.state.status = self._status()
        self._read_schedule()
        self._find_ranks()
        while True:
            for file in self._files.values():
                file.read()
            reduced = self._reduce()
            self.caught_up = all(not file.tail.behind and not file.waiting for file in self._files.values())
            if self.caught_up or time.monotonic() >= until or not (reduced or any(
                    file.tail.behind for file in self._files.values())):
                break
        self.state.unreadable = self._broken + sum(file.tail.unreadable for file in self._files.values())
        return self.state

    def problems(self) -> list[str]:
        """What is odd about the files themselves, in words."""
        found = []
        state = self.state
        if not self.run.root.is_dir():
            return [f"the run's folder is gone: {self.run.root}"]
        if state.newer_version is not None:
            found.append(f"events of version {state.newer_version} are newer than this program: some may be missing here")
        if state.unreadable:
            found.append(f"{state.unreadable:,} {'line' if state.unreadable == 1 else 'lines'} of the event files could not be read")
        restarts = [rank for rank, file in self._files.items() if file.restarts]
        if restarts:
            found.append(f"the event file of rank {restarts[0]} was cut short or replaced")
        found += [f"rank {rank}: {file.tail.error}" for rank, file in self._files.items() if file.tail.error][:1]
        return found

    def _status(self) -> Status | None:
        if self._status_of is None:
            from wizard.launch.liveness import current_status

            self._status_of = current_status
        status = self._status_of(self.run)
        if status is not None and status.state in ENDED and status.attempt < self.run.latest_attempt():
            return None  # a resumed run whose new supervisor has not spoken yet; the old verdict no longer holds
        return status or self.state.status

    def _read_schedule(self) -> None:
        """The cadences of the newest attempt, and the name and size of the run while no rank has told them yet."""
        attempt = self.run.latest_attempt()
        if attempt == self._schedule_of:
            return
        from engine.contract.load import load_preset
        from engine.contract.problems import PresetError

        for path in (self.run.resolved(attempt), self.run.preset):
            try:
                preset = load_preset(path)
            except PresetError:
                continue
            state, distributed = self.state, preset.distributed
            state.schedule = Schedule.from_preset(preset)
            state.name, state.task = state.name or preset.name, state.task or preset.task
            if distributed.backend != "auto":
                state.backend = state.backend or distributed.backend
            if distributed.strategy != "auto":
                state.strategy = state.strategy or distributed.strategy
            if isinstance(distributed.num_processes_per_node, int):
                state.world_size = state.world_size or distributed.num_processes_per_node * distributed.num_nodes
            if attempt and path == self.run.resolved(attempt):
                self._schedule_of = attempt
                if distributed.num_nodes > 1:
                    state.ranks_here = self._ranks_here(attempt)
            return

    def _ranks_here(self, attempt: int) -> range | None:
        from wizard.launch.attempts import read_launch

        try:
            launch = read_launch(self.run, attempt)
            return range(launch["first_rank"], launch["first_rank"] + launch["local_ranks"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def _find_ranks(self) -> None:
        if self.state.world_size is not None and len(self._files) >= self.state.world_size:
            return
        for rank, path in self.run.event_files().items():
            if rank not in self._files:
                self._files[rank] = _RankFile(EventTail(path))
        for file in self._files.values():
            file.tail.read_bytes = min(READ_BYTES, max(_LEAST_BYTES, _ROUND_BYTES // len(self._files)))

    def _reduce(self) -> int:
        """Reduce what waits, up to the life that every rank with unread bytes has reached; how many events."""
        heads = [file.waiting[0][0] for file in self._files.values() if file.waiting]
        if not heads:
            return 0
        life = min(heads)
        count = 0
        found: list[tuple[Life, dict[str, Any]]] = []
        for file in self._files.values():
            while file.waiting and file.waiting[0][0] <= life:
                event_life, event = file.waiting.popleft()
                if self.state.task == "script":
                    found.append((event_life, event))
                else:
                    self._apply(event, event_life)
                count += 1
        # which ranks of a script tell steps is seen from what they tell, so all of them are heard at once
        for event_life, event in sorted(found, key=lambda pair: (pair[0], pair[1]["t_unix_s"])):
            self._apply(event, event_life)
        return count

    def _apply(self, event: dict[str, Any], life: Life) -> None:
        state = self.state
        version = event.get("v")
        if isinstance(version, int) and version > VERSION:
            state.newer_version = max(version, state.newer_version or 0)
        try:
            total = state.apply(event, life)
        except (TypeError, ValueError, KeyError, AttributeError, ZeroDivisionError):
            self._broken += 1  # fields of another shape than ours, as a newer version may write them
            return
        if self._listener is not None:
            self._listener(event, total)
