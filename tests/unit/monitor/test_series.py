from __future__ import annotations

import math

import pytest

from wizard.monitor.series import Series, smooth, thin


def test_a_long_series_keeps_its_shape_in_bounded_memory():
    series = Series(max_points=100)
    for x in range(1, 10_001):
        series.add(x, float(x))
    x, y = series.points()
    assert len(x) <= 101 and x[-1] == 10_000
    assert all(b > a for a, b in zip(x, x[1:], strict=False))
    # each point is the mean of the `stride` values that end at x
    assert y[0] == pytest.approx(x[0] - (series.stride - 1) / 2)
    assert series.last == 10_000 and series.lowest == 1


@pytest.mark.parametrize("bad", [None, math.nan, math.inf, -math.inf])
def test_values_that_are_not_finite_never_enter_the_curve(bad):
    series = Series()
    series.add(1, 2.0)
    series.add(2, bad)
    assert series.points() == ([1], [2.0])
    assert series.last is None and series.non_finite == 1 and series.first_non_finite == 2
    series.add(3, 1.0)
    assert series.last == 1.0 and series.points() == ([1, 3], [2.0, 1.0])


def test_odd_bounds_lose_no_value():
    series = Series(max_points=5)
    for x in range(1, 24):
        series.add(x, 1.0 if x <= 23 else 0.0)
    x, y = series.points()
    assert x[-1] == 23 and all(value == 1.0 for value in y)


def test_truncate_forgets_what_a_resumed_attempt_repeats():
    series = Series()
    for x in range(1, 11):
        series.add(x, float(x) if x != 8 else None)
    series.truncate(6)
    assert series.points()[0] == [1, 2, 3, 4, 5]
    assert series.last == 5.0 and series.non_finite == 0 and series.first_non_finite is None


def test_thin_averages_neighbours_and_keeps_the_end():
    x, y = thin(list(range(1000)), [float(i) for i in range(1000)], 10)
    assert len(x) == 10 and x[-1] == 999 and y[0] == pytest.approx(49.5)
    assert thin([1, 2], [3.0, 4.0], 10) == ([1, 2], [3.0, 4.0])


def test_smooth_has_no_bias_at_its_start():
    assert smooth([2.0, 2.0, 2.0], 0.9) == pytest.approx([2.0, 2.0, 2.0])
    assert smooth([1.0, 5.0], 0.0) == [1.0, 5.0]
