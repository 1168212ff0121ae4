from __future__ import annotations

import pytest

from wizard.monitor.throughput import Throughput


def feed(meter: Throughput, steps: int, step_s: float, burst: int, start: float = 100.0, tokens: int = 1000):
    """Records of `steps` steps, `burst` of them written at once when the last of them is done."""
    points = []
    for step in range(1, steps + 1):
        written = start + step_s * (-(-step // burst) * burst) + (step % burst) * 1e-4
        point = meter.add(written, step, tokens, 8, 0.0)
        if point:
            points.append(point)
    return points


@pytest.mark.parametrize("burst", [1, 5, 10])
def test_rates_do_not_depend_on_how_records_are_written(burst):
    meter = Throughput()
    meter.begin(100.0, 0)
    points = feed(meter, 200, 0.2, burst)
    for value in (meter.tokens_per_s_now(), meter.tokens_per_s_mean(), meter.best):
        assert value == pytest.approx(5000, rel=0.01)
    assert meter.samples_per_s_now() == pytest.approx(40, rel=0.01)
    assert meter.s_per_step() == pytest.approx(0.2, rel=0.01)
    assert points and all(rate == pytest.approx(5000, rel=0.01) for _, rate in points)


def test_evaluation_and_checkpoints_are_left_out():
    meter = Throughput()
    meter.begin(0.0, 0)
    t = 0.0
    for step in range(1, 101):
        pause = 30.0 if step % 20 == 1 and step > 1 else 0.0
        t += 0.5 + pause
        meter.add(t, step, 500, 4, pause)
    assert meter.tokens_per_s_mean() == pytest.approx(1000, rel=0.01)
    assert meter.s_per_step() == pytest.approx(0.5, rel=0.01)


def test_the_slow_first_step_is_not_the_mean():
    meter = Throughput()
    meter.begin(0.0, 0)
    meter.add(20.0, 1, 1000, 8, 0.0)
    assert meter.tokens_per_s_mean() == pytest.approx(50)  # all there is to say
    for step in range(2, 50):
        meter.add(20.0 + 0.5 * (step - 1), step, 1000, 8, 0.0)
    assert meter.tokens_per_s_mean() == pytest.approx(2000, rel=0.01)


def test_now_follows_a_change_within_seconds():
    meter = Throughput()
    meter.begin(0.0, 0)
    t = 0.0
    for step in range(1, 200):
        t += 0.5 if step < 150 else 1.0
        meter.add(t, step, 1000, 8, 0.0)
    assert meter.tokens_per_s_now() == pytest.approx(1000, rel=0.01)
    assert meter.best == pytest.approx(2000, rel=0.01)


def test_unknown_stays_unknown():
    meter = Throughput()
    assert meter.tokens_per_s_now() is None and meter.tokens_per_s_mean() is None and meter.s_per_step() is None
    meter.add(5.0, 1, 1000, 8, 0.0)
    assert meter.tokens_per_s_now() is None and meter.best is None


def test_memory_is_bounded_for_very_short_steps():
    meter = Throughput()
    meter.begin(0.0, 0)
    for step in range(1, 50_000):
        meter.add(step * 0.001, step, 10, 1, 0.0)
    assert len(meter._window) < 300
    assert meter.tokens_per_s_now() == pytest.approx(10_000, rel=0.02)


def test_a_new_life_starts_a_new_clock():
    meter = Throughput()
    meter.begin(1000.0, 0)
    feed(meter, 50, 0.2, 1, start=1000.0)
    meter.begin(3.0, 40)
    for step in range(41, 90):
        meter.add(3.0 + 0.4 * (step - 40), step, 1000, 8, 0.0)
    assert meter.tokens_per_s_mean() == pytest.approx(2500, rel=0.02)
    assert meter.tokens == 99_000
