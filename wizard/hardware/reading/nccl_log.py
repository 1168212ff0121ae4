"""What NCCL_DEBUG=INFO tells of a machine: topology dump, chosen networks, version; and NCCL's topology XML."""

from __future__ import annotations

import re
from collections.abc import Iterator

from wizard.hardware.reading.lines import Fact, Paste

SOURCE = "NCCL INFO"
_GPU = re.compile(r"\bGPU/(?:\d+-)?([0-9a-f]{4,8})(?![0-9a-f])", re.I)
_PATHS = re.compile(r"GPU/(?:\d+-)?([0-9a-f]{4,8})\s*\((\d+)/([\d.]+)/(LOC|NVL|NVB|PIX|PXB|PXN|PHB|NODE|SYS)\)", re.I)
_CLASS = {"NVL": "NV1", "NVB": "NV1", "PXN": "PXB"}


def read_nccl_log(paste: Paste) -> Iterator[Fact]:
    for line, match in paste.find(r"NCCL version\s+(2\.\d+(?:\.\d+)?)(?:\+cuda(\d+\.\d+))?"):
        yield Fact(("package", "nccl"), match[1], line, SOURCE)
    for line, match in paste.find(r"RCCL version\s+(2\.\d+(?:\.\d+)?)"):
        yield Fact(("package", "rccl"), match[1], line, SOURCE)
    yield from _topology(paste)
    for line, match in paste.find(r"NET/IB\s*:\s*Using\s+(.*)"):
        for device, port, kind in re.findall(r"\[\d+\](\w+):(\d+)/(IB|RoCE)", match[1]):
            layer = {"IB": "InfiniBand", "RoCE": "Ethernet"}[kind]
            yield Fact(("rdma", device, int(port), "link_layer"), layer, line, SOURCE)
            yield Fact(("rdma", device, int(port), "state"), "ACTIVE", line, SOURCE)
    for line, match in paste.find(r"NET/Socket\s*:\s*Using\s+(.*)"):
        for name, address in re.findall(r"\[\d+\]([\w.-]+):(\d+\.\d+\.\d+\.\d+)", match[1]):
            yield Fact(("interface", name, "up"), True, line, SOURCE)
            yield Fact(("interface", name, f"address.{address}"), address, line, SOURCE)
    yield from _xml(paste)


def _topology(paste: Paste) -> Iterator[Fact]:
    """The dump of `NCCL_DEBUG_SUBSYS=GRAPH`: GPUs by bus number, each with its class of path to the others."""
    buses: dict[str, int] = {}
    lines = [line for line in paste.lines if "NCCL INFO" in line.text and "GPU/" in line.text]
    for line in lines:
        for bus in _GPU.findall(line.text):
            buses.setdefault(_bus(bus), len(buses))
    order = {bus: index for index, bus in enumerate(sorted(buses, key=lambda text: int(text, 16)))}
    for line in lines:
        for bus in _GPU.findall(line.text):
            yield Fact(("gpu", order[_bus(bus)], "vendor"), "nvidia", line, SOURCE)
        mine = re.search(r"NCCL INFO\s+GPU/(?:\d+-)?([0-9a-f]{4,8})\s*:", line.text, re.I)
        if mine is None:
            continue
        row = order[_bus(mine[1])]
        for bus, _, _, kind in _PATHS.findall(line.text):
            other = order[_bus(bus)]
            if other != row and kind.upper() != "LOC":
                pair = (min(row, other), max(row, other))
                yield Fact(("link", *pair, "path"), _CLASS.get(kind.upper(), kind.upper()), line, SOURCE)


def _bus(text: str) -> str:
    """Bus numbers are printed with and without the domain in front: 50000 and 0-50000 are one device."""
    return text.lower().lstrip("0") or "0"


def _xml(paste: Paste) -> Iterator[Fact]:
    if not paste.has(r"<system version="):
        return
    source, numa = "NCCL topology XML", None
    for line in paste.lines:
        if node := re.search(r'<cpu [^>]*numaid="(-?\d+)"', line.text):
            numa = int(node[1])
            yield Fact(("cpu", f"numa.{numa}"), None, line, source)
        if gpu := re.search(r'<gpu [^>]*dev="(\d+)"[^>]*', line.text):
            index = int(gpu[1])
            yield Fact(("gpu", index, "vendor"), "nvidia", line, source)
            if capability := re.search(r'sm="(\d+)(\d)"', gpu[0]):
                yield Fact(("gpu", index, "compute_capability"), f"{capability[1]}.{capability[2]}", line, source)
            if numa is not None:
                yield Fact(("gpu", index, "numa_node"), numa, line, source)
        if card := re.search(r'<net [^>]*name="(\w+)"[^>]*speed="(\d+)"', line.text):
            yield Fact(("rdma", card[1], 1, "rate_gbit"), int(card[2]) / 1000, line, source)
