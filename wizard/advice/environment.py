"""Environment variables: each with its reason, none by superstition; what is already set is left as it is."""

from __future__ import annotations

from engine.contract.findings import Decision
from wizard.advice.devices import Devices, used_links
from wizard.advice.rdma import active_ports, is_roce
from wizard.advice.versions import nccl_version, version_numbers
from wizard.hardware.inventory import HardwareInventory
from wizard.hardware.models import known_model
from wizard.questions.needs import TrainingNeeds

#: What the launcher sets by itself on every machine, from keys of the preset: shown here, not copied into the preset.
BY_LAUNCHER = ("OMP_NUM_THREADS", "GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")
_VISIBLE = {
    "nvidia": "CUDA_VISIBLE_DEVICES",
    "amd": "HIP_VISIBLE_DEVICES",
    "intel": "ZE_AFFINITY_MASK",
    "ascend": "ASCEND_RT_VISIBLE_DEVICES",
    "habana": "HABANA_VISIBLE_DEVICES",
}
#: From this NCCL on the GID of a RoCE port is chosen by its address family and version. Source: NCCL 2.21 notes.
_CHOOSES_GID = (2, 21)
#: Drivers before this one offer direct access between RTX 40 cards that then delivers wrong data or hangs. Source:
#: NVIDIA's driver notes, and accelerate's own rule for these cards.
_RTX40_FIXED = (550, 40)

Wanted = dict[str, tuple[str, str]]


def decide_env(
    devices: Devices,
    inventory: HardwareInventory,
    needs: TrainingNeeds,
    processes: int,
    threads: int | None,
    backend: str,
    interface: str | None,
) -> Decision:
    """The person's own variables win, those of the preset and those of the machine; reasons are in `facts`."""
    wanted: Wanted = _visible(devices) | _threads(devices, processes, threads, inventory)
    if needs.num_nodes > 1 and interface:
        if backend in ("nccl", "hccl"):
            wanted["NCCL_SOCKET_IFNAME"] = (
                f"={interface}",
                "the interface that leads to the other machines; `=` means this name exactly",
            )
        wanted["GLOO_SOCKET_IFNAME"] = (interface, "the interface that leads to the other machines")
    if backend == "nccl":
        wanted |= _direct_access(devices, inventory) | _ports(inventory, needs) | _multicast(inventory)
    mine = {name: text for name, text in inventory.environment.items() if name in wanted and name not in needs.env}
    kept = {name: mine[name] for name in mine if name not in BY_LAUNCHER}
    value = {name: text for name, (text, _) in wanted.items() if name not in kept} | needs.env
    facts = [f"{name}: {why}" for name, (_, why) in wanted.items() if name not in needs.env and name not in kept]
    facts += [f"{name}: as set" for name in needs.env]
    facts += [f"{name}={text} is set on the machine and stays" for name, text in kept.items()]
    reason = "; ".join(facts) if facts else "nothing: the libraries' own choices are right here"
    if len(reason) > 240:
        reason = ", ".join(sorted(value)) + ": each for a reason listed with it"
    return Decision(value=value, reason=reason, confidence="high", facts=facts)


def _visible(devices: Devices) -> Wanted:
    if not (devices.subset and devices.used and devices.kind in _VISIBLE):
        return {}
    name = _VISIBLE[devices.kind]
    if devices.slice is not None:
        uuid = devices.slice.uuid
        if "/" in uuid or len(uuid) < 6:  # a table of processes numbers slices without naming them
            return {name: ("MIG-<uuid>", "a MIG slice is chosen by its UUID, which nvidia-smi -L prints")}
        return {name: (uuid, "a MIG slice is chosen by its UUID")}
    # an index means another device once CUDA sorts by speed; the UUID means the same one always
    by_uuid = devices.kind == "nvidia" and all(device.uuid for device in devices.used)
    chosen = ",".join(device.uuid if by_uuid else str(device.index) for device in devices.used)
    return {name: (chosen, "only the chosen devices are used")}


