"""Main memory, the limit of the control group, and /dev/shm."""

from __future__ import annotations

import os
import re

from wizard.hardware.cgroups import memory_limit
from wizard.hardware.inventory import Memory
from wizard.hardware.sources import Probed, Sources


def probe_memory(sources: Sources) -> Probed:
    text = sources.read("/proc/meminfo")
    if text is not None:
        kib = {key: int(value) for key, value in re.findall(r"^(\w+):\s*(\d+) kB", text, re.M)}
        total, available = kib.get("MemTotal"), kib.get("MemAvailable", kib.get("MemFree"))
        total, available = (size * 1024 if size is not None else None for size in (total, available))
    else:
        import psutil

        state = psutil.virtual_memory()
        total, available = state.total, state.available
    shm_total, shm_free = _shm(sources)
    return Probed(
        {
            "memory": Memory(
                total_bytes=total,
                available_bytes=available,
                limit_bytes=memory_limit(sources),
                shm_total_bytes=shm_total,
                shm_free_bytes=shm_free,
            )
        },
        {} if total else {"memory": "/proc/meminfo does not name a total"},
    )


def _shm(sources: Sources) -> tuple[int | None, int | None]:
    """Size and free bytes of /dev/shm, which NCCL and data loader workers share memory through."""
    try:
        state = os.statvfs(sources.root / "dev/shm")
    except (OSError, AttributeError):  # AttributeError: Windows has no statvfs
        return None, None
    return state.f_blocks * state.f_frsize, state.f_bavail * state.f_frsize
