"""Between machines: which interface leads to the others, and how large gradient buckets should be."""

from __future__ import annotations

import ipaddress

from engine.contract.findings import Decision, Finding
from wizard.advice.reasons import asked, finding, kept, other
from wizard.hardware.inventory import HardwareInventory, Interface
from wizard.questions.needs import TrainingNeeds

_DEFAULT_BUCKET_MB, _SLOW_LINK_BUCKET_MB = 25, 5


def decide_network(inventory: HardwareInventory, needs: TrainingNeeds) -> tuple[Decision, list[Finding]]:
    """The interface of this machine that the other machines are reached through; None on one machine."""
    if needs.num_nodes == 1:
        return Decision(value=needs.network_interface, reason="one machine: nothing leaves it", confidence="high"), []
    if needs.network_interface:
        found = inventory.network.interface(needs.network_interface)
        if found is None and inventory.network.interfaces:
            names = ", ".join(item.name for item in inventory.network.interfaces)
            return kept(needs.network_interface, "though this machine has no interface of that name"), [
                finding(
                    "gloo-ifname-not-found",
                    "certain",
                    f"no interface {needs.network_interface} on this machine",
                    "network interfaces",
                    f"there are: {names}",
                    ["set distributed.network_interface to one of them, or leave it out"],
                )
            ]
        return kept(needs.network_interface, _speed(found)), _link_findings(found)
    address = _address(needs.main_address)
    chosen, why, sure = _towards(inventory, address)
    if chosen is None:
        return Decision(value=None, reason=why, confidence="low"), _loopback(inventory, None)
    interface = inventory.network.interface(chosen)
    reason = f"{chosen} {why}" + (f"; {_speed(interface)}" if interface else "")
    facts = [f"main address: {needs.main_address}"] if needs.main_address else []
    decision = Decision(value=chosen, reason=reason, confidence=sure, facts=facts)
    if sure != "high":
        decision.alternative = other("another interface", "the machines are joined by a network of their own")
    return decision, _link_findings(interface)


def _towards(inventory: HardwareInventory, address) -> tuple[str | None, str, str]:
    """(interface, why, confidence): the kernel's rule, longest matching network first."""
    network = inventory.network
    if address is not None:
        for item in network.interfaces:
            if any(_ip(text) == address for text in item.addresses) and item.kind != "loopback":
                return item.name, "carries the main address itself", "high"
        matches = []
        for item in network.interfaces:
            if not item.up or item.kind == "loopback":
                continue
            for text in item.addresses:
                if _ip(text) is None:
                    continue
                subnet = ipaddress.ip_interface(text).network
                if address.version == subnet.version and address in subnet:
                    matches.append((subnet.prefixlen, 0, item.name, "is on the main address's own network"))
        for route in network.routes:
            try:
                subnet = ipaddress.ip_network(route.network, strict=False)
            except ValueError:
                continue
            if address.version == subnet.version and address in subnet and subnet.prefixlen > 0:
                matches.append((subnet.prefixlen, -route.metric, route.interface, "has the route to the main address"))
        if matches:
            _, _, name, why = max(matches, key=lambda match: match[:2])
            return name, why, "high"
    real = _real(inventory, 4 if address is None else address.version)
    default = network.interface(network.default_interface) if network.default_interface else None
    away = default is not None and default.up and default.kind not in ("virtual", "loopback")
    if network.default_interface and (away or not real):
        if address is None or address.is_loopback:
            return network.default_interface, "has the default route; the main address does not tell which one leads there", "low"
        return network.default_interface, "has the default route, which leads to the main address", "fair"
    if len(real) == 1:
        return real[0].name, "is the only one that leads out of this machine", "fair"
    if real and inventory.from_text:
        best = max(real, key=lambda item: item.speed_mbit or 0)
        return best.name, f"is the fastest of {len(real)} that lead out of this machine", "low"
    if inventory.from_text:
        return None, "the text lists no interface; `ip route get MAIN_ADDRESS` on each machine names it", "low"
    return None, "no interface with a route to other machines was found", "low"


