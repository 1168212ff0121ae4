"""Several machines: whether this one can meet the others, found before it waits for them in silence."""

from __future__ import annotations

import contextlib
import ipaddress
import socket

from engine.contract.preset import Preset
from engine.contract.run_dir import RunDir
from wizard import formatting
from wizard.errors import PreflightError

_CONNECT_S = 3.0


def check_rendezvous(resolved: Preset, node_rank: int) -> None:
    """Raises PreflightError when machine `node_rank` of several cannot reach the first one, or be reached as it."""
    how = resolved.distributed
    if how.num_nodes == 1:
        return
    name = str(how.main_address)
    address = numeric(name)
    if address is None:
        raise PreflightError(f"distributed.main_address: the name {name} is not known on this machine",
                             "use the first machine's numeric address, or mend DNS or /etc/hosts")
    own = own_addresses()
    _check_interface(how.network_interface, address, own)
    if _loopback(address) and not _only_local(how.network_interface, own):
        _check_loopback(name, address, node_rank, own)
    if node_rank == 0:
        _check_here(name, address, int(how.main_port), own)
    else:
        _check_route(name, address)


def numeric(name: str) -> str | None:
    """A name as a numeric address, IPv4 before IPv6; None when it is not known here."""
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return None
    addresses = [info[4][0] for info in sorted(found, key=lambda info: info[0] != socket.AF_INET)]
    return addresses[0].partition("%")[0] if addresses else None


def own_addresses() -> dict[str, list[str]]:
    """Addresses of this machine's interfaces that are up, by interface."""
    import psutil

    up = {name for name, state in psutil.net_if_stats().items() if state.isup}
    return {name: [item.address.partition("%")[0] for item in items if item.family in (socket.AF_INET, socket.AF_INET6)]
            for name, items in psutil.net_if_addrs().items() if name in up}


def waiting_words(run: RunDir) -> str | None:
    """What a person should do now, when a run of several machines was started on this one; None for one machine."""
    from engine.contract.load import load_preset
    from wizard.launch.attempts import read_launch

    attempt = run.latest_attempt()
    how = load_preset(run.resolved(attempt)).distributed
    if how.num_nodes == 1:
        return None
    here = read_launch(run, attempt)["node_rank"]
    others = f"--node-rank {1 - here}" if how.num_nodes == 2 else f"--node-rank 0 to {how.num_nodes - 1}"
    return (f"machine {here} of {how.num_nodes}: waiting up to {formatting.duration(how.join_timeout_s)} for the others at "
            f"{how.main_address} port {how.main_port}\n  start each of them with the same preset and its own number: {others}")


def _check_interface(names: str | None, address: str, own: dict[str, list[str]]) -> None:
    there = f"there are: {_listed(own)}"
    if not names:
        raise PreflightError("distributed.network_interface: which interface of this machine leads to the others is not clear",
                             f"name it: --set distributed.network_interface=NAME; {there}")
    for name in names.split(","):
        if not own.get(name):
            import psutil

            known = name in psutil.net_if_addrs()
            what = f"{name} is down or has no address" if known else f"no interface {name} on this machine"
            raise PreflightError(f"distributed.network_interface: {what}", f"{there}; left out, it is chosen by the route to "
                                                                           "distributed.main_address")
    if _only_local(names, own) and not _loopback(address):
        raise PreflightError(f"distributed.network_interface: {names} leads to this machine alone", there)


def _check_loopback(name: str, address: str, node_rank: int, own: dict[str, list[str]]) -> None:
    """The first machine's own name may be a loopback address on itself (Debian writes 127.0.1.1), nothing else may."""
    if node_rank > 0:
        seen = name if name == address else f"{name} ({address})"
        raise PreflightError(f"distributed.main_address: {seen} means this machine itself, and the first machine is another one",
                             "use the first machine's address as this one reaches it; see /etc/hosts where it is a name")
    if name == address:
        raise PreflightError(f"distributed.main_address: {name} cannot be reached from the other machines",
                             f"use an address that they reach; this machine has {_listed(own)}")


def _check_here(name: str, address: str, port: int, own: dict[str, list[str]]) -> None:
    """The first machine must be the one behind the main address, be it through a translated one."""
    if _loopback(address) or any(address in addresses for addresses in own.values()):
        return
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    # that somebody answers is not enough: it may be the first machine itself, and this one another
    with contextlib.suppress(OSError), socket.create_server(("", port), family=family) as server, \
            socket.create_connection((address, port), timeout=_CONNECT_S):
        server.settimeout(_CONNECT_S)
        server.accept()[0].close()
        return
    seen = name if name == address else f"{name} ({address})"
    raise PreflightError(f"distributed.main_address: {seen} does not lead to this machine, and the first machine (--node-rank 0) "
                         "is where the others meet", f"this machine has {_listed(own)}; if it is not the first, give it "
                                                     "its own --node-rank")


def _check_route(name: str, address: str) -> None:
    try:
        with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((address, 9))  # sends nothing: the kernel only looks for a route
    except OSError as error:
        seen = name if name == address else f"{name} ({address})"
        raise PreflightError(f"distributed.main_address: no way from this machine to {seen}: {error.strerror or error}",
                             "check the address, the cable and `ip route`") from None


def _only_local(names: str | None, own: dict[str, list[str]]) -> bool:
    return bool(names) and all(_loopback(address) for name in names.split(",") for address in own.get(name, []))


def _loopback(address: str) -> bool:
    return ipaddress.ip_address(address).is_loopback


def _listed(own: dict[str, list[str]]) -> str:
    """`eth0 (10.0.0.5)`, the interfaces that could lead to others."""
    found = [f"{name} ({addresses[0]})" for name, addresses in sorted(own.items()) if addresses and not _loopback(addresses[0])]
    return ", ".join(found[:6]) or "no interface but the loopback"
