"""Weak ways between the GPUs in use: bridges, narrow slots, blocked direct access, other sockets."""

from __future__ import annotations

from engine.contract.findings import Finding
from wizard.advice.devices import Devices, used_links
from wizard.advice.reasons import count_of, finding
from wizard.hardware.inventory import HardwareInventory, Link
from wizard.hardware.models import known_model


def path_findings(devices: Devices, inventory: HardwareInventory) -> list[Finding]:
    links = used_links(devices, inventory)
    return (
        _bridge(devices, links, inventory)
        + _narrow(devices, inventory)
        + _no_direct_access(devices, links, inventory)
        + _iommu(devices, links, inventory)
        + _sockets(devices, links, inventory)
    )


def _pairs(links: list[Link]) -> str:
    words = ", ".join(f"GPU {link.first} - GPU {link.second}: {link.path}" for link in links[:6])
    return words + (f" and {len(links) - 6} more" if len(links) > 6 else "")


def _bridge(devices: Devices, links: list[Link], inventory: HardwareInventory) -> list[Finding]:
    """Fewer NVLinks than the cards have: a bridge that is not seated well, or links that are down."""
    models = {device.index: known_model(device.name) for device in devices.used}
    short = []
    for link in links:
        first, second = models[link.first], models[link.second]
        full = first.nvlinks if first is not None and first is second else None
        if full is None and first is None and len(devices.used) == 2 and link.nvlinks == 3:
            full = 4  # bridges between two cards have two or four links, so three are one too few
        if full and 0 < link.nvlinks < full and (first is None or first.joined_by == "bridge"):
            short.append((link, full))
    uneven = len({link.nvlinks for link in links}) > 1 and all(link.nvlinks >= 6 for link in links)
    if uneven and not short:
        full = max(link.nvlinks for link in links)
        short = [(link, full) for link in links if link.nvlinks < full]
    if not short:
        return []
    slow = inventory.sign("slow-nvidia-smi")
    words = ", ".join(f"GPU {link.first} - GPU {link.second}: {link.path}, expected NV{full}" for link, full in short[:4])
    return [
        finding(
            "nvlink-bridge-faulty",
            "likely" if slow or known_model(devices.used[0].name) else "possible",
            "an NVLink between the GPUs is down: a bridge that is not seated well is the usual cause",
            "nvidia-smi topo -m",
            words + (f"; {slow.text}" if slow else ""),
            [
                "nvidia-smi nvlink -s shows which links are down",
                "switch off and seat the bridge again; if runs hang until then, set NCCL_P2P_DISABLE=1",
            ],
        )
    ]


def _narrow(devices: Devices, inventory: HardwareInventory) -> list[Finding]:
    narrow = [
        device
        for device in devices.used
        if device.pcie_width and device.pcie_width <= 4 and (device.pcie_max_width or 16) > 4
    ]
    sign = inventory.sign("narrow-pcie")
    if not narrow and sign is None:
        return []
    words = ", ".join(f"GPU {device.index}: x{device.pcie_width} of x{device.pcie_max_width or 16}" for device in narrow)
    how_many = count_of(len(narrow), "GPU") if narrow else "a GPU"
    return [
        finding(
            "narrow-pcie-link",
            "likely",
            f"{how_many} on a narrow PCIe link: the slowest link sets the pace of every exchange",
            "NVML" if narrow else "text",
            words or (sign.text if sign else ""),
            [
                "move the card to a full slot, or replace the riser",
                "else accumulate more steps between exchanges, or train an adapter, which exchanges little",
            ],
        )
    ]


def _no_direct_access(devices: Devices, links: list[Link], inventory: HardwareInventory) -> list[Finding]:
    blocked = [link for link in links if link.p2p is False]
    by_kind = [model for device in devices.used if (model := known_model(device.name)) and model.pcie_p2p is False]
    if not blocked and not (by_kind and not links):
        return []
    offered = inventory.from_text and bool(by_kind) and not any(k.endswith(".p2p") for k in inventory.evidence)
    return [
        finding(
            "p2p-unavailable",
            "likely" if offered or not blocked else "certain",
            "the driver offers no direct access between the GPUs; NCCL goes through the host by itself",
            "maker's list" if offered or not blocked else "nvidia-smi topo -p2p",
            _pairs(blocked) or f"{devices.words()}: none of this kind has it",
            ["nothing to set; more gradient accumulation hides it"],
        )
    ]


def _iommu(devices: Devices, links: list[Link], inventory: HardwareInventory) -> list[Finding]:
    """ACS or a translating IOMMU sends traffic between two cards of a switch up to the CPU, or loses it."""
    if devices.kind != "nvidia":
        return []
    sign = inventory.sign("acs-redirect") or inventory.sign("iommu-fault")
    switched = [link for link in links if link.path in ("PIX", "PXB") and link.p2p is not False]
    direct = [link for link in links if not link.nvlinks and link.p2p is not False]
    translating = inventory.platform.iommu == "on" and not inventory.platform.virtual
    if any(link.nvlinks for link in links) and sign is None:
        return []
    if not (sign or switched or (translating and (direct or not links))):
        return []
    if sign and links and not direct and not any(link.nvlinks for link in links):
        return []  # no direct access that anything could redirect
    text = sign.text if sign else "iommu=on" if translating else _pairs(switched)
    return [
        finding(
            "iommu-acs",
            "certain" if sign else "likely" if translating else "possible",
            "PCIe ACS or a translating IOMMU redirects direct traffic between these GPUs: it can hang or crawl"
            if sign or translating
            else "GPUs behind one PCIe switch: check ACS and the IOMMU before trusting direct access",
            "kernel log" if sign else "/proc/cmdline" if translating else "nvidia-smi topo -m",
            text,
            [
                "lspci -vvv | grep ACSCtl: ReqRedir+ and CmpltRedir+ mean it is on; turn ACS off in the firmware",
                "start the kernel with iommu=pt (or the IOMMU off)",
                "until then, if a run hangs on these pairs, set NCCL_P2P_DISABLE=1",
            ],
        )
    ]


def _sockets(devices: Devices, links: list[Link], inventory: HardwareInventory) -> list[Finding]:
    far = [link for link in links if link.path == "SYS"]
    nodes = {device.numa_node for device in devices.used if device.numa_node is not None and device.numa_node >= 0}
    sign = inventory.sign("cross-numa")
    if not far and (links or (len(nodes) < 2 and sign is None)):
        return []
    words = _pairs(far) or (f"NUMA nodes {', '.join(map(str, sorted(nodes)))}" if len(nodes) > 1 else sign.text if sign else "")
    return [
        finding(
            "cross-numa",
            "certain" if far else "likely",
            f"{count_of(len(far), 'pair')} of GPUs joined only across sockets or dies (SYS)"
            if far
            else "the GPUs hang on different sockets",
            "nvidia-smi topo -m" if far else "inventory",
            words,
            ["more gradient accumulation, or train on the GPUs of one socket", "bind each rank to the cores of its GPU"],
        )
    ]
