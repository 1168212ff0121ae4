"""Two machines on one: network namespaces with a cable between them, each with a name and a hosts file of its own."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import psutil

from engine.contract.run_dir import RunDir
from tests.cluster.commands import Workshop
from tests.system.waiting import SLOW_S, until

_PREFIX = "wizardtest"
_HOSTS = Path("/etc/netns")
_counter = itertools.count()
#: An end of the cable. Neither `eth0` nor anything else that a person's machine would have.
INTERFACE = "cable0"


class Machines:
    """`with Machines() as two: two.command(0, ["hostname"])`. Leaving the block removes every trace.

    Needs root and iproute2. Addresses live inside the namespaces, so they can meet none of the real network's.
    """

    def __init__(self) -> None:
        tag = f"{_PREFIX}-{os.getpid()}-{next(_counter)}"
        self.spaces = [f"{tag}-a", f"{tag}-b"]
        self.hosts = ["machine-a", "machine-b"]
        self.addresses = ["10.231.9.1", "10.231.9.2"]

    def __enter__(self) -> Machines:
        _sweep()
        try:
            for space in self.spaces:
                _ip("netns", "add", space)
            _ip("link", "add", INTERFACE, "netns", self.spaces[0], "type", "veth", "peer", "name", INTERFACE, "netns", self.spaces[1])
            for number, space in enumerate(self.spaces):
                _ip("-n", space, "link", "set", "lo", "up")
                _ip("-n", space, "addr", "add", f"{self.addresses[number]}/24", "dev", INTERFACE)
                _ip("-n", space, "link", "set", INTERFACE, "up")
                self.name_hosts(number, {name: address for name, address in zip(self.hosts, self.addresses, strict=True)})
            # the kernel notices a carrier a moment after the cable is there
            until(lambda: all("state UP" in _ip("-n", space, "link", "show", INTERFACE) for space in self.spaces), 30)
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def name_hosts(self, number: int, names: dict[str, str]) -> None:
        """Give one machine its /etc/hosts; seen by commands that start afterwards."""
        folder = _HOSTS / self.spaces[number]
        folder.mkdir(parents=True, exist_ok=True)
        lines = ["127.0.0.1 localhost", *(f"{address} {name}" for name, address in names.items())]
        (folder / "hosts").write_text("\n".join(lines) + "\n")

    def command(self, number: int, words: list[str]) -> list[str]:
        """The words that run a command on one machine; the process itself becomes the command, so signals reach it."""
        named = 'echo "$0" > /proc/sys/kernel/hostname && exec "$@"'
        return ["ip", "netns", "exec", self.spaces[number], "unshare", "-u", "sh", "-c", named, self.hosts[number], *words]

    def namespace(self, number: int) -> str:
        """The kernel's identity of a machine's network, as /proc/PID/ns/net of its processes shows it."""
        return f"net:[{os.stat(f'/run/netns/{self.spaces[number]}').st_ino}]"

    def remove(self) -> None:
        for space in self.spaces:
            _remove(space)


class MachinesWorkshop(Workshop):
    """A workshop whose commands run on one of two machines; each has its own home and the folders one gives it."""

    def __init__(self, folder: Path, machines: Machines):
        super().__init__(folder)
        self.machines = machines

    def start_on(self, number: int, *words: str, **env: str) -> subprocess.Popen:
        """A command on machine `number`, in the background; its runs go to a folder of that machine."""
        count, own = len(self.started), self.home(number)
        env = self.env | {"XDG_STATE_HOME": str(own / "state"), "AUTOTRAIN_WIZARD_RUNS": str(own / "runs")} | env
        with open(self.folder / f"out-{count}", "w") as out, open(self.folder / f"err-{count}", "w") as err:
            process = subprocess.Popen(self.machines.command(number, [sys.executable, "-m", "wizard.cli", *words]), cwd=self.folder,
                                       env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        process.out, process.err = self.folder / f"out-{count}", self.folder / f"err-{count}"
        self.started.append(process)
        return process

    def command_on(self, number: int, *words: str, **env: str) -> tuple[int, str, str]:
        process = self.start_on(number, *words, **env)
        code = process.wait(timeout=SLOW_S)
        return code, process.out.read_text(), process.err.read_text()

    def run_on(self, number: int, name: str) -> RunDir:
        """The newest run of a preset that was started on machine `number`, once its supervisor watches over it."""
        def found() -> RunDir | None:
            runs = [RunDir(path) for path in self.folder.glob(f"*/runs/{name}/*-node{number}*")]
            run = max(runs, key=lambda run: run.root.name, default=None)
            return run if run and run.read_status() else None

        return until(found)

    def both(self, *words: str, **env: str) -> list[subprocess.Popen]:
        """The same `run` on both machines, each with its own number."""
        return [self.start_on(number, "run", *words, "--node-rank", str(number), **env) for number in (0, 1)]

    def home(self, number: int) -> Path:
        return self.folder / self.machines.hosts[number]


def _ip(*words: str, check: bool = True) -> str:
    return subprocess.run(["ip", *words], check=check, capture_output=True, text=True, timeout=30).stdout


def _remove(space: str) -> None:
    """Remove a namespace, its hosts file, and whatever still runs in it."""
    path = Path("/run/netns") / space
    with contextlib.suppress(OSError):
        inode = path.stat().st_ino
        for process in psutil.process_iter():
            with contextlib.suppress(OSError, psutil.Error):
                if os.stat(f"/proc/{process.pid}/ns/net").st_ino == inode:
                    process.send_signal(signal.SIGKILL)
    _ip("netns", "del", space, check=False)
    shutil.rmtree(_HOSTS / space, ignore_errors=True)
    with contextlib.suppress(OSError):  # only when it is empty: the machine may have some of its own
        _HOSTS.rmdir()


def _sweep() -> None:
    """Remove what a test run that was killed has left behind."""
    for path in Path("/run/netns").glob(f"{_PREFIX}-*"):
        if not psutil.pid_exists(int(path.name.split("-")[1])):
            _remove(path.name)
