"""What to warn about before anything starts: weak points of the machine itself."""

from __future__ import annotations

from engine.contract.findings import Finding
from wizard.advice.devices import Devices
from wizard.advice.reasons import count_of, finding, gib
from wizard.hardware.inventory import HardwareInventory

#: NCCL's and loader workers' segments: containers start with 64 MB.
_SMALL_SHM = 2**30
#: Oldest driver by major CUDA version of the torch build. Source: CUDA toolkit release notes, table of minor version
#: compatibility.
_OLDEST_DRIVER = {11: (450, 80), 12: (525, 60), 13: (580, 65)}


def machine_findings(devices: Devices, inventory: HardwareInventory, processes: int) -> list[Finding]:
    """Weak points of the machine that matter for the devices in use."""
    found: list[Finding] = []
    if inventory.platform.system == "windows":
        found.append(
            finding(
                "windows-no-nccl",
                "certain",
                "native Windows has no NCCL: this program plans here and trains under WSL2",
                "platform",
                "Windows",
                ["install WSL2 and run autotrain-wizard there"],
            )
        )
    if devices.kind == "nvidia":
        found += _driver(inventory) + _in_use(devices) + _pcie(devices)
        if devices.count > 1:
            found += _paths(devices, inventory) + _shared_memory(inventory) + _fabric(devices, inventory)
    if devices.kind == "amd" and devices.count > 1:
        found += _amd(devices, inventory)
    if devices.kind == "apple":
        found.append(
            finding(
                "mps",
                "certain",
                "Apple GPU: one process, no communication library, and the memory is shared with the system",
                "platform",
                devices.words(),
                ["keep batches small; for several machines train on NVIDIA or AMD GPUs"],
            )
        )
    return found


def _driver(inventory: HardwareInventory) -> list[Finding]:
    driver, build = inventory.software.drivers.get("nvidia"), inventory.software.torch
    parts = (driver or "").split(".")
    if not parts[0].isdigit():
        return []
    have = (int(parts[0]), int(parts[1]) if len(parts) > 1 and parts[1].isdigit() else 0)
    # without a torch here, the wheels that pip gives now are CUDA 12 at least
    major = int(build.cuda.split(".")[0]) if build and build.cuda else 12
    oldest = _OLDEST_DRIVER.get(major)
    if oldest is None or have >= oldest:
        return []
    return [
        finding(
            "driver-too-old-for-cuda",
            "likely",
            f"driver {driver} is older than CUDA {major} needs ({oldest[0]}.{oldest[1]})",
            "NVML",
            f"driver {driver}",
            [
                f"upgrade the driver to {oldest[0]} or newer",
                "or install the cuda-compat package (data centre GPUs only)",
            ],
        )
    ]


def _in_use(devices: Devices) -> list[Finding]:
    busy = [
        device
        for device in devices.used
        if device.memory_bytes and device.free_bytes is not None and device.free_bytes < device.memory_bytes * 0.85
    ]
    if not busy:
        return []
    words = ", ".join(
        f"GPU {device.index}: {gib(device.free_bytes)} of {gib(device.memory_bytes)} GiB free" for device in busy
    )
    return [
        finding(
            "gpu-in-use",
            "certain",
            f"{count_of(len(busy), 'GPU')} partly taken by other processes",
            "NVML",
            words,
            ["stop what runs there, or leave these GPUs out"],
        )
    ]


def _pcie(devices: Devices) -> list[Finding]:
    narrow = [
        device
        for device in devices.used
        if device.pcie_width and device.pcie_width <= 4 and (device.pcie_max_width or 16) > 4
    ]
    if not narrow or devices.count < 2:
        return []
    words = ", ".join(
        f"GPU {device.index}: x{device.pcie_width} of x{device.pcie_max_width or 16}" for device in narrow
    )
    return [
        finding(
            "narrow-pcie-link",
            "likely",
            f"{count_of(len(narrow), 'GPU')} on a narrow PCIe link: gradients travel slowly",
            "NVML",
            words,
            ["move the card to a full slot", "or accumulate more steps between exchanges"],
        )
    ]


