"""What the cores of a CPU compute a second in fp32, from their vector units."""

from __future__ import annotations

from wizard.hardware.inventory import HardwareInventory

#: FLOPs a core does per cycle in fp32 (fused multiply-adds of its vector units count two), low and high between makes.
#: Source: the makers' optimisation manuals; a second AVX-512 unit is there in servers only.
_PER_CYCLE = {"avx512f": (32.0, 64.0), "avx2": (32.0, 32.0), "neon": (8.0, 32.0)}
#: Cycles a second with all cores busy.
_CLOCK = (2.0e9, 3.5e9)
#: Share of that which a training reaches; 0.7 to 0.9 was measured with AVX2 on matrices of 512 columns.
_REACHED = (0.3, 0.9)


def cpu_flops_per_s(inventory: HardwareInventory, processes: int, precision: str, end: int) -> float | None:
    """FLOP/s each of `processes` ranks reaches on its share of the cores; None where the vector units are not known.

    `end`: 0 for the slow end of every table, 1 for the fast one. Only fp32: 16-bit units differ too much.
    """
    flags = set(inventory.cpu.flags)
    if inventory.platform.architecture in ("arm64", "aarch64"):
        flags.add("neon")
    unit = next((name for name in _PER_CYCLE if name in flags), None)
    if unit is None or precision != "fp32":
        return None
    cores = inventory.cpu.usable_cores / processes
    return cores * _PER_CYCLE[unit][end] * _CLOCK[end] * _REACHED[end]
