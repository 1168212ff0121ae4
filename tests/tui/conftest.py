"""The app on machines we choose, in folders of its own."""

from __future__ import annotations

import pytest

from tests.unit.questions.machines import cpu_machine
from wizard import session
from wizard.tui.app import WizardApp

#: Background tasks that end; a directory tree's loader never does.
_OURS = ("machine", "shelf", "facts", "plan", "launch")
SIZES = [(80, 24), (120, 40)]


@pytest.fixture(autouse=True)
def _own_folders(tmp_path, monkeypatch):
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("AUTOTRAIN_WIZARD_RUNS", str(tmp_path / "runs"))


@pytest.fixture
def machine(monkeypatch):
    """Have the app, and the launch's own check, find this machine instead of the real one."""

    def use(inventory):
        monkeypatch.setattr(session, "read_machine", lambda: inventory)
        monkeypatch.setattr("wizard.launch.prepare.read_inventory", lambda: inventory)

    use(cpu_machine())
    return use


class Driver:
    """Presses keys and waits until the app has nothing left to do."""

    def __init__(self, app: WizardApp, pilot):
        self.app, self.pilot = app, pilot

    async def settle(self) -> None:
        for _ in range(20):
            await self.pilot.pause()
            waiting = [worker for worker in self.app.workers if worker.group in _OURS and not worker.is_finished]
            if not waiting:
                break
            await self.app.workers.wait_for_complete(waiting)
        await self.pilot.pause()

    async def press(self, *keys: str) -> None:
        for key in keys:
            await self.pilot.press(key)
            await self.settle()

    async def type(self, text: str) -> None:
        """Replace what stands on the line."""
        await self.pilot.press("end", "ctrl+u")
        await self.pilot.press(*[{" ": "space", ".": "full_stop", "/": "slash", "-": "minus", "%": "percent_sign"}.get(c, c)
                                 for c in text])
        await self.settle()

    async def until(self, text: str) -> None:
        """Wait until `text` is on the screen."""
        for _ in range(200):
            if text in self.screen():
                return
            await self.pilot.pause(0.02)
        raise AssertionError(f"never shown: {text}\n{self.screen()}")

    def screen(self) -> str:
        """What is on the screen, as text."""
        strips = self.app.screen._compositor.render_strips()
        return "\n".join("".join(segment.text for segment in strip).rstrip() for strip in strips)


@pytest.fixture
def drive(machine):
    """`async with drive(size) as driver`."""
    import contextlib

    @contextlib.asynccontextmanager
    async def run(size=(80, 24), **options):
        app = WizardApp(**options)
        async with app.run_test(size=size) as pilot:
            driver = Driver(app, pilot)
            await driver.settle()
            yield driver

    return run