def _paths(devices: Devices, inventory: HardwareInventory) -> list[Finding]:
    indices = {device.index for device in devices.used}
    links = [link for link in inventory.links if link.first in indices and link.second in indices]
    found = []
    blocked = [link for link in links if link.p2p is False]
    if blocked:
        found.append(
            finding(
                "p2p-unavailable",
                "certain",
                "the driver offers no direct access between the GPUs; NCCL goes through the host by itself",
                "NVML",
                ", ".join(f"GPU {link.first} - GPU {link.second}" for link in blocked[:6]),
                ["nothing to set; more gradient accumulation hides it"],
            )
        )
    far = [link for link in links if link.path == "SYS"]
    if far:
        found.append(
            finding(
                "cross-numa",
                "certain",
                f"{count_of(len(far), 'pair')} of GPUs joined only across sockets (SYS)",
                "nvidia-smi topo -m",
                ", ".join(f"GPU {link.first} - GPU {link.second}" for link in far[:6]),
                ["more gradient accumulation, or train on the GPUs of one socket"],
            )
        )
    if inventory.platform.wsl:
        found.append(
            finding(
                "wsl2-multi-gpu-shm",
                "possible",
                "several GPUs under WSL2: NCCL sometimes cannot make its shared memory there",
                "platform",
                "WSL2",
                ["if it fails, set distributed.env.NCCL_P2P_DISABLE or train on one GPU"],
            )
        )
    return found


def _shared_memory(inventory: HardwareInventory) -> list[Finding]:
    size = inventory.memory.shm_total_bytes
    if size is None or size >= _SMALL_SHM:
        return []
    fix = (
        "start the container with --shm-size=8g (or --ipc=host)"
        if inventory.platform.container
        else "enlarge /dev/shm (mount -o remount,size=8g /dev/shm)"
    )
    return [
        finding(
            "nccl-shm-too-small",
            "likely",
            f"/dev/shm holds {size / 2**20:,.0f} MiB; NCCL needs room there for several GPUs",
            "/dev/shm",
            f"{size:,} bytes",
            [fix],
        )
    ]


def _fabric(devices: Devices, inventory: HardwareInventory) -> list[Finding]:
    """On NVSwitch machines CUDA does not start before the fabric manager has."""
    states = {device.fabric for device in devices.used}
    if states & {"not started", "in progress"}:
        return [
            finding(
                "fabric-manager-down",
                "likely",
                "the NVSwitch fabric is not ready",
                "NVML",
                f"fabric: {', '.join(sorted(str(s) for s in states))}",
                ["systemctl status nvidia-fabricmanager; its version must equal the driver's"],
            )
        ]
    links = [link.nvlinks for link in inventory.links]
    if devices.count >= 8 and links and min(links) >= 12 and "completed" not in states:
        return [
            finding(
                "fabric-manager-down",
                "possible",
                "NVSwitch machine: CUDA needs the fabric manager running, in the driver's version",
                "nvidia-smi topo -m",
                f"all pairs joined by {min(links)} NVLinks",
                ["check once: systemctl is-active nvidia-fabricmanager"],
            )
        ]
    return []


def _amd(devices: Devices, inventory: HardwareInventory) -> list[Finding]:
    found = []
    names = " ".join(device.name or "" for device in devices.used)
    if "MI250" in names or all((device.architecture or "").startswith("gfx90a") for device in devices.used):
        found.append(
            finding(
                "two-devices-per-card",
                "certain",
                "each card is two devices, and each takes a rank",
                "inventory",
                f"{devices.count} devices: {devices.words()}",
                ["nothing to set"],
            )
        )
    if inventory.platform.system == "linux" and inventory.platform.iommu != "pt" and not inventory.platform.virtual:
        found.append(
            finding(
                "rccl-iommu-pt-missing",
                "possible",
                "the kernel was not started with iommu=pt, without which AMD GPUs can hang in a collective",
                "/proc/cmdline",
                f"iommu={inventory.platform.iommu or 'not set'}",
                ["add iommu=pt to the kernel command line if a run hangs"],
            )
        )
    return found
