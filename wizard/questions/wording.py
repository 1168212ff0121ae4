"""What was detected, in a few words."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from wizard import formatting

if TYPE_CHECKING:
    from wizard.facts.data import DataFacts
    from wizard.facts.model import ModelFacts
    from wizard.hardware.inventory import HardwareInventory


def found(words: str) -> str:
    """`words` marked as read off the machine or the files, not asked; empty stays empty."""
    return f"Found: {words}." if words else ""


def machine(inventory: HardwareInventory) -> str:
    """`2 x NVIDIA A100 (80 GiB), 32 cores, 126 GiB of memory`."""
    devices = [device for device in inventory.accelerators if device.visible]
    hidden = len(inventory.accelerators) - len(devices)
    parts = []
    for (name, memory), number in Counter((d.name or d.vendor, d.memory_bytes) for d in devices).items():
        size = f" ({formatting.gibibytes(memory)})" if memory else ""
        parts.append(f"{number} x {name}{size}" if number > 1 else f"{name}{size}")
    if not devices:
        parts.append("no GPU" if not hidden else f"no GPU that is visible here ({hidden} hidden)")
    cores = inventory.cpu.usable_cores
    parts.insert(len(parts) if devices else 0, f"{cores} CPU core{'s' if cores != 1 else ''}")
    if inventory.memory.usable_bytes:
        parts.insert(len(parts) if devices else 1, f"{formatting.gibibytes(inventory.memory.usable_bytes)} of memory")
    return ", ".join(parts)


def model(facts: ModelFacts | None) -> str:
    """`llama, 134,515,008 parameters, 30 layers, bf16`; empty where nothing is known."""
    if facts is None or not facts.found:
        return ""
    parts = [facts.architecture]
    if facts.parameters:
        parts.append(f"{formatting.count(facts.parameters)} parameters")
    if facts.layers:
        parts.append(f"{facts.layers} layers")
    if facts.dtype:
        parts.append(facts.dtype)
    return ", ".join(part for part in parts if part)


_KINDS = {"text": "looks like plain text", "chat": "looks like chat", "prompt-completion": "looks like prompts and completions"}


def data(facts: DataFacts | None) -> str:
    """`12,480 rows, columns messages and source, looks like chat`; empty where nothing is known."""
    if facts is None:
        return ""
    parts = []
    if facts.rows is not None:
        parts.append(f"{facts.rows:,} row{'s' if facts.rows != 1 else ''}")
    if facts.columns:
        shown = list(facts.columns[:6]) + (["..."] if len(facts.columns) > 6 else [])
        parts.append(f"column{'s' if len(facts.columns) > 1 else ''} {', '.join(shown)}")
    if facts.kind in _KINDS:
        parts.append(_KINDS[facts.kind])
    return ", ".join(parts)
