"""The library that carries gradients between ranks."""

from __future__ import annotations

from engine.contract.findings import Decision
from wizard.advice.devices import Devices, used_links
from wizard.advice.reasons import asked, kept, other
from wizard.hardware.inventory import HardwareInventory
from wizard.questions.needs import TrainingNeeds

#: What torch calls the collective library of each kind of device. RCCL goes by the name nccl.
NATIVE = {"nvidia": "nccl", "amd": "nccl", "intel": "xccl", "ascend": "hccl", "habana": "hccl", "cpu": "gloo"}
NAMES = {"nccl": "NCCL", "gloo": "Gloo", "xccl": "XCCL", "hccl": "HCCL", "none": "no backend"}


def decide_backend(devices: Devices, world: int, inventory: HardwareInventory, needs: TrainingNeeds) -> Decision:
    """`world`: ranks over all nodes."""
    if asked(needs.backend):
        return kept(needs.backend, _about(needs.backend, devices, world))
    if devices.unknown:
        library = "RCCL, which torch calls nccl," if devices.kind == "amd" else "NCCL"
        return Decision(
            value="nccl",
            reason=f"{library} for GPUs, which the text speaks of without saying how many",
            confidence="fair",
            alternative=other("gloo", "the machines have no GPU; `none` where one GPU trains alone"),
        )
    if world == 1 and not (asked(needs.strategy) and needs.strategy != "single"):
        where = devices.words()
        return Decision(
            value="none",
            reason=f"one process on {where} has nobody to talk to",
            confidence="high",
            alternative=other(NATIVE.get(devices.kind, "gloo"), "more processes or machines join"),
        )
    windows = inventory.platform.system == "windows"
    if devices.kind == "cpu" or windows:
        reason = (
            "NCCL does not exist for native Windows; Gloo works there, through host memory"
            if windows and devices.count
            else "Gloo is the library for training between CPUs"
        )
        return Decision(value="gloo", reason=reason, confidence="high")
    if devices.kind == "apple":
        return Decision(
            value="gloo",
            confidence="fair",
            reason="Apple GPUs have no communication library; several Macs can only join over Gloo on their CPUs",
        )
    if devices.kind == "amd":
        return Decision(
            value="nccl",
            reason=f"RCCL joins {devices.words()}; torch calls it nccl",
            confidence="high",
            facts=path_facts(devices, inventory),
            alternative=other("gloo", "RCCL hangs and its cause is not found yet (far slower)"),
        )
    if devices.kind == "intel":
        return Decision(value="xccl", reason=f"XCCL is the library for {devices.words()}", confidence="fair")
    if devices.kind in ("ascend", "habana"):
        return Decision(value="hccl", reason=f"HCCL is the library for {devices.words()}", confidence="fair")
    return Decision(
        value="nccl",
        reason=_why_nccl(devices, inventory, needs),
        confidence="high",
        facts=path_facts(devices, inventory),
        alternative=other("gloo", "NCCL hangs and its cause is not found yet (through host memory, far slower)"),
    )


def _why_nccl(devices: Devices, inventory: HardwareInventory, needs: TrainingNeeds) -> str:
    if needs.num_nodes > 1 and devices.count == 1:
        return f"one GPU on each of {needs.num_nodes} machines: NCCL moves their memory over the network directly"
    links = used_links(devices, inventory)
    nvlinks = [link.nvlinks for link in links]
    if links and all(nvlinks):
        kinds = "/".join(sorted({link.path for link in links}))
        return f"NVLink joins {devices.words()} ({kinds}), which only NCCL uses"
    if any(nvlinks):
        return f"NVLink joins some pairs of {devices.words()}; NCCL finds the best ring by itself"
    if links:
        kinds = "/".join(sorted({link.path for link in links}))
        if any(link.p2p is False for link in links):
            return f"{devices.words()} over PCIe ({kinds}), without direct access; NCCL still beats Gloo by far"
        return f"{devices.words()} over PCIe ({kinds}); NCCL moves GPU memory directly, Gloo copies it through the host"
    return f"NCCL moves the memory of {devices.words()} directly; Gloo would copy it through the host"


def path_facts(devices: Devices, inventory: HardwareInventory) -> list[str]:
    """The measured or listed way between each pair of used devices, for the record."""
    return [
        f"GPU {link.first} - GPU {link.second}: {link.path}" + (", no direct access" if link.p2p is False else "")
        for link in used_links(devices, inventory)
    ]


def _about(backend: str, devices: Devices, world: int) -> str:
    if backend == "none":
        return "one process needs none" if world == 1 else "but several processes need one"
    if backend == "gloo":
        return (
            "right for CPUs"
            if devices.kind == "cpu"
            else "on GPUs it copies everything through host memory, which is far slower"
        )
    return (
        f"{NAMES[backend]} runs on GPUs of its maker only"
        if devices.kind == "cpu"
        else f"the library of {devices.words()}"
    )
