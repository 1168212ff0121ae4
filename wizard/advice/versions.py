"""Versions as numbers that compare."""

from __future__ import annotations

from wizard.hardware.inventory import HardwareInventory


def version_numbers(text: str | None) -> tuple[int, ...] | None:
    """(550, 90) for `550.90.07`, (470,) for `470`; None for what does not begin with a number."""
    parts = (text or "").split(".")
    if not parts[0].isdigit():
        return None
    return (int(parts[0]), int(parts[1])) if len(parts) > 1 and parts[1].isdigit() else (int(parts[0]),)


def nccl_version(inventory: HardwareInventory) -> tuple[int, ...] | None:
    """(2, 21) of the NCCL that torch brings, None where it is not known."""
    for name in ("nccl", "nvidia-nccl-cu13", "nvidia-nccl-cu12", "nvidia-nccl-cu11"):
        found = version_numbers(inventory.software.packages.get(name))
        if found is not None and len(found) == 2:
            return found
    return None
