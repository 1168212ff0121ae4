"""A text that speaks of GPUs without saying how many: what depends on their number stays open."""

from __future__ import annotations

from typing import Any

from engine.contract.findings import Decision

_OPEN = ("distributed.num_gpus_per_node", "distributed.num_processes_per_node", "training.micro_batch",
         "training.gradient_accumulation", "training.global_batch", "distributed.threads_per_process")  # fmt: skip


def without_count(
    decisions: dict[str, Decision], settings: dict[str, Any]
) -> tuple[dict[str, Decision], dict[str, Any]]:
    """Decisions whose value is a number that nobody knows become None, with the reason."""
    why = "the number of GPUs is not in the text"
    open_ones = {
        "processes": f"one for each GPU; {why}",
        "batch": f"follows from the number of ranks; {why}",
        "threads": f"the cores shared out between the ranks; {why}",
    }
    changed = {
        name: Decision(value=None, reason=reason, confidence="low")
        for name, reason in open_ones.items()
        if not decisions[name].reason.startswith("as set")
    }
    return decisions | changed, {key: value for key, value in settings.items() if key not in _OPEN}
