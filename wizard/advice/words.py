"""Decisions as a person reads them: short values, the two lines of a screen, and what may go into a preset."""

from __future__ import annotations

from typing import Any

from engine.contract.findings import Decision
from wizard.advice.backend import NAMES
from wizard.advice.reasons import gib
from wizard.formatting import rate

#: Titles in the order they are shown.
TITLES = {
    "devices": "devices",
    "backend": "backend",
    "strategy": "strategy",
    "processes": "processes",
    "precision": "precision",
    "batch": "batch",
    "memory": "memory",
    "speed": "speed",
    "max_length": "length",
    "packing": "packing",
    "gradient_checkpointing": "recompute",
    "learning_rate": "rate",
    "threads": "threads",
    "network": "network",
    "bucket": "bucket",
    "env": "environment",
}
#: How `reasons.kept` begins.
_SET = "as set; "
#: Columns left beside `because ` and a margin on a screen of 80.
_LINE = 70
_STRATEGIES = {"ddp": "DDP", "fsdp": "FSDP", "deepspeed": "DeepSpeed", "single": "single"}


def value_text(name: str, decision: Decision) -> str:
    """The value in a few characters: `NCCL`, `8 x 2 x 4 = 64`, `4 GPUs`; `n/a` where unknown."""
    value = decision.value
    if name == "devices":
        count = value["count"]
        if count is None:
            return "all GPUs"
        return "CPU" if count == 0 else f"{count} GPU" + ("s" if count > 1 else "")
    if name == "backend":
        return NAMES[value] if value != "none" else "none"
    if name == "strategy":
        return _STRATEGIES[value]
    if name == "batch":
        return batch_text(value) if value else "n/a" if value else "n/a"
    if name == "memory":
        return f"{gib(value['per_device_bytes'])} GiB" if value else "n/a"
    if name == "speed":
        return f"{rate(value['tokens_per_s'][0])}-{rate(value['tokens_per_s'][1])} tok/s" if value else "n/a"
    if name == "env":
        return f"{len(value)} set" if value else "none"
    if name == "bucket":
        return f"{value} MB"
    if value is None:
        return "-" if name == "network" else "n/a"
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:g}" if isinstance(value, float) else str(value)


def batch_text(batch: dict[str, int]) -> str:
    parts = [batch["micro_batch"], batch["gradient_accumulation"]]
    if batch["world_size"] > 1:
        parts.append(batch["world_size"])
    return f"{' x '.join(str(part) for part in parts)} = {batch['global_batch']}"


def summary_lines(decisions: dict[str, Decision], num_nodes: int) -> tuple[str, str]:
    """`NCCL · DDP on 4 GPUs · bf16 · 8 x 2 x 4 = 64 a step` and `because ...`."""
    backend, strategy, devices = decisions["backend"].value, decisions["strategy"].value, decisions["devices"].value
    processes, count = decisions["processes"].value, devices["count"]
    where = (
        "all GPUs"
        if count is None
        else f"{count} GPU" + ("s" if count > 1 else "")
        if count
        else f"{processes} CPU process" + ("es" if processes > 1 else "")
    )
    if num_nodes > 1:
        where = f"{num_nodes} machines x {where}"
    parts = [
        f"{_STRATEGIES[strategy]} on {where}"
        if backend != "none"
        else f"one process on {'the CPU' if not count else '1 GPU'}",
    ]
    if decisions["precision"].value is not None:
        parts.append(decisions["precision"].value)
    if decisions["batch"].value is not None:
        parts.append(f"{batch_text(decisions['batch'].value)} a step")
    if backend != "none":
        parts.insert(0, NAMES[backend])
    return " · ".join(parts), f"because {_because(decisions)}"


def _because(decisions: dict[str, Decision]) -> str:
    """The reason that carries most: what is short first, then what was decided rather than set."""
    memory = decisions["memory"]
    if memory.value and memory.value["fits"] is False:
        return _short(memory.reason)
    order = ("backend", "processes", "strategy", "devices")
    if decisions["backend"].value == "none":  # that one process has no backend says nothing new
        order = ("strategy", "devices") if decisions["devices"].value["count"] else ("processes", "devices")
    for name in order:
        if not decisions[name].reason.startswith(_SET):
            return _short(decisions[name].reason)
    return _short("as set; " + decisions["processes"].reason.removeprefix(_SET))


def _short(reason: str) -> str:
    """`reason` for one line of 80 columns, cut where a clause ends, else between words."""
    if len(reason) <= _LINE:
        return reason
    cut = max(reason.rfind(mark, 20, _LINE) for mark in ("; ", ": ", ", ", " ("))
    return reason[:cut] if cut > 0 else reason[: reason.rfind(" ", 0, _LINE)] + " …"


def shareable(decisions: dict[str, Decision]) -> list[dict[str, Any]]:
    """For a preset's `why`: reasons without names of interfaces, addresses or identifiers of this machine."""
    found = []
    for name, decision in decisions.items():
        if name == "network":
            continue
        value: Any = decision.value
        if name == "env":
            if not value:
                continue
            found.append({"decision": name, "value": sorted(value), "reason": "set for this machine"})
            continue
        if name == "devices":
            value = {"accelerator": value["accelerator"], "count": value["count"]}
        found.append({"decision": name, "value": value, "reason": decision.reason})
    return found
