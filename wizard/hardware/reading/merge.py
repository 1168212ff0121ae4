"""Facts from all readers as one inventory. What a tool printed stands before what a person described."""

from __future__ import annotations

import re
from typing import Any

from wizard.hardware.inventory import (
    Accelerator,
    Cpu,
    HardwareInventory,
    Interface,
    Memory,
    Network,
    NicLink,
    NumaNode,
    Platform,
    RdmaPort,
    Route,
    Sign,
    Slice,
    Software,
    TorchBuild,
)
from wizard.hardware.models import cut_off_capability, known_model, memory_bytes
from wizard.hardware.network import interface_kind
from wizard.hardware.nvidia import hide_devices
from wizard.hardware.reading.devices import (
    count_devices,
    differing_machines,
    groups_of,
    is_cpu_only,
    join_devices,
    name_devices,
)
from wizard.hardware.reading.lines import Fact


class Facts:
    """The first fact of every place, in the order the readers were asked; groups are kept all."""

    def __init__(self, facts: list[Fact]):
        self.all = facts
        self.first: dict[tuple, Fact] = {}
        for fact in facts:
            self.first.setdefault(fact.place, fact)

    def value(self, *place: Any) -> Any:
        fact = self.first.get(place)
        return fact.value if fact else None

    def fields(self, *start: Any) -> dict[str, Any]:
        """Values of all places one step below `start`."""
        size = len(start)
        return {
            place[size]: fact.value
            for place, fact in self.first.items()
            if len(place) == size + 1 and place[:size] == start
        }

    def keys(self, kind: str, width: int = 1) -> list[tuple]:
        """What comes after `kind`, `width` parts of it, without repetition and in order."""
        found = {place[1 : 1 + width]: None for place in self.first if place[0] == kind and len(place) > width}
        return list(found)


def merge(facts_read: list[Fact]) -> HardwareInventory:
    facts = Facts(facts_read)
    unknown: dict[str, str] = {}
    accelerators = _accelerators(facts, unknown)
    hide_devices(accelerators, facts.value("env", "CUDA_VISIBLE_DEVICES"))
    signs = [Sign(kind=place[1], text=str(fact.line)) for place, fact in facts.first.items() if place[0] == "sign"]
    if differing_machines(facts):
        kinds = ", ".join(f"{group.count or 1} x {group.name}" for group, _ in groups_of(facts))
        signs.append(Sign(kind="machines-differ", text=kinds))
    if accelerators and facts.value("cpu_only"):
        signs.append(Sign(kind="mixed-cpu-gpu", text=str(facts.first["cpu_only",].line)))
    links = join_devices(facts, accelerators, unknown)
    inventory = HardwareInventory(
        platform=_platform(facts),
        cpu=_cpu(facts, unknown),
        memory=_memory(facts, unknown),
        accelerators=accelerators,
        links=links,
        nic_links=[
            NicLink(gpu=gpu, nic=card, path=facts.value("nic", gpu, card)) for gpu, card in facts.keys("nic", 2)
        ],
        network=_network(facts, unknown),
        software=_software(facts, unknown),
        environment=facts.fields("env"),
        signs=signs,
        unknown=unknown,
        evidence={".".join(str(part) for part in place): str(fact.line) for place, fact in facts.first.items()},
    )
    if not accelerators and not is_cpu_only(facts):
        inventory.unknown["accelerators"] = "the text names no GPU"
    inventory.unknown.setdefault("text", "read from pasted text: what it does not mention is not known")
    return inventory


def _accelerators(facts: Facts, unknown: dict[str, str]) -> list[Accelerator]:
    devices: dict[int, Accelerator] = {}
    for (index,) in sorted(facts.keys("gpu")):
        devices[index] = _numbered(index, facts.fields("gpu", index))
    count_devices(facts, devices, unknown)
    ordered = [devices[index] for index in sorted(devices)]
    name_devices(facts, ordered, unknown)
    for (index,) in facts.keys("gpu_width"):
        if index < len(ordered) and ordered[index].pcie_width is None:
            ordered[index].pcie_width, ordered[index].pcie_max_width = facts.value("gpu_width", index), 16
    for device in ordered:
        _from_model(device)
        device.fabric = device.fabric or facts.value("fabric_manager")
    mig = facts.first.get(("mig",))
    if mig and ordered and not any(device.mig for device in ordered):
        for device in ordered:
            device.mig = True
            if mig.value:
                device.slices = [Slice(uuid=f"MIG-{device.index}", memory_bytes=mig.value)]
        unknown["mig.uuid"] = "`nvidia-smi -L` prints the UUIDs of the slices"
    if any(device.mig and not all(part.uuid.startswith("MIG-") and len(part.uuid) > 12 for part in device.slices) for device in ordered):
        unknown["mig.uuid"] = "`nvidia-smi -L` prints the UUIDs of the slices"
    return ordered


