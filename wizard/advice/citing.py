"""Findings about a machine that was described in text name the line they rest on."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

from engine.contract.findings import Evidence, Finding
from wizard.hardware.inventory import HardwareInventory

#: The fields of the inventory behind each category, as patterns of `HardwareInventory.evidence`.
_FIELDS = {
    "driver-too-old": ("driver.*", "torch.cuda", "torch.version"),
    "narrow-pcie-link": ("gpu.*.pcie_width", "gpu_width.*", "sign.narrow-pcie"),
    "cross-numa": ("link.*.path", "sign.cross-numa", "gpu.*.numa_node"),
    "p2p-unavailable": ("link.*.p2p", "p2p", "gpu.*.name", "group"),
    "nvlink-bridge-faulty": ("link.*.path", "sign.slow-nvidia-smi"),
    "iommu-acs": ("sign.acs-redirect", "sign.iommu-fault", "platform.iommu", "link.*.path"),
    "no-bf16": ("gpu.*.compute_capability", "gpu.*.name", "group"),
    "needs-cuda-12.8": ("torch.cuda", "torch.version", "gpu.*.compute_capability", "gpu.*.name", "group"),
    "gpu-arch-unsupported": ("gpu.*.name", "group", "gpu.*.architecture"),
    "fabric-manager": ("sign.fabric-manager-down", "gpu.*.fabric", "link.*.path", "group"),
    "mig": ("gpu.*.mig", "mig"),
    "mixed-gpus": ("gpu.*.name", "group"),
    "busy-at-low-power": ("gpu.*.utilization",),
    "ib-gid": ("rdma.*.link_layer", "network.fabric"),
    "rdma-in-container": ("rdma_opened", "platform.container", "rdma.*.link_layer"),
    "nccl-shm-too-small": ("memory.shm_total_bytes",),
    "ib-memlock-limit": ("platform.memlock_bytes",),
    "mps": ("gpu.0.name",),
    "two-devices-per-card": ("gpu.*.name", "group", "gpu.*.architecture"),
    "gpu-in-use": ("gpu.*.free_bytes", "gpu.*.process*"),
    "slow-ethernet-only-cluster": ("network.peer_speed_mbit", "interface.*.speed_mbit"),
    "torch-build-without-gpu": ("torch.version", "torch.built"),
    "windows-no-nccl": ("platform.system",),
    "wsl2-multi-gpu-shm": ("platform.wsl",),
}
_MOST_LINES = 3


def cited(findings: list[Finding], inventory: HardwareInventory) -> list[Finding]:
    """The same findings; where the inventory was read from text, with its lines as further evidence."""
    if not inventory.evidence:
        return findings
    return [
        item.model_copy(update={"evidence": item.evidence + lines})
        if (lines := _lines(_FIELDS.get(item.category, ()), inventory))
        else item
        for item in findings
    ]


def _lines(patterns: tuple[str, ...], inventory: HardwareInventory) -> list[Evidence]:
    for pattern in patterns:
        texts = dict.fromkeys(text for key, text in inventory.evidence.items() if fnmatchcase(key, pattern))
        found = [match for text in texts if (match := re.match(r"line (\d+): (.*)", text))]
        if found:
            return [Evidence(source="text", line=int(match[1]), text=match[2]) for match in found[:_MOST_LINES]]
    return []
