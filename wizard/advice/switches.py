"""NVSwitch machines: nothing on them starts before the fabric manager runs, in the driver's version."""

from __future__ import annotations

from engine.contract.findings import Finding
from wizard.advice.devices import Devices, used_links
from wizard.advice.reasons import finding
from wizard.hardware.inventory import HardwareInventory
from wizard.hardware.models import known_model

#: Most NVLinks that one GPU has (H100 to B200). More than these to all others together means a switch between.
_MOST_LINKS = 18
#: GPUs of a whole switched board. Who sees fewer is in a virtual machine, where the host runs the fabric manager.
_BOARD = 8


def has_switch(devices: Devices, inventory: HardwareInventory) -> str | None:
    """The fact that shows NVSwitch between the devices in use, None without one."""
    links, count = used_links(devices, inventory), len(devices.used)
    if count < _BOARD:
        return None
    if links and all(link.nvlinks for link in links):
        model = known_model(devices.used[0].name)
        card = model.nvlinks if model and model.nvlinks and model.joined_by == "switch" else _MOST_LINKS
        seen: dict[int, int] = {}
        for link in links:  # rows and columns may be cut out of a pasted matrix
            seen[link.first] = seen.get(link.first, 0) + link.nvlinks
            seen[link.second] = seen.get(link.second, 0) + link.nvlinks
        return f"all pairs joined by {min(link.nvlinks for link in links)} NVLinks" if max(seen.values()) > card else None
    model = known_model(devices.used[0].name) if devices.used else None
    if not links and model is not None and model.joined_by == "switch":
        return f"{count} x {model.name}"
    return None


def switch_findings(devices: Devices, inventory: HardwareInventory) -> list[Finding]:
    states = {device.fabric for device in devices.used if device.fabric}
    down = inventory.sign("fabric-manager-down")
    failed = inventory.sign("nvls-failed")
    found = []
    if down or states & {"not started", "in progress"}:
        found.append(
            finding(
                "fabric-manager",
                "certain" if down else "likely",
                "the NVSwitch fabric is not ready, and CUDA does not start before it is",
                "log" if down else "NVML",
                down.text if down else f"fabric: {', '.join(sorted(states))}",
                [
                    "systemctl status nvidia-fabricmanager; its version must equal the driver's",
                    "systemctl enable --now nvidia-fabricmanager",
                ],
            )
        )
    elif (shown := has_switch(devices, inventory)) and not states & {"completed"}:
        found.append(
            finding(
                "fabric-manager",
                "possible",
                "NVSwitch machine: CUDA needs the fabric manager running, in the driver's version",
                "nvidia-smi topo -m",
                shown,
                ["check once: systemctl is-active nvidia-fabricmanager"],
            )
        )
    if failed:
        found.append(
            finding(
                "nvls-multicast-fabric",
                "likely",
                "NVLink SHARP multicast cannot be set up, though CUDA itself works",
                "log",
                failed.text,
                ["NCCL_NVLS_ENABLE=0 goes on without it; restarting the fabric manager or the node mends it"],
            )
        )
    return found