def _threads(devices: Devices, processes: int, threads: int | None, inventory: HardwareInventory) -> Wanted:
    if not (processes > 1 or devices.kind == "cpu") or devices.unknown:
        return {}
    if inventory.from_text and inventory.cpu.physical_cores is None and inventory.cpu.logical_cores is None:
        if devices.kind != "cpu":
            return {}
        why = "each rank its share of the cores; without it the launcher gives each rank one thread"
        share = f"<physical cores / {processes}>" if processes > 1 else "<physical cores>"
        return {"OMP_NUM_THREADS": (share, why)}
    why = (
        "without it the launcher gives each rank one thread"
        if processes > 1
        else "the usable cores, not those of the whole machine"
    )
    return {"OMP_NUM_THREADS": (str(threads), why)}


def _direct_access(devices: Devices, inventory: HardwareInventory) -> Wanted:
    """Direct access between GPUs is turned off only where it is known to be broken, and never over NVLink."""
    links = used_links(devices, inventory)
    if devices.count < 2 or devices.kind != "nvidia":
        return {}
    nvlinked = any(link.nvlinks for link in links)
    offered = [link for link in links if not link.nvlinks and link.p2p is not False]
    sign = inventory.sign("iommu-fault") or inventory.sign("acs-redirect") or inventory.sign("p2p-broken")
    if sign and (offered or not links or nvlinked):
        if nvlinked:
            return {"NCCL_P2P_LEVEL": ("NVL", f"direct access works over NVLink but not over PCIe here ({_cut(sign.text)})")}
        return {"NCCL_P2P_DISABLE": ("1", f"direct access over PCIe is broken here ({_cut(sign.text)}) until that is cured")}
    if _unsound_driver(devices, inventory) and not nvlinked:
        return {
            "NCCL_P2P_DISABLE": ("1", "drivers before 550.40 offer direct access between RTX 40 cards that does not work")
        }
    return {}


def _unsound_driver(devices: Devices, inventory: HardwareInventory) -> bool:
    driver = version_numbers(inventory.software.drivers.get("nvidia"))
    if driver is None:
        return False
    models = [known_model(device.name) for device in devices.used]
    return driver < _RTX40_FIXED and any(model and "RTX 40" in model.name and model.pcie_p2p is False for model in models)


def _ports(inventory: HardwareInventory, needs: TrainingNeeds) -> Wanted:
    """Which RDMA ports to use, where NCCL's own choice (all active ones) would mix fast with slow or foreign ones."""
    active = active_ports(inventory)
    version = nccl_version(inventory)
    if needs.num_nodes > 1 and not active and inventory.network.fabric == "roce" and version and version < _CHOOSES_GID:
        return {"NCCL_IB_GID_INDEX": ("3", f"RoCE v2, mostly index 3 (show_gids tells): NCCL {_dotted(version)} does not look for it")}
    if needs.num_nodes == 1 or not active:
        return {}
    wanted: Wanted = {}
    infiniband = [port for port in active if not is_roce(port)]
    best = infiniband if infiniband and len(infiniband) < len(active) else active
    rates = [port.rate_gbit for port in best if port.rate_gbit]
    if rates and len(rates) == len(best):
        best = [port for port in best if port.rate_gbit == max(rates)]
    if len(best) < len(active):
        names = ",".join(f"{port.device}:{port.port}" for port in best)
        others = ", ".join(port.device for port in active if port not in best)
        wanted["NCCL_IB_HCA"] = (f"={names}", f"the fast ports of one kind; {others} would slow them down or lead elsewhere")
    if all(is_roce(port) for port in best) and version is not None and version < _CHOOSES_GID:
        known = {port.gid_index for port in best if port.gid_index is not None}
        index = known.pop() if len(known) == 1 else 3
        wanted["NCCL_IB_GID_INDEX"] = (
            str(index),
            f"RoCE v2: NCCL {_dotted(version)} does not choose the routed address itself (2.21 and later do)",
        )
    return wanted


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _multicast(inventory: HardwareInventory) -> Wanted:
    failed = inventory.sign("nvls-failed")
    return {"NCCL_NVLS_ENABLE": ("0", f"multicast over NVLink fails here ({_cut(failed.text)})")} if failed else {}


def _cut(text: str) -> str:
    return text if len(text) <= 60 else text[:59] + "…"
