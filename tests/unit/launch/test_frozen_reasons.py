"""What a launch freezes: no `auto` left, the reasons and the kind of machine, and no more of it."""

from __future__ import annotations

from engine.contract.load import dump_preset, parse_preset
from engine.contract.preset import unresolved
from wizard.launch.prepare import prepare


def test_the_resolved_preset_says_why_and_reads_back_equal():
    resolved = prepare("quickstart", {}).resolved
    text = dump_preset(resolved, full=True)
    assert parse_preset(text) == resolved
    assert set(unresolved(resolved)) <= {"distributed.main_port", "data.packing"}
    reasons = {entry["decision"]: entry["reason"] for entry in resolved.why}
    assert {"backend", "strategy", "processes", "precision", "batch"} <= set(reasons) and all(reasons.values())
    assert resolved.hardware["cpu_cores"] >= 1
    assert set(resolved.hardware) <= {"accelerator", "cpu", "cpu_cores", "memory_gib", "system"}
