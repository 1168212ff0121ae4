"""Intel GPUs (XPU) through xpu-smi, looked for only where the kernel has an Intel compute device."""

from __future__ import annotations

import json

from wizard.hardware.inventory import Accelerator
from wizard.hardware.sources import Probed, Sources


def probe_intel(sources: Sources) -> Probed:
    """Integrated graphics are left out: they are no training device worth a plan."""
    base = "/sys/bus/pci/devices"
    discrete = [
        name
        for name in sources.names(base)
        if sources.read(f"{base}/{name}/vendor") == "0x8086"
        and (sources.read(f"{base}/{name}/class") or "").startswith(("0x0380", "0x0300"))
        and not name.startswith("0000:00:02")
    ]  # where integrated graphics always sit
    if not discrete:
        return Probed()
    output = sources.run(["xpu-smi", "discovery", "-j"], 10)
    try:
        rows = json.loads(output.text or "")["device_list"]
    except (ValueError, KeyError, TypeError):
        return Probed(
            unknown={
                "intel": f"{len(discrete)} Intel GPU(s) on the PCI bus; {output.reason or 'xpu-smi could not be read'}"
            }
        )
    devices = [
        Accelerator(
            index=int(row.get("device_id", at)),
            vendor="intel",
            name=row.get("device_name"),
            uuid=row.get("uuid"),
            pci_bus_id=row.get("pci_bdf_address"),
            memory_bytes=_int(row.get("memory_physical_size_byte")),
        )
        for at, row in enumerate(rows)
    ]
    return Probed({"accelerators": devices})


def _int(value: object) -> int | None:
    try:
        return int(str(value))
    except ValueError:
        return None