def _numbered(index: int, fields: dict[str, Any]) -> Accelerator:
    known = {name: value for name, value in fields.items() if name in Accelerator.model_fields and value is not None}
    processes = [size for name, size in fields.items() if name.startswith("process.")]
    slices = [
        Slice(
            uuid=value.get("uuid") or f"MIG-{index}/{'/'.join(name.split('.')[1:])}",
            name=value.get("name"),
            memory_bytes=value.get("memory_bytes"),
        )
        for name, value in fields.items()
        if name.startswith("slice.")
    ]
    listed = [part for part in slices if part.name]  # -L and the table describe the same slices
    known["vendor"] = known.get("vendor") or _vendor(known)
    device = Accelerator(**{**known, "index": index, "slices": listed or slices})
    if processes:
        device.processes = len(processes)
        if device.memory_bytes and device.free_bytes is None:
            device.free_bytes = max(0, device.memory_bytes - sum(processes))
    return device


def _vendor(fields: dict[str, Any]) -> str:
    model = known_model(fields.get("name"))
    return model.vendor if model else "nvidia"


def _from_model(device: Accelerator) -> None:
    """What the name alone tells; what was printed stays."""
    model = known_model(device.name)
    if model is None:
        device.compute_capability = device.compute_capability or cut_off_capability(device.name)
        return
    device.vendor = model.vendor
    device.compute_capability = device.compute_capability or model.capability
    device.architecture = device.architecture or model.architecture
    device.memory_bytes = device.memory_bytes or memory_bytes(model, device.name or "")


def _platform(facts: Facts) -> Platform:
    fields = facts.fields("platform")
    if "system" not in fields:
        fields["system"] = "linux" if facts.first else "other"
    if isinstance(fields.get("wsl"), int):
        fields["system"] = "linux"
    return Platform(**fields)


def _cpu(facts: Facts, unknown: dict[str, str]) -> Cpu:
    fields = facts.fields("cpu")
    nodes = {name.split(".")[1]: value for name, value in fields.items() if name.startswith("numa.")}
    known = {name: value for name, value in fields.items() if name in Cpu.model_fields}
    cpu = Cpu(**known)
    cpu.numa = [NumaNode(id=int(node), cpus=cpus) for node, cpus in sorted(nodes.items()) if node.lstrip("-").isdigit()]
    if not cpu.numa and fields.get("numa_count"):
        cpu.numa = [NumaNode(id=node) for node in range(fields["numa_count"])]
    if not cpu.numa:
        seen = {value for name, value in ((p, f.value) for p, f in facts.first.items()) if name[0] == "gpu" and name[-1] == "numa_node"}
        cpu.numa = [NumaNode(id=node) for node in sorted(seen)]
    if cpu.physical_cores is None and cpu.logical_cores is None:
        unknown["cpu.cores"] = "the text does not say how many"
    if cpu.model is None:
        unknown["cpu.model"] = "not in the text"
    return cpu


def _memory(facts: Facts, unknown: dict[str, str]) -> Memory:
    memory = Memory(**facts.fields("memory"))
    if memory.total_bytes is None:
        unknown["memory"] = "not in the text"
    if memory.shm_total_bytes is None:
        unknown["memory.shm"] = "`df -h /dev/shm` prints it"
    return memory


def _network(facts: Facts, unknown: dict[str, str]) -> Network:
    interfaces = []
    for (name,) in facts.keys("interface"):
        fields = facts.fields("interface", name)
        addresses = [value for key, value in fields.items() if key.startswith("address.")]
        known = {key: value for key, value in fields.items() if key in Interface.model_fields}
        known.setdefault("up", True)
        interfaces.append(Interface(name=name, addresses=addresses, kind=interface_kind(name, addresses), **known))
    opened = facts.value("rdma_opened")
    ports = []
    for device, port in facts.keys("rdma", 2):
        fields = {key: value for key, value in facts.fields("rdma", device, port).items() if key in RdmaPort.model_fields}
        ports.append(RdmaPort(device=device, port=port, opened=opened, **fields))
    routes = [Route(network=network, interface=facts.value("route", network)) for (network,) in facts.keys("route")]
    default = facts.value("route", "0.0.0.0/0")
    if not interfaces:
        unknown["network.interfaces"] = "`ip addr` prints them"
    elif default is None:
        unknown["network.default_interface"] = "`ip route` prints it"
    words = facts.fields("network")
    return Network(interfaces=interfaces, rdma=ports, routes=routes, default_interface=default, **words)


def _software(facts: Facts, unknown: dict[str, str]) -> Software:
    fields, packages = facts.fields("torch"), facts.fields("package")
    version = fields.get("version") or packages.get("torch")
    build = None
    said = fields.get("built") or fields.get("cuda") or fields.get("hip") or fields.get("xpu")
    if said:
        names = {name: value for name, value in fields.items() if name in ("cuda", "hip", "xpu")}
        build = TorchBuild(version=version, **names)
    else:
        unknown["software.torch"] = "the text does not say which build of torch" + (f" {version} is" if version else "")
    if version:
        packages.setdefault("torch", re.split(r"\+", version)[0])
    drivers = facts.fields("driver")
    if "nvidia" not in drivers:
        unknown["driver"] = "not in the text"
    return Software(python=facts.value("python"), packages=packages, torch=build, drivers=drivers)
