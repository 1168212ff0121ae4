"""InfiniBand, RoCE and slow networks: what keeps traffic between machines off the fast path."""

from __future__ import annotations

from engine.contract.findings import Finding
from wizard.advice.devices import Devices
from wizard.advice.reasons import finding
from wizard.hardware.inventory import HardwareInventory, RdmaPort
from wizard.questions.needs import TrainingNeeds

#: Locked memory that RDMA buffers need at least; the usual default is 64 KiB or 8 MiB.
_MEMLOCK = 2**30
#: Ethernet up to this speed makes GPUs wait for gradients.
SLOW_MBIT = 10_000


def active_ports(inventory: HardwareInventory) -> list[RdmaPort]:
    """Ports that carry traffic; those whose state a text does not tell count."""
    return [port for port in inventory.network.rdma if port.state is None or "ACTIVE" in port.state.upper()]


def is_roce(port: RdmaPort) -> bool:
    return (port.link_layer or "").lower() == "ethernet"


def rdma_findings(devices: Devices, inventory: HardwareInventory, needs: TrainingNeeds) -> list[Finding]:
    """Matters between machines; a text that lists ports is about several."""
    network = inventory.network
    if needs.num_nodes == 1 and not (inventory.from_text and network.rdma):
        return []
    found: list[Finding] = []
    active = active_ports(inventory)
    roce = [port for port in active if is_roce(port)] or ([None] if network.fabric == "roce" and not active else [])
    if network.rdma and not active:
        words = ", ".join(f"{port.device} port {port.port}: {port.state}" for port in network.rdma[:6])
        found.append(
            finding("ib-port-down", "certain", "no RDMA port is active: traffic falls back to TCP", "ibstat", words,
                    ["check cable and switch port; on InfiniBand also that a subnet manager runs"])
        )  # fmt: skip
    if roce:
        found += _gid(roce, inventory)
    container, closed = inventory.platform.container, any(port.opened is False for port in network.rdma)
    if closed or (container and active) or (roce and inventory.from_text):
        found.append(_container(closed, container, bool(roce)))
    locked = inventory.platform.memlock_bytes
    if (active or network.fabric in ("infiniband", "roce")) and locked is not None and 0 <= locked < _MEMLOCK:
        found.append(
            finding("ib-memlock-limit", "likely", f"only {locked // 1024:,} KiB may be locked: RDMA buffers cannot be registered",
                    "ulimit -l", f"{locked:,} bytes",
                    ["raise it: `* soft memlock unlimited` and `* hard memlock unlimited` in /etc/security/limits.conf",
                     "in a container: --ulimit memlock=-1"])
        )  # fmt: skip
    if needs.num_nodes > 1 and (sign := inventory.sign("nccl-on-virtual")):
        found.append(
            finding("nccl-wrong-interface", "likely", "NCCL connects over an interface that stays on this machine",
                    "NCCL INFO", sign.text, ["set distributed.network_interface to the one that leads to the others"])
        )  # fmt: skip
    if needs.num_nodes > 1 and not devices.unknown:
        found += _slow(devices, inventory)
    return found


def _gid(roce: list[RdmaPort | None], inventory: HardwareInventory) -> list[Finding]:
    ports = [port for port in roce if port is not None]
    words = ", ".join(f"{port.device} port {port.port}: link_layer Ethernet" for port in ports[:4]) or "RoCE"
    from wizard.advice.concerns import nccl_version

    version = nccl_version(inventory)
    if version is not None and version >= (2, 21):
        return []  # it looks for an address that is routed by itself
    return [
        finding(
            "ib-gid",
            "likely" if version else "possible",
            "RoCE: the address in use (GID) must be RoCE v2, which NCCL before 2.21 does not look for by itself",
            "ibstatus",
            words + (f"; NCCL {version[0]}.{version[1]}" if version else ""),
            [
                "show_gids lists them; the index of the v2 line with the IPv4 address is the right one (mostly 3)",
                "NCCL_IB_GID_INDEX=<that index> for NCCL before 2.21; newer ones choose it themselves",
            ],
        )
    ]


def _container(closed: bool, container: str | None, roce: bool) -> Finding:
    text = (
        "/dev/infiniband is not there" if closed else f"in a container ({container})" if container else "RoCE, container not known"
    )
    return finding(
        "rdma-in-container",
        "certain" if closed else "possible",
        "in a container RDMA needs /dev/infiniband and unlimited locked memory"
        + ("; without them NCCL falls back to TCP on the same card, which is easy to overlook" if roce else ""),
        "/dev/infiniband",
        text,
        ["start it with --device=/dev/infiniband --ulimit memlock=-1 --network=host"],
    )


def _slow(devices: Devices, inventory: HardwareInventory) -> list[Finding]:
    network = inventory.network
    if active_ports(inventory) or network.fabric in ("infiniband", "roce", "efa", "slingshot"):
        return []
    fastest = max((item.speed_mbit or 0 for item in network.interfaces if item.up and item.kind == "ethernet"), default=0)
    speed = network.peer_speed_mbit or fastest
    if network.fabric == "wireless" and not speed:
        speed = 300
    if not speed or speed > SLOW_MBIT:
        return []
    return [
        finding(
            "slow-ethernet-only-cluster",
            "likely",
            f"{speed / 1000:g} Gbit/s between the machines: steps wait for gradients",
            "network",
            f"{speed:,} Mbit/s, no RDMA",
            [
                "train an adapter (model.adapter.type: lora): it sends a hundredth of the gradients",
                "more gradient accumulation; distributed.communication.compression: fp16 halves what is sent",
                "one machine alone may be faster: compare with num_nodes: 1",
            ],
        )
    ]
