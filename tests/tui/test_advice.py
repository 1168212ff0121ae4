"""The advice screen and the comparison behind its own key, at both sizes."""

from __future__ import annotations

import pytest

from tests.tui.conftest import SIZES
from tests.unit.questions.machines import gpu_machine
from wizard.tui.screens.advice import AdviceScreen
from wizard.tui.screens.comparison import ComparisonScreen


@pytest.mark.parametrize("size", SIZES, ids=str)
async def test_a_machine_without_gpus_compares_one_process_with_two(drive, size):
    async with drive(size) as driver:
        await driver.press("n", "f2")
        assert isinstance(driver.app.screen, AdviceScreen) and "compare" in driver.screen()
        await driver.press("c")
        shown = driver.screen()
        assert isinstance(driver.app.screen, ComparisonScreen)
        assert "1 process against 2 processes" in shown and "NCCL carries only GPU memory" in " ".join(shown.split())
        await driver.press("escape")
        assert isinstance(driver.app.screen, AdviceScreen)


@pytest.mark.parametrize("size", SIZES, ids=str)
async def test_gpus_compare_nccl_with_gloo_as_bars(drive, machine, size):
    machine(gpu_machine())
    async with drive(size) as driver:
        await driver.press("n", "f2", "c")
        shown = driver.screen()
        assert "NCCL against Gloo" in shown and "from: tables" in shown and "waiting" in shown
        bars = {line.split()[0 if line.strip()[0] != "●" else 1]: line.count("█") + line.count("░")
                for line in shown.splitlines() if "█" in line and "time of" not in line}
        assert 0 < bars["NCCL"] < bars["Gloo"]
        assert all(len(line) <= size[0] for line in shown.splitlines())


async def test_a_bar_follows_the_width(drive, machine):
    machine(gpu_machine())

    def longest(driver):
        return max(line.count("█") + line.count("░") for line in driver.screen().splitlines())

    async with drive((120, 40)) as driver:
        await driver.press("n", "f2", "c")
        wide = longest(driver)
        await driver.pilot.resize_terminal(80, 24)
        await driver.settle()
        assert 0 < longest(driver) != wide
