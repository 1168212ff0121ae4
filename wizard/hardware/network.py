"""Network interfaces with speed, state and addresses; where packets leave; what the host's own name resolves to."""

from __future__ import annotations

import ipaddress
import socket
import struct

from wizard.hardware.inventory import Interface, Network, RdmaPort, Route
from wizard.hardware.sources import Probed, Sources

#: Interfaces that lead to containers and virtual machines, never to another node.
_VIRTUAL = ("docker", "br-", "veth", "virbr", "cni", "flannel", "cali", "tunl", "kube-", "vxlan", "ifb", "dummy", "lxc")


def probe_network(sources: Sources) -> Probed:
    unknown: dict[str, str] = {}
    interfaces = _interfaces(unknown)
    routes = _routes(sources)
    default = min(
        (route for route in routes if route.network == "0.0.0.0/0"), key=lambda route: route.metric, default=None
    )
    name = default.interface if default else _default_by_socket(interfaces)
    if name is None:
        unknown["network.default_interface"] = "no default route"
    return Probed(
        {
            "network": Network(
                interfaces=interfaces,
                default_interface=name,
                routes=routes,
                host_addresses=_host_addresses(sources),
                rdma=_rdma(sources),
            )
        },
        unknown,
    )


def _interfaces(unknown: dict[str, str]) -> list[Interface]:
    import psutil

    try:
        stats, addresses = psutil.net_if_stats(), psutil.net_if_addrs()
    except OSError as error:
        unknown["network.interfaces"] = f"psutil could not list them ({error})"
        return []
    found = []
    for name in sorted(stats):
        state, own = stats[name], addresses.get(name, [])
        texts = [text for text in (_with_prefix(item) for item in own) if text]
        speed = state.speed or None  # 0 is psutil's word for unknown
        found.append(
            Interface(
                name=name,
                up=state.isup,
                kind=interface_kind(name, texts),
                mtu=state.mtu,
                speed_mbit=None if speed in (65535, 2**32 - 1) else speed,
                addresses=texts,
            )
        )
    return found


def interface_kind(name: str, addresses: list[str]) -> str:
    """What an interface is, as far as its name and addresses tell."""
    if name.startswith("lo") and any(text.startswith("127.") for text in addresses):
        return "loopback"
    if name.startswith(_VIRTUAL):
        return "virtual"
    if name.startswith("ib"):
        return "infiniband"
    if name.startswith(("wl", "wifi", "Wi-Fi")):
        return "wireless"
    return "ethernet" if name.startswith(("e", "bond", "hsn", "team", "Ethernet")) else "other"


def _with_prefix(item) -> str | None:
    if item.family not in (socket.AF_INET, socket.AF_INET6):
        return None
    address = item.address.split("%")[0]
    try:
        if item.family == socket.AF_INET6 and item.netmask:
            prefix = bin(int(ipaddress.IPv6Address(item.netmask))).count("1")
            return f"{address}/{prefix}"
        return str(ipaddress.ip_interface(f"{address}/{item.netmask}" if item.netmask else address))
    except ValueError:
        return None


def _routes(sources: Sources) -> list[Route]:
    """The kernel's IPv4 table: little-endian hexadecimal destination and mask."""
    found = []
    for line in (sources.read("/proc/net/route") or "").splitlines()[1:]:
        parts = line.split()
        try:
            name, target, flags, metric, mask = parts[0], parts[1], int(parts[3], 16), int(parts[6]), parts[7]
            if not flags & 1:  # RTF_UP
                continue
            address = socket.inet_ntoa(struct.pack("<L", int(target, 16)))
            length = bin(int(mask, 16)).count("1")
        except (IndexError, ValueError):
            continue
        found.append(Route(network=f"{address}/{length}", interface=name, metric=metric))
    return found


def _default_by_socket(interfaces: list[Interface]) -> str | None:
    """Where there is no /proc: a UDP socket that is connected (nothing is sent) knows its own address."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
            own = probe.getsockname()[0]
        except OSError:
            return None
    return next((item.name for item in interfaces for text in item.addresses if text.split("/")[0] == own), None)


def _host_addresses(sources: Sources) -> list[str]:
    """From the hosts file only: a name server may take seconds to say no."""
    name, found = socket.gethostname().lower(), []
    for line in (sources.read("/etc/hosts") or "").splitlines():
        parts = line.split("#")[0].split()
        if len(parts) > 1 and name in (part.lower() for part in parts[1:]):
            found.append(parts[0])
    return found


def _rdma(sources: Sources) -> list[RdmaPort]:
    base, ports = "/sys/class/infiniband", []
    usable = sources.exists("/dev/infiniband")
    for device in sources.names(base):
        for port in sources.names(f"{base}/{device}/ports"):
            if not port.isdigit():
                continue
            folder = f"{base}/{device}/ports/{port}"
            state = (sources.read(f"{folder}/state") or "").rpartition(":")[2].strip() or None
            rate = (sources.read(f"{folder}/rate") or "").split()
            ports.append(
                RdmaPort(
                    device=device,
                    port=int(port),
                    state=state,
                    opened=usable,
                    rate_gbit=_float(rate[0]) if rate else None,
                    link_layer=sources.read(f"{folder}/link_layer"),
                    gid_index=_gid_index(sources, folder),
                )
            )
    return ports


def _gid_index(sources: Sources, folder: str) -> int | None:
    """The first RoCE v2 entry of the port's table whose address is IPv4 (written as ::ffff:a.b.c.d)."""
    for name in sorted(sources.names(f"{folder}/gids"), key=lambda text: int(text) if text.isdigit() else 0):
        address = sources.read(f"{folder}/gids/{name}") or ""
        kind = sources.read(f"{folder}/gid_attrs/types/{name}") or ""
        if kind == "RoCE v2" and address.startswith("0000:0000:0000:0000:0000:ffff:"):
            return int(name)
    return None


def _float(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
