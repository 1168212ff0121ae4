"""The processor: model, sockets, cores that may be used, NUMA nodes, and the instructions that make bf16 fast."""

from __future__ import annotations

import os
import platform
import re

from wizard.hardware.cgroups import quota_cores
from wizard.hardware.inventory import Cpu, NumaNode
from wizard.hardware.sources import Probed, Sources

_FLAGS = ("amx_bf16", "avx512_bf16", "avx512f", "avx2")


def probe_cpu(sources: Sources) -> Probed:
    info = sources.read("/proc/cpuinfo")
    if info is None:
        return _without_proc(sources)
    unknown: dict[str, str] = {}
    blocks = [
        dict(re.findall(r"^([^:\t\n]+?)\s*: ?(.*)$", block, re.M)) for block in info.split("\n\n") if block.strip()
    ]
    logical = sum("processor" in block for block in blocks) or len(blocks)
    sockets = {block["physical id"] for block in blocks if "physical id" in block}
    cores = {(block["physical id"], block["core id"]) for block in blocks if {"physical id", "core id"} <= block.keys()}
    if not cores:  # ARM does not list them in cpuinfo
        sockets, cores = _from_topology(sources)
    first = blocks[0] if blocks else {}
    model = first.get("model name") or first.get("Model") or first.get("Hardware") or platform.processor() or None
    if not cores:
        unknown["cpu.physical_cores"] = "the kernel does not list sockets and cores; logical cores are used"
    have = set((first.get("flags") or first.get("Features") or "").split())
    return Probed(
        {
            "cpu": Cpu(
                model=model,
                sockets=len(sockets) or None,
                physical_cores=len(cores) or None,
                logical_cores=logical or None,
                affinity_cores=_affinity(sources),
                quota_cores=quota_cores(sources),
                flags=[flag for flag in _FLAGS if flag in have],
                numa=_numa(sources),
            )
        },
        unknown,
    )


def _without_proc(sources: Sources) -> Probed:
    """macOS and Windows, through psutil and sysctl."""
    import psutil

    physical = psutil.cpu_count(logical=False)
    model = None
    if (sources.system or platform.system()) == "Darwin":
        model = (sources.run(["sysctl", "-n", "machdep.cpu.brand_string"], 3).text or "").strip() or None
    return Probed(
        {
            "cpu": Cpu(
                model=model or platform.processor() or None,
                physical_cores=physical,
                logical_cores=psutil.cpu_count(),
                affinity_cores=_affinity(sources),
            )
        },
        {} if physical else {"cpu.physical_cores": "psutil could not tell"},
    )


def _affinity(sources: Sources) -> int | None:
    status = sources.read("/proc/self/status") if str(sources.root) != "/" else None
    if status is not None:  # a recorded machine
        allowed = re.search(r"^Cpus_allowed_list:\s*(\S+)", status, re.M)
        return count_cpus(allowed[1]) if allowed else None
    if str(sources.root) == "/" and hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return None


def _from_topology(sources: Sources) -> tuple[set[str], set[tuple[str, str]]]:
    base, sockets, cores = "/sys/devices/system/cpu", set(), set()
    for name in sources.names(base):
        if re.fullmatch(r"cpu\d+", name):
            package = sources.read(f"{base}/{name}/topology/physical_package_id")
            core = sources.read(f"{base}/{name}/topology/core_id")
            if package is not None and core is not None:
                sockets.add(package)
                cores.add((package, core))
    return sockets, cores


def _numa(sources: Sources) -> list[NumaNode]:
    base, nodes = "/sys/devices/system/node", []
    for name in sources.names(base):
        found = re.fullmatch(r"node(\d+)", name)
        if not found:
            continue
        total = re.search(r"MemTotal:\s*(\d+) kB", sources.read(f"{base}/{name}/meminfo") or "")
        nodes.append(
            NumaNode(
                id=int(found[1]),
                cpus=sources.read(f"{base}/{name}/cpulist") or None,
                memory_bytes=int(total[1]) * 1024 if total else None,
            )
        )
    return sorted(nodes, key=lambda node: node.id)


def count_cpus(text: str) -> int:
    """How many cores a kernel list such as `0-3,8` names. Raises ValueError for anything else."""
    total = 0
    for part in filter(None, text.strip().split(",")):
        low, _, high = part.partition("-")
        total += int(high or low) - int(low) + 1
    return total
