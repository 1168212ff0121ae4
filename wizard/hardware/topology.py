"""Reads the matrices that vendors' tools print: `nvidia-smi topo -m` and `-p2p`, `rocm-smi --showtopotype`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from wizard.hardware.inventory import Link, NicLink

_ESCAPE = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_PATH = re.compile(r"^(X|NV\d+|PIX|PXB|PHB|NODE|SYS|SOC)$")
#: Codes of `topo -p2p`: OK; chipset, GPU, topology not supported; disabled by the registry; not supported; unknown.
_P2P = {"OK": True, "CNS": False, "GNS": False, "TNS": False, "DR": False, "NS": False, "U": None}
_CARD = r"NIC\d+|mlx\d_\w+|bnxt_re\w+|rdmap\w+|hfi\d_\w+|irdma\w+"
_DEVICE = re.compile(r"GPU\d+")
_CPUS = re.compile(r"^\d+(-\d+)?(,\d+(-\d+)?)*$")


def matrix_rows(text: str) -> Iterator[tuple[int, list[str], int, list[str]]]:
    """(line number, column names, row's GPU, cells) of every row of every matrix of GPUs in a text.

    Columns that were cut out (`...`) are cut out of the rows as well. Where the header is missing the columns are
    taken to be the GPUs in order, which the diagonal X confirms.
    """
    columns: list[str] = []
    for number, raw in enumerate(_ESCAPE.sub("", text).splitlines(), start=1):
        line = raw.replace("|", " ").replace("...", " ").replace("…", " ")
        names = re.findall(rf"\b(?:GPU\d+|{_CARD})\b", line.split("CPU Aff")[0])
        parts = line.split()
        if len(names) > 1 and not any(_PATH.match(part) or part in _P2P for part in parts):
            columns = names
            continue
        if parts == ["GPU0"] or (len(names) == 1 and re.match(r"^\s*GPU0\s+CPU Aff", line)):
            columns = ["GPU0"]
            continue
        if len(parts) < 2 or not _DEVICE.fullmatch(parts[0]):
            continue
        row, cells = int(parts[0][3:]), parts[1:]
        if not (_PATH.match(cells[0]) or cells[0] in _P2P):
            continue
        here = columns
        if not here and "X" in cells and cells.index("X") == row:
            here = [f"GPU{index}" for index in range(sum(bool(_PATH.match(cell)) or cell in _P2P for cell in cells))]
        if here:
            yield number, here, row, cells


def parse_topo(text: str) -> tuple[list[Link], list[NicLink], dict[int, str], dict[int, int]]:
    """`nvidia-smi topo -m`: links between GPUs, GPU to network card, CPU affinity and NUMA node by GPU.

    Rows and columns that are cut off or unknown are left out. Network cards go by the name of the legend at the
    end (`NIC0: mlx5_0`) where there is one.
    """
    legend = dict(re.findall(r"^\s*(NIC\d+)\s*:\s*(\S+)", _ESCAPE.sub("", text), re.M))
    links: dict[tuple[int, int], Link] = {}
    nics, affinity, numa = [], {}, {}
    for _, columns, row, all_cells in matrix_rows(text):
        cells, paths = list(all_cells), []
        while cells and _PATH.match(cells[0]):
            paths.append(cells.pop(0))
        if not paths:
            continue
        for name, path in zip(columns, paths, strict=False):
            if name.startswith("GPU"):
                other = int(name[3:])
                pair = (min(row, other), max(row, other))
                if row != other and path != "X":
                    links.setdefault(pair, Link(first=pair[0], second=pair[1], path="SYS" if path == "SOC" else path))
            elif path != "X":
                nics.append(NicLink(gpu=row, nic=legend.get(name, name), path=path))
        if cells and _CPUS.match(cells[0]) and ("-" in cells[0] or "," in cells[0] or len(cells) > 1):
            affinity[row] = cells.pop(0)
            if cells and cells[0].isdigit():
                numa[row] = int(cells[0])
    return list(links.values()), nics, affinity, numa


def parse_p2p(text: str) -> dict[tuple[int, int], bool | None]:
    """`nvidia-smi topo -p2p r`: whether the driver offers direct access, by pair of GPUs."""
    found: dict[tuple[int, int], bool | None] = {}
    for _, columns, row, cells in matrix_rows(text):
        for name, cell in zip(columns, cells, strict=False):
            if name.startswith("GPU") and cell in _P2P and int(name[3:]) != row:
                other = int(name[3:])
                pair = (min(row, other), max(row, other))
                found[pair] = _P2P[cell] if found.get(pair) is not False else False
    return found


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
