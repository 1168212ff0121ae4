"""Which devices of a node to train on, and which to leave out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from engine.contract.findings import Decision, Finding
from wizard.advice.reasons import asked, count_of, finding, gib, kept, other, short_name
from wizard.advice.selection import best_connected, ranking, same_kind, without_display, without_taken
from wizard.advice.usable import usable_devices
from wizard.hardware.inventory import Accelerator, HardwareInventory, Link, Slice
from wizard.questions.needs import TrainingNeeds


@dataclass(frozen=True)
class Devices:
    """What each node trains on. `used` is empty on a CPU; `asked_for` may exceed what is there."""

    kind: str  # cpu | nvidia | amd | apple | intel | ascend
    used: tuple[Accelerator, ...] = ()
    slice: Slice | None = None
    asked_for: int | None = None
    subset: bool = False
    #: GPUs are there, but a text does not say how many: planned for as two, told as all.
    unknown: bool = False

    @property
    def count(self) -> int:
        if self.unknown:
            return 2
        return self.asked_for if self.asked_for is not None else len(self.used)

    @property
    def memory_bytes(self) -> int | None:
        """Memory of the smallest device; None where unknown, and on a CPU."""
        if self.slice is not None:
            return self.slice.memory_bytes
        sizes = [device.memory_bytes for device in self.used]
        return min(sizes) if sizes and None not in sizes else None

    @property
    def free_bytes(self) -> int | None:
        if self.slice is not None:
            return self.slice.memory_bytes
        sizes = [device.free_bytes if device.free_bytes is not None else device.memory_bytes for device in self.used]
        return min(sizes) if sizes and None not in sizes else None

    def words(self) -> str:
        """`4 x A100 80GB`, or the CPU."""
        if self.unknown:
            return "all GPUs"
        if not self.used:
            return "the CPU"
        if self.slice is not None:
            return f"one MIG slice of {short_name(self.used[0])}"
        names = list(dict.fromkeys(short_name(device) for device in self.used))
        return " and ".join(f"{sum(short_name(d) == name for d in self.used)} x {name}" for name in names)


def used_links(devices: Devices, inventory: HardwareInventory) -> list[Link]:
    """Links between two devices that are both in use."""
    indices = {device.index for device in devices.used}
    return [link for link in inventory.links if link.first in indices and link.second in indices]


def decide_devices(
    inventory: HardwareInventory, needs: TrainingNeeds, fits: Callable[[int], bool | None]
) -> tuple[Devices, Decision, list[Finding]]:
    """`fits(memory_bytes)`: whether one device of that size can hold the training alone (None: unknown)."""
    findings: list[Finding] = []
    usable = usable_devices(inventory, findings)
    wanted = needs.num_gpus_per_node
    if asked(wanted):
        return (*_as_asked(int(wanted), usable, inventory), findings)
    if not usable and (vendor := _spoken_of(inventory)):
        return Devices(vendor, unknown=True), _all_of_them(inventory), findings
    if not usable:
        reason = _why_cpu(inventory)
        return (
            Devices("cpu"),
            _decision("cpu", (), reason, "fair" if {"nvidia", "accelerators"} & inventory.unknown.keys() else "high"),
            findings,
        )
    kind = usable[0].vendor
    if kind == "apple":
        return (*_apple(usable[0], needs), findings)
    whole = [device for device in usable if not device.mig]
    if not whole:
        return (*_one_slice(usable, findings), findings)
    if len(whole) < len(usable):
        findings.append(_mig_finding([device for device in usable if device.mig]))
    chosen, reason, alternative = same_kind(whole, fits, findings)
    chosen, reason, alternative = without_display(chosen, reason, alternative)
    everyone = chosen
    chosen, reason, alternative = without_taken(chosen, reason, alternative)
    if len(chosen) < len(everyone):
        findings += _taken([device for device in everyone if device not in chosen])
    windows = inventory.platform.system == "windows"
    if windows and len(chosen) > 1:
        reason = f"native Windows has no NCCL, so one GPU of {len(chosen)}; under WSL2 all of them train"
        chosen, alternative = chosen[:1], other(len(chosen), "the training runs under WSL2")
    limit = _ranks_asked_for(needs)
    if limit is not None and limit < len(chosen):
        everyone = len(chosen)
        chosen, why = best_connected(chosen, limit, inventory)
        reason = f"{limit} of {everyone}, as many as processes were asked for{why}"
        alternative = other(everyone, "all GPUs may be used")
    devices = Devices(kind, tuple(chosen), subset=_must_be_named(chosen, inventory))
    return (
        devices,
        _decision(kind, chosen, reason, _sure(whole, inventory), alternative),
        findings,
    )


def _sure(whole: list[Accelerator], inventory: HardwareInventory) -> str:
    if "accelerators.count" in inventory.unknown:
        return "low"
    return "high" if len({device.name for device in whole}) == 1 else "fair"


def _ranks_asked_for(needs: TrainingNeeds) -> int | None:
    """Ranks per node that follow from what was set, None where it is open: each GPU takes exactly one."""
    if asked(needs.num_processes_per_node):
        return int(needs.num_processes_per_node)
    return 1 if needs.strategy == "single" or needs.backend == "none" else None


def _apple(device: Accelerator, needs: TrainingNeeds) -> tuple[Devices, Decision]:
    if needs.num_nodes > 1 or (_ranks_asked_for(needs) or 1) > 1:
        reason = "several processes can only join on the CPU: Apple GPUs have no communication library"
        return Devices("cpu"), _decision("cpu", (), reason, "fair")
    decision = _decision("apple", (device,), "one Apple GPU (MPS), which shares the main memory")
    return Devices("apple", (device,)), decision


def _as_asked(wanted: int, usable: list[Accelerator], inventory: HardwareInventory) -> tuple[Devices, Decision]:
    if wanted == 0:
        seen = len(inventory.accelerators)
        why = f"{count_of(seen, 'GPU')} stay unused" if seen else "this machine has no GPU"
        return Devices("cpu"), kept({"accelerator": "cpu", "count": 0, "indices": []}, why)
    whole = [device for device in usable if not device.mig] or usable
    strongest = sorted(whole, key=ranking(whole), reverse=True)
    alike = [device for device in strongest if device.name == strongest[0].name] if strongest else []
    connected, why = best_connected(alike if len(alike) >= wanted else strongest[:wanted], wanted, inventory)
    chosen = tuple(connected)
    kind = chosen[0].vendor if chosen else "nvidia"
    devices = Devices(kind, chosen, asked_for=wanted, subset=_must_be_named(chosen, inventory))
    there = f"{len(usable)} usable here" if len(usable) >= wanted else f"only {len(usable)} usable on this machine"
    indices = [device.index for device in chosen]
    return devices, kept({"accelerator": kind, "count": wanted, "indices": indices}, there + why)


def _must_be_named(chosen, inventory: HardwareInventory) -> bool:
    """Whether ranks would take other devices than the chosen ones if nothing told them: they take the first n."""
    visible = [device for device in inventory.accelerators if device.visible]
    if not chosen or len(chosen) == len(visible):
        return False
    alike = len({device.name for device in visible}) == 1 and not any(device.mig for device in visible)
    return not alike or list(chosen) != visible[: len(chosen)]


def _taken(devices: list[Accelerator]) -> list[Finding]:
    words = ", ".join(
        f"GPU {device.index}: {gib(device.free_bytes or 0)} of {gib(device.memory_bytes or 0)} GiB free" for device in devices
    )
    return [
        finding("gpu-in-use", "certain", f"{count_of(len(devices), 'GPU')} taken by other processes and left out", "NVML", words,
                ["stop what runs there to train on all"])
    ]  # fmt: skip


def _spoken_of(inventory: HardwareInventory) -> str | None:
    """The maker of GPUs that a text speaks of (links, ports, variables of theirs) without naming one."""
    if not inventory.from_text or "accelerators" not in inventory.unknown:
        return None
    if inventory.sign("amd-gpus"):
        return "amd"
    rdma = inventory.network.rdma or inventory.network.fabric in ("infiniband", "roce", "efa")
    return "nvidia" if rdma or inventory.sign("nvidia-gpus") else None


def _all_of_them(inventory: HardwareInventory) -> Decision:
    ports = ", ".join(f"{port.device}: {port.link_layer or 'link unknown'}" for port in inventory.network.rdma)
    return Decision(
        value={"accelerator": "unknown", "count": None, "which": "all", "indices": []},
        reason="all GPUs of each machine, one process for each: the text speaks of GPU communication but lists none",
        confidence="low",
        facts=[ports] if ports else [],
        alternative=other("the CPU", "the machines have no GPU"),
    )


def _one_slice(usable: list[Accelerator], findings: list[Finding]) -> tuple[Devices, Decision]:
    findings.append(_mig_finding(usable))
    parts = [(part, device) for device in usable for part in device.slices]
    part, device = max(parts, key=lambda pair: pair[0].memory_bytes or 0) if parts else (None, usable[0])
    devices = Devices(device.vendor, (device,), slice=part, subset=True)
    size = f" of {gib(part.memory_bytes)} GiB" if part and part.memory_bytes else ""
    return devices, _decision(
        device.vendor,
        (device,),
        f"one MIG slice{size}, the largest: slices do not talk to each other",
        "high" if part and "/" not in part.uuid else "fair",
        alternative=other("the whole GPU", "MIG mode is turned off"),
    )


def _mig_finding(devices: list[Accelerator]) -> Finding:
    return finding(
        "mig",
        "certain",
        "MIG is on: a process sees one slice, and slices do not communicate",
        "NVML",
        ", ".join(f"GPU {device.index}: MIG on" for device in devices),
        [
            "train on one slice or on the whole GPUs only",
            "or turn MIG off (nvidia-smi -mig 0, needs root and an idle GPU)",
        ],
    )


def _why_cpu(inventory: HardwareInventory) -> str:
    cores = inventory.cpu.usable_cores
    if inventory.accelerators:
        gpus = count_of(len(inventory.accelerators), "GPU")
        known = inventory.cpu.physical_cores or inventory.cpu.logical_cores
        rest = f"{count_of(cores, 'core')} of the CPU can" if known else "the CPU can"
        return f"none of the {gpus} can be used here; {rest}"
    if "accelerators" in inventory.unknown:
        return "the text names no GPU, so the CPU is planned with"
    broken = inventory.unknown.get("nvidia") or inventory.unknown.get("amd") or inventory.unknown.get("intel")
    return (
        f"no GPU answers ({broken}); {count_of(cores, 'core')} of the CPU"
        if broken
        else f"no GPU on this machine; {count_of(cores, 'core')} to compute with"
    )


def _decision(kind: str, devices, reason: str, confidence: str = "high", alternative=None) -> Decision:
    return Decision(
        value={"accelerator": kind, "count": len(devices), "indices": [device.index for device in devices]},
        reason=reason,
        confidence=confidence,
        alternative=alternative,
        facts=[f"GPU {device.index}: {device.name or device.architecture or 'name unknown'}" for device in devices],
    )
