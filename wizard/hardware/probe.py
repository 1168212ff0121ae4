"""Takes the inventory of this machine: every probe in turn, none of which can fail the whole."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable

from wizard.hardware.amd import probe_amd
from wizard.hardware.apple import probe_apple
from wizard.hardware.cpu import probe_cpu
from wizard.hardware.intel import probe_intel
from wizard.hardware.inventory import HardwareInventory
from wizard.hardware.memory import probe_memory
from wizard.hardware.network import probe_network
from wizard.hardware.nvidia import probe_nvidia
from wizard.hardware.software import probe_software
from wizard.hardware.sources import Probed, Sources
from wizard.hardware.system import probe_platform

PROBES: dict[str, Callable[[Sources], Probed]] = {
    "platform": probe_platform,
    "cpu": probe_cpu,
    "memory": probe_memory,
    "network": probe_network,
    "software": probe_software,
    "nvidia": probe_nvidia,
    "amd": probe_amd,
    "apple": probe_apple,
    "intel": probe_intel,
}


def read_inventory(sources: Sources | None = None) -> HardwareInventory:
    """What this machine has. Never raises; takes milliseconds without GPUs, at most about 30 s with tools that hang."""
    sources = sources or Sources()
    parts: dict = {}
    unknown: dict[str, str] = {}
    drivers: dict[str, str] = {}
    for name, probe in PROBES.items():
        try:
            probed = probe(sources)
        except Exception as error:  # a fault of a probe must cost one answer, not the inventory
            unknown[name] = f"the probe failed ({type(error).__name__}: {error})"
            continue
        unknown |= probed.unknown
        drivers |= probed.found.pop("drivers", {})
        for key, value in probed.found.items():
            parts[key] = [*parts[key], *value] if isinstance(parts.get(key), list) else value
    inventory = HardwareInventory(taken_unix_s=round(time.time(), 3), host=_host(), unknown=unknown, **parts)
    inventory.software.drivers = drivers
    return inventory


def _host() -> str | None:
    try:
        return socket.gethostname() or None
    except OSError:
        return None