def _ip(text: str):
    try:
        return ipaddress.ip_interface(text).ip
    except ValueError:  # pasted text may hold half an address
        return None


def _real(inventory: HardwareInventory, version: int) -> list[Interface]:
    """Interfaces that can lead to another machine: up, with an address of that IP version, neither virtual nor loopback.

    Words name interfaces without their addresses: there the address is not asked for.
    """
    addressed = any(item.addresses for item in inventory.network.interfaces) or not inventory.from_text
    return [
        item
        for item in inventory.network.interfaces
        if item.up
        and item.kind not in ("virtual", "loopback")
        and (
            not addressed
            or any((ip := _ip(text)) is not None and ip.version == version and not ip.is_loopback and not ip.is_link_local
                   for text in item.addresses)
        )
    ]


def _address(text: str | None):
    try:
        return ipaddress.ip_address(text) if text else None
    except ValueError:  # a name: resolving it is not the advice's business
        return None


def _speed(interface: Interface | None) -> str:
    if interface is None or interface.speed_mbit is None:
        return "its speed is not known"
    return f"{interface.speed_mbit / 1000:g} Gbit/s"


def _link_findings(interface: Interface | None) -> list[Finding]:
    if interface is None:
        return []
    if interface.kind in ("virtual", "loopback"):
        return [
            finding(
                "nccl-wrong-interface",
                "likely",
                f"{interface.name} leads to containers or to this machine itself, not to others",
                "network interfaces",
                f"{interface.name}: {interface.kind}",
                ["choose the interface that leads to the other machines"],
            )
        ]
    if not interface.up:
        return [
            finding(
                "nccl-wrong-interface",
                "likely",
                f"{interface.name} is down",
                "network interfaces",
                f"{interface.name}: down",
                ["bring it up, or choose another interface"],
            )
        ]
    if interface.kind == "wireless":
        return [
            finding(
                "slow-link",
                "likely",
                f"{interface.name} is wireless: slow and uneven for gradients",
                "network interfaces",
                interface.name,
                ["use a cable between the machines"],
            )
        ]
    return []


def _loopback(inventory: HardwareInventory, chosen: str | None) -> list[Finding]:
    """Without a named interface Gloo offers what the host's own name resolves to."""
    bad = [text for text in inventory.network.host_addresses if text.startswith("127.")]
    if not bad or chosen:
        return []
    return [
        finding(
            "gloo-loopback-hostname",
            "likely",
            "this machine's own name resolves to a loopback address, which others cannot reach",
            "/etc/hosts",
            f"{inventory.host or 'the host'}: {', '.join(bad)}",
            ["set distributed.network_interface", "or mend /etc/hosts"],
        )
    ]


def decide_bucket(backend: str, network: Decision, inventory: HardwareInventory, needs: TrainingNeeds) -> Decision:
    """Gradient bucket size.

    Measured on Gloo over 1 Gbit/s: with 5 MB a step takes x0.89 of its time with 25 MB; elsewhere there is no gain.
    """
    if asked(needs.bucket_mb):
        return kept(int(needs.bucket_mb), f"{_DEFAULT_BUCKET_MB} MB is torch's default")
    interface = inventory.network.interface(network.value) if network.value else None
    speed = interface.speed_mbit if interface else inventory.network.peer_speed_mbit
    if needs.num_nodes > 1 and backend == "gloo" and speed is not None and speed <= 1000:
        return Decision(
            value=_SLOW_LINK_BUCKET_MB,
            confidence="fair",
            reason=f"at {speed:g} Mbit/s small buckets start to travel sooner: a step takes "
            "about a tenth less time than with 25 MB",
            facts=["from: tables"],
            alternative=other(_DEFAULT_BUCKET_MB, "the link has 10 Gbit/s"),
        )
    reason = (
        "torch's default; smaller ones gain nothing on this link"
        if backend != "none"
        else "torch's default; one process sends nothing"
    )
    return Decision(value=_DEFAULT_BUCKET_MB, confidence="high", reason=reason)
