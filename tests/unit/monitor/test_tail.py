from __future__ import annotations

import json

from wizard.monitor.tail import EventTail, LineTail, LogTail, plain_text


def event(number: int) -> str:
    return json.dumps({"event": "heartbeat", "rank": 0, "seq": number})


def test_a_half_written_line_waits_for_its_end(tmp_path):
    path = tmp_path / "rank.jsonl"
    tail = EventTail(path)
    assert tail.poll() == []
    whole = event(1) + "\n"
    path.write_text(event(0) + "\n" + whole[:10])
    assert [e["seq"] for e in tail.poll()] == [0]
    with path.open("a") as handle:
        handle.write(whole[10:])
    assert [e["seq"] for e in tail.poll()] == [1]
    assert tail.poll() == []
    assert tail.unreadable == 0


def test_lines_that_are_no_events_are_counted(tmp_path):
    path = tmp_path / "rank.jsonl"
    path.write_bytes(b'{"event": "st\n\n[1, 2]\n\xff\xfe\n' + event(3).encode() + b"\n")
    tail = EventTail(path)
    assert [e["seq"] for e in tail.poll()] == [3]
    assert tail.unreadable == 3


def test_a_file_cut_short_or_replaced_is_read_from_its_start(tmp_path):
    path = tmp_path / "rank.jsonl"
    path.write_text(event(0) + "\n" + event(1) + "\n")
    tail = EventTail(path)
    tail.poll()
    path.write_text(event(7) + "\n")
    assert [e["seq"] for e in tail.poll()] == [7]
    other = tmp_path / "other"
    other.write_text(event(8) + "\n" + event(9) + "\n")
    other.rename(path)
    assert [e["seq"] for e in tail.poll()] == [8, 9]
    assert tail.restarts == 2


def test_one_poll_reads_a_bounded_part(tmp_path):
    path = tmp_path / "rank.jsonl"
    path.write_text("".join(event(i) + "\n" for i in range(100)))
    tail = EventTail(path, read_bytes=200)
    first = tail.poll()
    assert 0 < len(first) < 10 and tail.behind > 0
    seen = [e["seq"] for e in first]
    while tail.behind:
        seen += [e["seq"] for e in tail.poll()]
    assert seen == list(range(100))


def test_an_endless_line_is_dropped_and_memory_stays_small(tmp_path, monkeypatch):
    monkeypatch.setattr("wizard.monitor.tail.LINE_BYTES", 1000)
    path = tmp_path / "log"
    path.write_bytes(b"x" * 5000 + b"\nafter\n")
    tail = LineTail(path, read_bytes=600)
    lines = []
    for _ in range(20):
        lines += tail.poll()
        assert len(tail._rest) <= 1600
    assert lines == [b"after"] and tail.dropped == 1


def test_a_folder_in_place_of_the_file_is_told_not_raised(tmp_path):
    tail = EventTail(tmp_path)
    assert tail.poll() == []
    assert tail.error


def test_log_lines_are_what_a_terminal_would_show():
    assert plain_text(b"10%|#  |\r100%|###| done\n") == "100%|###| done"
    assert plain_text(b"\x1b[31mred\x1b[0m \x1b]0;title\x07and \xffbytes\x00") == "red and �bytes"
    assert plain_text("[bold]not markup[/]") == "[bold]not markup[/]"
    assert len(plain_text("y" * 100_000)) == 2_000


def test_a_long_log_is_joined_near_its_end(tmp_path):
    path = tmp_path / "log"
    tail = LogTail(path, first_bytes=100)
    assert tail.poll() == []
    path.write_text("".join(f"line {i}\n" for i in range(1000)))
    lines = tail.poll()
    assert lines[-1] == "line 999" and len(lines) < 15 and all(line.startswith("line ") for line in lines)
    with path.open("a") as handle:
        handle.write("more\n")
    assert tail.poll() == ["more"]
