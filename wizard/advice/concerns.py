"""What to warn about before anything starts: weak points of the machine itself."""

from __future__ import annotations

from engine.contract.findings import Finding
from wizard.advice.devices import Devices
from wizard.advice.paths import path_findings
from wizard.advice.rdma import rdma_findings
from wizard.advice.reasons import count_of, finding, gib, short_name
from wizard.advice.switches import switch_findings
from wizard.advice.versions import nccl_version, version_numbers
from wizard.hardware.inventory import HardwareInventory
from wizard.questions.needs import TrainingNeeds

#: NCCL's and loader workers' segments: containers start with 64 MB.
_SMALL_SHM = 2**30
#: Oldest driver by major CUDA version of the torch build. Source: CUDA toolkit release notes, table of minor version
#: compatibility.
_OLDEST_DRIVER = {11: (450, 80), 12: (525, 60), 13: (580, 65)}
#: A kernel that keeps a GPU busy in this share of the time while it draws less than this share of its power waits.
_BUSY, _LOW_POWER = 95, 0.35
#: NCCL reads the PCI tree of WSL2 only from this version on. Source: NCCL 2.11 release notes.
_WSL_NCCL = (2, 11)


def machine_findings(
    devices: Devices, inventory: HardwareInventory, needs: TrainingNeeds, processes: int
) -> list[Finding]:
    """Weak points of the machine that matter for the devices in use."""
    found: list[Finding] = _signs(inventory)
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
        found += _driver(inventory) + _in_use(devices) + _no_bf16(devices) + _waiting(devices)
        if devices.count > 1 and not devices.unknown:
            found += _wsl(inventory)
    if devices.kind in ("nvidia", "amd"):
        if devices.count > 1 and not devices.unknown:
            found += path_findings(devices, inventory) + switch_findings(devices, inventory)
        if devices.count > 1:
            found += _shared_memory(inventory)
        found += rdma_findings(devices, inventory, needs)
    if devices.kind == "amd" and devices.used:
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


def _signs(inventory: HardwareInventory) -> list[Finding]:
    """Lines of logs that mean one thing whatever the machine is."""
    found = []
    if lost := inventory.sign("gpu-lost"):
        found.append(
            finding("gpu-fell-off-bus", "certain", "a GPU dropped off the PCI bus", "kernel log", lost.text,
                    ["check its power, heat and seat; a reboot brings it back for a while"])
        )  # fmt: skip
    if fault := inventory.sign("gpu-fault"):
        found.append(
            finding("gpu-fault", "likely", "a GPU reports hardware errors (Xid)", "kernel log", fault.text,
                    ["leave this GPU out and look its Xid up in NVIDIA's list; memory errors want a reset or a new card"])
        )  # fmt: skip
    if mismatch := inventory.sign("driver-mismatch"):
        found.append(
            finding("driver-mismatch", "certain", "the driver in the kernel is another version than its libraries", "nvidia-smi",
                    mismatch.text, ["reboot, or reload the driver's modules; in a container update the host's driver"])
        )  # fmt: skip
    if differ := inventory.sign("machines-differ"):
        found.append(
            finding("mixed-gpus", "certain", "the machines have different GPUs: every step waits for the slowest", "text",
                    differ.text, ["train on the faster machine alone where the model fits", "else accept the slower pace"])
        )  # fmt: skip
    broken = [device for device in inventory.accelerators if device.ecc_errors]
    if broken:
        words = ", ".join(f"GPU {device.index}: {device.ecc_errors} uncorrected" for device in broken)
        found.append(
            finding("gpu-fault", "likely", "uncorrected memory errors on a GPU", "ECC counters", words,
                    ["reset the GPU (nvidia-smi -r) while it is idle; replace it if they come back"])
        )  # fmt: skip
    return found


