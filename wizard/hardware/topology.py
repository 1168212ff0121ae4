"""Reads the matrices that vendors' tools print: `nvidia-smi topo -m` and `rocm-smi --showtopotype`."""

from __future__ import annotations

import re

from wizard.hardware.inventory import Link, NicLink

_ESCAPE = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_PATH = re.compile(r"^(X|NV\d+|PIX|PXB|PHB|NODE|SYS)$")


def parse_topo(text: str) -> tuple[list[Link], list[NicLink], dict[int, str], dict[int, int]]:
    """`nvidia-smi topo -m`: links between GPUs, GPU to network card, CPU affinity and NUMA node by GPU.

    Rows and columns that are cut off or unknown are left out. Network cards go by the name of the legend at the
    end (`NIC0: mlx5_0`) where there is one.
    """
    lines = [_ESCAPE.sub("", line).rstrip() for line in text.splitlines()]
    legend = dict(re.findall(r"^\s*(NIC\d+)\s*:\s*(\S+)", "\n".join(lines), re.M))
    header_at = next((at for at, line in enumerate(lines) if re.match(r"\s*GPU\d+(\s|$)", line)), None)
    if header_at is None:
        return [], [], {}, {}
    columns = re.findall(r"GPU\d+|NIC\d+|mlx\d_\w+", lines[header_at].split("CPU Affinity")[0])
    links: dict[tuple[int, int], Link] = {}
    nics, affinity, numa = [], {}, {}
    for line in lines[header_at + 1 :]:
        parts = line.split()
        if not parts or not re.fullmatch(r"GPU\d+", parts[0]):
            continue
        row, cells = int(parts[0][3:]), parts[1:]
        paths = []
        while cells and _PATH.match(cells[0]):
            paths.append(cells.pop(0))
        for name, path in zip(columns, paths, strict=False):
            if name.startswith("GPU"):
                other = int(name[3:])
                pair = (min(row, other), max(row, other))
                if row != other and path != "X":
                    links.setdefault(pair, Link(first=pair[0], second=pair[1], path=path))
            elif path != "X":
                nics.append(NicLink(gpu=row, nic=legend.get(name, name), path=path))
        if cells and re.fullmatch(r"\d+(-\d+)?(,\d+(-\d+)?)*", cells[0]):
            affinity[row] = cells.pop(0)
            if cells and cells[0].isdigit():
                numa[row] = int(cells[0])
    return list(links.values()), nics, affinity, numa


def parse_rocm_types(text: str) -> list[Link]:
    """`rocm-smi --showtopotype`: a matrix of XGMI and PCIE between GPUs.

    Hops are not read: they are 1 for any two dies that XGMI joins, direct or not.
    """
    links: dict[tuple[int, int], Link] = {}
    for line in text.splitlines():
        found = re.match(r"^\s*GPU(\d+)\s+((?:(?:XGMI|PCIE|0|N/A)\s*)+)$", line)
        if not found:
            continue
        row = int(found[1])
        for column, kind in enumerate(found[2].split()):
            pair = (min(row, column), max(row, column))
            if column != row and kind in ("XGMI", "PCIE"):
                links.setdefault(pair, Link(first=pair[0], second=pair[1], path=kind))
    return list(links.values())
