"""Apple silicon: one GPU (MPS) that shares the main memory."""

from __future__ import annotations

import platform

from wizard.hardware.inventory import Accelerator
from wizard.hardware.sources import Probed, Sources


def probe_apple(sources: Sources) -> Probed:
    if (sources.system or platform.system()) != "Darwin":
        return Probed()
    arm = (sources.run(["sysctl", "-n", "hw.optional.arm64"], 3).text or "").strip()
    if arm != "1":
        return Probed(unknown={"apple": "a Mac without Apple silicon: torch has no GPU support there"})
    name = (sources.run(["sysctl", "-n", "machdep.cpu.brand_string"], 3).text or "").strip() or None
    size = (sources.run(["sysctl", "-n", "hw.memsize"], 3).text or "").strip()
    total = int(size) if size.isdigit() else None
    return Probed({"accelerators": [Accelerator(index=0, vendor="apple", name=name, memory_bytes=total)]})
