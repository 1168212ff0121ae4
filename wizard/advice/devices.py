"""Which devices of a node to train on, and which to leave out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from engine.contract.findings import Decision, Finding
from engine.contract.flops import peak_flops_per_s
from wizard.advice.reasons import asked, count_of, finding, gib, kept, other, short_name
from wizard.advice.usable import usable_devices
from wizard.hardware.inventory import Accelerator, HardwareInventory, Slice
from wizard.questions.needs import TrainingNeeds


@dataclass(frozen=True)
class Devices:
    """What each node trains on. `used` is empty on a CPU; `asked_for` may exceed what is there."""

    kind: str  # cpu | nvidia | amd | apple | intel | ascend
    used: tuple[Accelerator, ...] = ()
    slice: Slice | None = None
    asked_for: int | None = None
    subset: bool = False

    @property
    def count(self) -> int:
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
        if not self.used:
            return "the CPU"
        if self.slice is not None:
            return f"one MIG slice of {short_name(self.used[0])}"
        names = list(dict.fromkeys(short_name(device) for device in self.used))
        return " and ".join(f"{sum(short_name(d) == name for d in self.used)} x {name}" for name in names)


def decide_devices(
    inventory: HardwareInventory, needs: TrainingNeeds, fits: Callable[[int], bool | None]
) -> tuple[Devices, Decision, list[Finding]]:
    """`fits(memory_bytes)`: whether one device of that size can hold the training alone (None: unknown)."""
    findings: list[Finding] = []
    usable = usable_devices(inventory, findings)
    wanted = needs.num_gpus_per_node
    if asked(wanted):
        return (*_as_asked(int(wanted), usable, inventory), findings)
    if not usable:
        reason = _why_cpu(inventory)
        return (
            Devices("cpu"),
            _decision("cpu", (), reason, "fair" if inventory.unknown.get("nvidia") else "high"),
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
    chosen, reason, alternative = _same_kind(whole, fits, findings)
    windows = inventory.platform.system == "windows"
    if windows and len(chosen) > 1:
        reason = f"native Windows has no NCCL, so one GPU of {len(chosen)}; under WSL2 all of them train"
        chosen, alternative = chosen[:1], other(len(chosen), "the training runs under WSL2")
    limit = _ranks_asked_for(needs)
    if limit is not None and limit < len(chosen):
        reason = f"{limit} of {len(chosen)}, as many as processes were asked for"
        chosen, alternative = chosen[:limit], other(len(chosen), "all GPUs may be used")
    devices = Devices(kind, tuple(chosen), subset=_must_be_named(chosen, inventory))
    return (
        devices,
        _decision(kind, chosen, reason, "high" if len({d.name for d in whole}) == 1 else "fair", alternative),
        findings,
    )


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
    rank = _ranking(whole)
    chosen = tuple(sorted(whole, key=rank, reverse=True)[:wanted])
    chosen = tuple(sorted(chosen, key=lambda device: device.index))
    kind = chosen[0].vendor if chosen else "nvidia"
    devices = Devices(kind, chosen, asked_for=wanted, subset=_must_be_named(chosen, inventory))
    there = f"{len(usable)} usable here" if len(usable) >= wanted else f"only {len(usable)} usable on this machine"
    return devices, kept({"accelerator": kind, "count": wanted, "indices": [device.index for device in chosen]}, there)


def _must_be_named(chosen, inventory: HardwareInventory) -> bool:
    """Whether ranks would take other devices than the chosen ones if nothing told them: they take the first n."""
    visible = [device for device in inventory.accelerators if device.visible]
    if not chosen or len(chosen) == len(visible):
        return False
    alike = len({device.name for device in visible}) == 1 and not any(device.mig for device in visible)
    return not alike or list(chosen) != visible[: len(chosen)]


def _same_kind(whole: list[Accelerator], fits: Callable[[int], bool | None], findings: list[Finding]):
    """(devices, reason, alternative): all of them, or the faster ones where slower ones would set the pace."""
    names = list(dict.fromkeys(device.name for device in whole))
    memory = min((device.memory_bytes or 0) for device in whole)
    if len(names) == 1:
        size = f" with {gib(memory)} GiB" + (" each" if len(whole) > 1 else "") if memory else ""
        return whole, f"{len(whole)} x {short_name(whole[0])}{size}", None
    groups = [[device for device in whole if device.name == name] for name in names]
    rank = _ranking(whole)
    best = max(groups, key=lambda group: (rank(group[0]), len(group)))
    slower = [device for device in whole if device not in best]
    findings.append(
        finding(
            "mixed-gpus",
            "certain",
            "different GPUs: every step waits for the slowest",
            "inventory",
            ", ".join(f"GPU {device.index}: {short_name(device)}" for device in whole),
            [
                "train on the faster kind alone where the model fits",
                "else give all the same micro-batch and accept the slower pace",
            ],
        )
    )
    enough = fits(best[0].memory_bytes or 0)
    if enough is not False and _faster_alone(best, whole):
        reason = (
            f"{len(best)} x {short_name(best[0])} alone: with "
            f"{', '.join(sorted({short_name(d) for d in slower}))} beside it every step "
            f"would wait for the slower card" + ("" if enough else " (whether the model fits is not known)")
        )
        return best, reason, other(len(whole), "the model does not fit on the faster kind alone")
    reason = f"all {len(whole)}, though they differ: " + (
        "the model does not fit on the faster kind alone"
        if enough is False
        else "together they are faster than the best kind alone"
    )
    return (
        whole,
        reason,
        other([device.index for device in best], "the model fits there and the slower cards hold it back"),
    )


def _faster_alone(best: list[Accelerator], everyone: list[Accelerator]) -> bool:
    """All together run at n times the slowest; unknown speeds count as: the newest kind alone."""
    speeds = [peak_flops_per_s(device.name, "bf16") or peak_flops_per_s(device.name, "fp16") for device in everyone]
    if None in speeds:
        return len(best) * 2 >= len(everyone)
    mine = peak_flops_per_s(best[0].name, "bf16") or peak_flops_per_s(best[0].name, "fp16")
    return len(best) * mine >= min(speeds) * len(everyone)


def _ranking(devices: list[Accelerator]) -> Callable[[Accelerator], tuple]:
    """A sort key for strength: the makers' peaks where all are known, else the generation; then memory."""
    all_known = all(peak_flops_per_s(device.name, "fp16") for device in devices)

    def key(device: Accelerator) -> tuple:
        first = (peak_flops_per_s(device.name, "fp16"),) if all_known else device.capability or (0, 0)
        return (first, device.memory_bytes or 0)

    return key


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
        alternative=other("the whole GPU", "MIG mode is turned off"),
    )


def _mig_finding(devices: list[Accelerator]) -> Finding:
    return finding(
        "mig-multi-instance",
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
        return f"none of the {gpus} can be used here; {count_of(cores, 'core')} of the CPU can"
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
