"""Variables that are set already and work against this machine. They stay as they are; what they do is said."""

from __future__ import annotations

from engine.contract.findings import Finding
from wizard.advice.devices import Devices, used_links
from wizard.advice.rdma import active_ports, is_roce
from wizard.advice.reasons import finding
from wizard.advice.versions import nccl_version
from wizard.hardware.inventory import HardwareInventory, Interface
from wizard.questions.needs import TrainingNeeds


def conflict_findings(devices: Devices, inventory: HardwareInventory, needs: TrainingNeeds) -> list[Finding]:
    """Conflicts of variables with the machine; `needs.env` (the preset's) stands before the machine's environment."""
    found: list[Finding] = []
    for place, env in (("preset", needs.env), ("environment", inventory.environment)):
        for name, value in env.items():
            if place == "environment" and name in needs.env:
                continue
            if problem := _conflict(name, value, devices, inventory, needs):
                category, confidence, summary, fix = problem
                source = f"distributed.env.{name}: {value}" if place == "preset" else f"{name}={value}"
                found.append(finding(category, confidence, summary, place, source, [fix]))
    return found


def _conflict(
    name: str, value: str, devices: Devices, inventory: HardwareInventory, needs: TrainingNeeds
) -> tuple[str, str, str, str] | None:
    """(category, confidence, summary, fix), None where the variable does no harm here."""
    on = value not in ("", "0")
    links = used_links(devices, inventory)
    ports = active_ports(inventory)
    if devices.kind == "cpu" and name.startswith(("NCCL_", "RCCL_")):
        return None
    if name == "NCCL_P2P_DISABLE" and on:
        if any(link.nvlinks for link in links) or any(link.path == "XGMI" for link in links):
            return ("env-conflict", "certain", "NCCL_P2P_DISABLE turns NVLink off as well: transfers go through the host",
                    "unset it; NCCL_P2P_LEVEL=NVL keeps NVLink where PCIe between other pairs is broken")  # fmt: skip
        broken = any(inventory.sign(kind) for kind in ("iommu-fault", "acs-redirect", "p2p-broken"))
        if links and not broken and not all(link.p2p is False for link in links):
            return _without_reason(name, value)
    if name == "NCCL_IB_DISABLE" and on and (ports or inventory.network.fabric in ("infiniband", "roce")):
        return ("slow-tcp-instead-of-ib", "certain", "NCCL_IB_DISABLE sends everything over TCP though RDMA ports are there",
                "unset it")  # fmt: skip
    if name == "NCCL_IB_DISABLE" and on and not inventory.network.rdma and not inventory.from_text:
        return _without_reason(name, value)
    if name == "NCCL_IB_GID_INDEX" and ports:
        if not any(is_roce(port) for port in ports):
            return ("env-conflict", "likely", "a GID index is for RoCE; on InfiniBand it only can break the choice", "unset it")
        good = {port.gid_index for port in ports if port.gid_index is not None}
        version = nccl_version(inventory)
        if value.isdigit() and good and int(value) not in good:
            index = min(good)
            return ("ib-gid", "likely", f"GID {value} is not the RoCE v2 address with IPv4, which is {index}",
                    f"set it to {index}" if version is None or version < (2, 21) else "unset it: this NCCL chooses itself")  # fmt: skip
    if name == "NCCL_IB_HCA" and inventory.network.rdma:
        return _hca(value, inventory)
    if name in ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"):
        return _interface(name, value, inventory, needs)
    if name == "NCCL_TIMEOUT":
        return ("wrong-timeout-knob", "certain", "NCCL_TIMEOUT is not the timeout of collectives; nothing reads it",
                "set distributed.timeout_s")  # fmt: skip
    if name == "NCCL_SHM_DISABLE" and on and devices.count > 1 and not any(link.nvlinks for link in links):
        return ("env-conflict", "likely", "NCCL_SHM_DISABLE leaves GPUs without direct access only the network loopback",
                "unset it; enlarge /dev/shm if that was the reason")  # fmt: skip
    return None


def _without_reason(name: str, value: str) -> tuple[str, str, str, str]:
    return (
        "env-without-reason",
        "possible",
        f"{name}={value} turns off a fast path; nothing on this machine asks for it",
        "leave it out unless it cures a hang you have seen",
    )


def _hca(value: str, inventory: HardwareInventory) -> tuple[str, str, str, str] | None:
    exact, negated = value.startswith(("=", "^=")), value.startswith("^")
    names = [part.split(":")[0] for part in value.lstrip("^=").split(",") if part]
    have = [port.device for port in inventory.network.rdma]

    def there(name: str) -> bool:
        return any(device == name if exact else device.startswith(name) for device in have)

    missing = [name for name in names if not there(name)]
    if missing and not negated and not inventory.from_text:
        return ("env-conflict", "certain", f"NCCL_IB_HCA names {', '.join(missing)}, which this machine does not have",
                f"there are: {', '.join(dict.fromkeys(have))}")  # fmt: skip
    if not exact and not negated:
        several = [name for name in names if sum(device.startswith(name) for device in have) > 1 and name in have]
        if several:
            return ("env-conflict", "likely", f"NCCL_IB_HCA={value} matches by prefix: {several[0]} also means "
                    + ", ".join(device for device in have if device.startswith(several[0]) and device != several[0]),
                    f"write NCCL_IB_HCA=={value} for exact names")  # fmt: skip
    return None


def _interface(
    name: str, value: str, inventory: HardwareInventory, needs: TrainingNeeds
) -> tuple[str, str, str, str] | None:
    exact, negated = value.startswith("="), value.startswith("^")
    names = [part for part in value.lstrip("^=").split(",") if part]
    interfaces = inventory.network.interfaces
    if negated or not names:
        return None
    virtual = [part for part in names if part.startswith(("lo", "docker", "veth", "virbr", "br-"))]
    if virtual and needs.num_nodes > 1:
        return ("nccl-wrong-interface", "certain", f"{name}={value} names an interface that stays on this machine",
                "unset it, or name the interface that leads to the other machines")  # fmt: skip
    if not interfaces:
        return None
    matched = {part: _matching(part, interfaces, exact or name.startswith("GLOO")) for part in names}
    missing = [part for part, found in matched.items() if not found]
    if missing:
        category = "gloo-ifname-not-found" if name.startswith("GLOO") else "nccl-wrong-interface"
        return (category, "certain", f"{name}={value}: there is no such interface here",
                f"there are: {', '.join(item.name for item in interfaces)}")  # fmt: skip
    several = [item.name for found in matched.values() if len(found) > 1 for item in found]
    if several and needs.num_nodes > 1:
        return ("env-conflict", "possible", f"{name}={value} matches by prefix: {', '.join(several)}",
                f"write {name}=={several[0]} for exactly one")  # fmt: skip
    return None


def _matching(part: str, interfaces: list[Interface], exact: bool) -> list[Interface]:
    return [item for item in interfaces if (item.name == part if exact else item.name.startswith(part))]
