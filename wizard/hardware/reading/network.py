"""Networks: ip addr, ip link, ip route, ifconfig, ethtool, ibstat, ibstatus, ibv_devinfo, show_gids."""

from __future__ import annotations

import re
from collections.abc import Iterator

from wizard.hardware.reading.lines import Fact, Line, Paste

_LINK = re.compile(r"^\s*(?:\d+:\s*)?([\w.-]+)(?:@\S+)?:\s*(?:flags=\d+)?<([\w,-]+)>\s*mtu\s*(\d+)(?:.*?\bstate\s+(\w+))?", re.I)
_BRIEF = re.compile(r"^\s*([a-z][\w.-]{1,14})(?:@\S+)?\s+(UP|DOWN|UNKNOWN)\s+(.*)$")
_INET = re.compile(r"^\s+inet6?\s+(?:addr:)?([0-9a-f.:]+)(/\d+)?(?:.*?netmask\s+(\S+))?", re.I)
_RATE = re.compile(r"(\d+(?:\.\d+)?)\s*G(?:b|bit)?", re.I)


def read_network(paste: Paste) -> Iterator[Fact]:
    yield from _interfaces(paste)
    yield from _ethtool(paste)
    yield from _routes(paste)
    yield from _ibstatus(paste)
    yield from _ibstat(paste)
    yield from _devinfo(paste)
    yield from _gids(paste)
    for line, _ in paste.find(r"/dev/infiniband\b.*?(?:no such file|cannot access|missing|not found)"):
        yield Fact(("rdma_opened",), False, line, "/dev/infiniband")
    for line, _ in paste.find(r"^(?:crw\S*\s.*)?(?:/dev/infiniband/)?uverbs0\b"):
        yield Fact(("rdma_opened",), True, line, "/dev/infiniband")


def _interfaces(paste: Paste) -> Iterator[Fact]:
    name = None
    for line in paste.lines:
        if link := _LINK.match(line.text):
            name, flags = link[1], link[2].upper().split(",")
            up = link[4].upper() in ("UP", "UNKNOWN") if link[4] else "UP" in flags and ("LOWER_UP" in flags or "RUNNING" in flags)
            yield Fact(("interface", name, "up"), up and "NO-CARRIER" not in flags, line, "ip")
            yield Fact(("interface", name, "mtu"), int(link[3]), line, "ip")
        elif brief := _BRIEF.match(line.text):
            yield Fact(("interface", brief[1], "up"), brief[2] != "DOWN", line, "ip -br")
            for address in re.findall(r"\d+\.\d+\.\d+\.\d+/\d+", brief[3]):
                yield Fact(("interface", brief[1], f"address.{address}"), address, line, "ip -br")
        elif name and (inet := _INET.match(line.text)):
            prefix = inet[2] or (f"/{_prefix(inet[3])}" if inet[3] else "")
            yield Fact(("interface", name, f"address.{inet[1]}"), f"{inet[1]}{prefix}", line, "ip")
        elif line.text and not line.text.startswith(" "):
            name = None


def _prefix(mask: str) -> int:
    try:
        if mask.startswith("0x"):
            return bin(int(mask, 16)).count("1")
        return sum(bin(int(part)).count("1") for part in mask.split("."))
    except ValueError:
        return 32


def _ethtool(paste: Paste) -> Iterator[Fact]:
    name = None
    for line in paste.lines:
        if start := re.match(r"^\s*Settings for ([\w.-]+):|^.*\bethtool\s+([\w.-]+)", line.text):
            name = start[1] or start[2]
        elif name and (speed := re.match(r"^\s*Speed:\s*(\d+)\s*(M|G)b", line.text)):
            yield Fact(("interface", name, "speed_mbit"), int(speed[1]) * (1000 if speed[2] == "G" else 1), line, "ethtool")
        elif name and re.match(r"^\s*Link detected:\s*no", line.text):
            yield Fact(("interface", name, "up"), False, line, "ethtool")
    words = r"\b((?:en|eth|ib|bond|hsn|em|team|wl|p\dp)[\w.]*\d[\w.]*)\b[^\n,;]{0,40}?(\d+(?:\.\d+)?)\s*(G|M)(?:b(?:it|ps)?(?:/s|/sec)?|bE|igE|E)\b"
    for line, match in paste.find(words):
        speed = int(float(match[2]) * (1000 if match[3].upper() == "G" else 1))
        yield Fact(("interface", match[1], "speed_mbit"), speed, line, "text")


