"""The benchmarks' own arithmetic and their stopwatch; what they measure is not tested, it depends on the machine."""

from __future__ import annotations

import json
import os
import sys

import pytest

from benchmarks import __main__ as command
from benchmarks import table
from benchmarks.measure import Effort, Result, paired, quartiles
from benchmarks.programs import Screen, timed


def test_a_pair_gives_one_ratio_and_the_median_decides():
    ratios = paired([2.0, 3.0, 9.0], [1.0, 1.0, 1.0])
    assert ratios == [2.0, 3.0, 9.0]
    result = Result("a", "b", ratios, aim=3.0)
    assert result.middle == 3.0 and result.spread == (2.5, 6.0)
    with pytest.raises(ValueError):
        paired([1.0], [1.0, 2.0])
    assert quartiles([4.0]) == (4.0, 4.0)


@pytest.mark.parametrize(("ratios", "aim", "verdict"), [
    ([1.0, 1.0, 1.01], 1.03, "met"), ([1.2, 1.2, 1.3], 1.03, "missed"), ([0.9, 1.0, 1.4], 1.1, "met?"),
    ([0.9, 1.2, 1.4], 1.1, "missed?"), ([1.0], None, "")])
def test_a_spread_around_the_aim_makes_the_verdict_doubtful(ratios, aim, verdict):
    assert Result("a", "b", ratios, aim=aim).verdict == verdict


def test_quick_measures_less_but_never_once():
    assert Effort(quick=True).rounds(24) == 6 and Effort(quick=True).rounds(4) == 3 and Effort().rounds(4) == 4


def test_table_and_json_tell_all(tmp_path):
    results = {"one": [Result("what", "other", [0.01, 0.02, 0.03], aim=0.02, percent=True, note="a note")], "two": "skipped: no reason"}
    lines = table.lines(results)
    assert len({len(line) for line in lines}) == 1 and "2.0 %" in lines[2] and "met" in lines[2] and "no reason" in lines[3]
    assert table.notes(results) == ["one: what: a note"]
    table.write(tmp_path / "r" / "x.json", results, [0.5])
    record = json.loads((tmp_path / "r" / "x.json").read_text())
    assert record["machine"]["cores"] >= 1 and record["machine"]["load_before"] == [0.5]
    assert record["benchmarks"]["one"][0]["median"] == 0.02 and record["benchmarks"]["two"] == {"skipped": "skipped: no reason"}


def test_a_benchmark_that_breaks_does_not_take_the_others_along(tmp_path, monkeypatch, capsys):
    class Good:
        ABOUT = "good"
        run = staticmethod(lambda effort: [Result("a", "b", [1.0])])

    class Bad:
        ABOUT = "bad"

        @staticmethod
        def run(effort):
            raise RuntimeError("it broke")

    monkeypatch.setattr(command, "_module", {"loop": Bad, "startup": Good}.__getitem__)
    assert command.main(["loop", "startup", "--out", str(tmp_path)]) == 1
    out = capsys.readouterr().out
    assert "failed: RuntimeError: it broke" in out and "| startup" in out
    assert command.main(["startup", "--out", str(tmp_path)]) == 0


def test_each_name_is_a_benchmark_and_others_are_refused(capsys):
    assert command.main(["--list"]) == 0
    listed = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert listed == list(command.NAMES)
    with pytest.raises(SystemExit) as ended:
        command.main(["speed"])
    assert ended.value.code == 2


def test_the_stopwatch_counts_time_and_cpu_time():
    seconds, cpu = timed([sys.executable, "-c", "import time; time.sleep(0.2)"], os.environ)
    assert seconds > 0.2 and 0 <= cpu < seconds


def test_a_screen_is_read_through_its_escapes():
    draw = r"""
import sys, time
for part in ("\x1b[?1049h\x1b[1;3", "8;2;1;2;3mHel", "lo\x1b[0m \x1b]0;title\x07wor", "ld"):
    sys.stderr.write(part); sys.stderr.flush(); time.sleep(0.05)
time.sleep(30)
"""
    with Screen([sys.executable, "-c", draw], os.environ) as screen:
        assert screen.wait_for("Hello world", timeout_s=20) > 0.1
        assert screen.cpu_seconds() >= 0
    with Screen([sys.executable, "-c", "print('something else')"], os.environ) as screen, \
            pytest.raises(TimeoutError, match="something else"):
        screen.wait_for("Hello", timeout_s=20)
