"""Limits of the control group this process is in: CPU time and memory, for both versions of the interface."""

from __future__ import annotations

from pathlib import PurePosixPath

from wizard.hardware.sources import Sources

#: The kernel writes "no limit" of version 1 as the largest multiple of a page; anything near it is no limit.
_NO_LIMIT = 2**60


def quota_cores(sources: Sources) -> float | None:
    """Cores' worth of CPU time the group may use (1.5 = one and a half); None without a limit."""
    quotas = []
    for folder in _folders(sources, "cpu"):
        quota, period = _cpu_max(sources.read(f"{folder}/cpu.max"))
        if quota is None:
            quota = sources.number(f"{folder}/cpu.cfs_quota_us")
            period = sources.number(f"{folder}/cpu.cfs_period_us")
        if quota and period and quota > 0:
            quotas.append(quota / period)
    return min(quotas) if quotas else None


def memory_limit(sources: Sources) -> int | None:
    """Bytes the group may use; None without a limit."""
    limits = []
    for folder in _folders(sources, "memory"):
        for name in ("memory.max", "memory.high", "memory.limit_in_bytes"):
            value = sources.number(f"{folder}/{name}")
            if value is not None and 0 < value < _NO_LIMIT:
                limits.append(value)
    return min(limits) if limits else None


def _cpu_max(text: str | None) -> tuple[int | None, int | None]:
    parts = (text or "").split()
    return (
        (int(parts[0]), int(parts[1]))
        if len(parts) == 2 and parts[0].isdigit() and parts[1].isdigit()
        else (None, None)
    )


def _folders(sources: Sources, controller: str) -> list[str]:
    """Folders whose limits apply: the process's own group and every parent, for each version in use."""
    found = []
    for line in (sources.read("/proc/self/cgroup") or "0::/").splitlines():
        _, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        if names == "":
            mount = "/sys/fs/cgroup"
        elif controller in names.split(","):
            mount = (
                f"/sys/fs/cgroup/{names}"
                if sources.exists(f"/sys/fs/cgroup/{names}")
                else f"/sys/fs/cgroup/{controller}"
            )
        else:
            continue
        # inside a container the path may be the host's: then only the mount's root exists
        group = PurePosixPath(path)
        found += [f"{mount}/{str(parent).lstrip('/')}".rstrip("/") for parent in (group, *group.parents)]
    return list(dict.fromkeys(found))