def _routes(paste: Paste) -> Iterator[Fact]:
    for line, match in paste.find(r"^\s*default\s+(?:via\s+\S+\s+)?dev\s+(\S+)"):
        yield Fact(("route", "0.0.0.0/0"), match[1], line, "ip route")
    for line, match in paste.find(r"^\s*(\d+\.\d+\.\d+\.\d+/\d+)\s+(?:via\s+\S+\s+)?dev\s+(\S+)"):
        yield Fact(("route", match[1]), match[2], line, "ip route")


def _port(device: str, port: str, key: str, value: str, line: Line, source: str) -> Iterator[Fact]:
    """One `key: value` of a port, in the words of any of the three tools."""
    place, key = ("rdma", device, int(port)), key.strip().lower()
    if key == "state":
        state = re.sub(r"^\d+:\s*|PORT_|\s*\(\d+\)", "", value).strip()
        yield Fact((*place, "state"), state.upper(), line, source)
    elif key in ("rate", "active_speed") and (rate := _RATE.search(value) or re.match(r"(\d+)", value)):
        if key == "rate":
            yield Fact((*place, "rate_gbit"), float(rate[1]), line, source)
    elif key in ("link_layer", "link layer"):
        yield Fact((*place, "link_layer"), {"infiniband": "InfiniBand", "ethernet": "Ethernet"}.get(value.lower(), value), line, source)
    elif key in ("base lid", "port_lid") and (lid := re.fullmatch(r"0x([0-9a-f]+)|(\d+)", value.lower())):
        yield Fact((*place, "lid"), int(lid[1], 16) if lid[1] else int(lid[2]), line, source)


def _ibstatus(paste: Paste) -> Iterator[Fact]:
    device = None
    for line in paste.lines:
        if start := re.match(r"^\s*Infiniband device '(\S+)' port (\d+) status", line.text, re.I):
            device = (start[1], start[2])
        elif device and (pair := re.match(r"^\s*([a-z][\w ]*?)\s*:\s*(.*)$", line.text)):
            yield from _port(*device, pair[1], pair[2].strip(), line, "ibstatus")


def _ibstat(paste: Paste) -> Iterator[Fact]:
    device, port = None, "1"
    for line in paste.lines:
        if start := re.match(r"^\s*CA '(\S+)'", line.text):
            device, port = start[1], "1"
        elif device and (number := re.match(r"^\s*Port (\d+):\s*$", line.text)):
            port = number[1]
        elif device and (pair := re.match(r"^\s*([A-Z][\w ]*?):\s*(.+)$", line.text)):
            yield from _port(device, port, pair[1], pair[2].strip(), line, "ibstat")


def _devinfo(paste: Paste) -> Iterator[Fact]:
    device, port = None, "1"
    for line in paste.lines:
        if start := re.match(r"^\s*hca_id:\s*(\S+)", line.text):
            device, port = start[1], "1"
        elif device and (number := re.match(r"^\s*port:\s*(\d+)", line.text)):
            port = number[1]
        elif device and (pair := re.match(r"^\s*([a-z_]+):\s*(.+)$", line.text)):
            yield from _port(device, port, pair[1], pair[2].strip(), line, "ibv_devinfo")


def _gids(paste: Paste) -> Iterator[Fact]:
    """show_gids: `mlx5_0  1  3  0000:...:ffff:0a00:0002  10.0.0.2  v2  eth0`; ibv_devinfo -v: `GID[ 3]: ..., RoCE v2`."""
    pattern = r"^\s*(\S+)\s+(\d)\s+(\d+)\s+[0-9a-f:]{8,}\s+(\d+\.\d+\.\d+\.\d+)\s+v2\b"
    for line, match in paste.find(pattern):
        yield Fact(("rdma", match[1], int(match[2]), "gid_index"), int(match[3]), line, "show_gids")