def _driver(inventory: HardwareInventory) -> list[Finding]:
    driver, build = inventory.software.drivers.get("nvidia"), inventory.software.torch
    newest = inventory.software.drivers.get("cuda")
    # without a torch here, the wheels that pip gives now are CUDA 12 at least
    built = version_numbers(build.cuda) if build else None
    major = built[0] if built else 12
    oldest = _OLDEST_DRIVER.get(major)
    have = version_numbers(driver)
    if oldest is None:
        return []
    if have is None:  # the CUDA version that nvidia-smi prints is the newest one its driver runs
        too_old = newest is not None and newest.split(".")[0].isdigit() and int(newest.split(".")[0]) < major
        driver = f"for CUDA {newest}"
    else:
        too_old = have < (oldest if len((driver or "").split(".")) > 1 else oldest[:1])
    if not too_old:
        return []
    return [
        finding(
            "driver-too-old",
            "likely",
            f"driver {driver} is older than CUDA {major} needs ({oldest[0]}.{oldest[1]})",
            "NVML",
            f"driver {driver}" + (f", torch for CUDA {build.cuda}" if build and build.cuda else ""),
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


def _no_bf16(devices: Devices) -> list[Finding]:
    old = [device for device in devices.used if device.capability is not None and device.capability < (8, 0)]
    if not old:
        return []
    names = ", ".join(dict.fromkeys(short_name(device) for device in old))
    words = ", ".join(f"GPU {device.index}: compute capability {device.compute_capability}" for device in old[:8])
    return [
        finding(
            "no-bf16",
            "certain",
            f"{names} has no bf16 units: torch emulates or refuses it",
            "compute capability",
            words,
            ["leave training.precision to auto; with fp16 watch the loss of models that were trained in bf16"],
        )
    ]


def _waiting(devices: Devices) -> list[Finding]:
    """A collective that never ends spins in its kernel: fully busy, at a fraction of the power of computing."""
    waiting = [
        device
        for device in devices.used
        if device.utilization is not None
        and device.utilization >= _BUSY
        and device.power_watts
        and device.power_limit_watts
        and device.power_watts < device.power_limit_watts * _LOW_POWER
    ]
    if not waiting:
        return []
    words = ", ".join(
        f"GPU {device.index}: {device.utilization} % busy at {device.power_watts:g} of {device.power_limit_watts:g} W"
        for device in waiting
    )
    return [
        finding(
            "busy-at-low-power",
            "likely",
            f"{count_of(len(waiting), 'GPU')} busy without computing: something waits in a collective that does not end",
            "nvidia-smi",
            words,
            ["find the hung run (py-spy dump --pid PID) and stop it before starting another"],
        )
    ]


def _wsl(inventory: HardwareInventory) -> list[Finding]:
    if not inventory.platform.wsl:
        return []
    nccl = nccl_version(inventory)
    if nccl is not None and nccl < _WSL_NCCL:
        return [
            finding("wsl2-nccl-too-old", "certain", "this NCCL cannot read the PCI tree of WSL2", "packages",
                    f"NCCL {'.'.join(map(str, nccl))}", ["install a torch with NCCL 2.11 or newer"])
        ]  # fmt: skip
    return [
        finding(
            "wsl2-multi-gpu-shm",
            "possible",
            "several GPUs under WSL2: NCCL sometimes cannot make its shared memory there",
            "platform",
            "WSL2",
            ["if it fails, set distributed.env.NCCL_P2P_DISABLE or train on one GPU"],
        )
    ]


def _shared_memory(inventory: HardwareInventory) -> list[Finding]:
    size, full = inventory.memory.shm_total_bytes, inventory.sign("shm-full")
    if not full and (size is None or size >= _SMALL_SHM):
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
            f"/dev/shm holds {size / 2**20:,.0f} MiB; NCCL needs room there for several GPUs"
            if size is not None
            else "NCCL finds no room in /dev/shm for its segments",
            "log" if full else "/dev/shm",
            full.text if full else f"{size:,} bytes",
            [fix],
        )
    ]


def _amd(devices: Devices, inventory: HardwareInventory) -> list[Finding]:
    found = []
    names = " ".join(device.name or "" for device in devices.used)
    if "MI250" in names or (not names.strip() and all(device.architecture == "gfx90a" for device in devices.used)):
        found.append(
            finding(
                "two-devices-per-card",
                "certain" if "MI250" in names else "likely",
                "each card is two devices, and each takes a rank",
                "inventory",
                f"{devices.count} devices: {devices.words()}",
                ["nothing to set; judge links by weight or bandwidth, not by hops"],
            )
        )
    iommu = inventory.platform.iommu
    if iommu in ("on", "default") and devices.count > 1 and not inventory.platform.virtual:
        found.append(
            finding(
                "rccl-iommu-pt-missing",
                "possible",
                "the kernel was not started with iommu=pt, without which AMD GPUs can hang in a collective",
                "/proc/cmdline",
                f"iommu: {iommu}",
                ["add iommu=pt to the kernel command line if a run hangs"],
            )
        )
    return found
