"""Matrices of links: `nvidia-smi topo -m` and `-p2p`, `rocm-smi --showtopotype`, however they were pasted."""

from __future__ import annotations

import re
from collections.abc import Iterator

from wizard.hardware.reading.lines import Fact, Line, Paste
from wizard.hardware.topology import matrix_rows, parse_p2p, parse_rocm_types, parse_topo

_SLOW_S = 20


def read_matrices(paste: Paste) -> Iterator[Fact]:
    by_row: dict[int, Line] = {}
    amd = paste.has(r"^\s*GPU\d+\s+.*\b(XGMI|PCIE)\b")
    vendor = "amd" if amd else "nvidia"
    source = "rocm-smi --showtopo" if amd else "nvidia-smi topo"
    for number, columns, row, _ in matrix_rows(paste.text):
        line = paste.lines[number - 1]
        by_row.setdefault(row, line)
        for name in (*columns, f"GPU{row}"):
            if name.startswith("GPU"):
                yield Fact(("gpu", int(name[3:]), "vendor"), vendor, line, source)
    for link in parse_rocm_types(paste.text) if amd else []:
        line = _row_line(paste, link.first) or _row_line(paste, link.second) or paste.lines[0]
        for index in (link.first, link.second):
            yield Fact(("gpu", index, "vendor"), "amd", line, source)
        yield Fact(("link", link.first, link.second, "path"), link.path, line, source)
    links, nics, affinity, numa = parse_topo(paste.text)
    for link in links:
        line = by_row.get(link.first) or by_row[link.second]
        yield Fact(("link", link.first, link.second, "path"), link.path, line, "nvidia-smi topo -m")
    for nic in nics:
        yield Fact(("nic", nic.gpu, nic.nic), nic.path, by_row[nic.gpu], "nvidia-smi topo -m")
    for index, cpus in affinity.items():
        yield Fact(("gpu", index, "cpu_affinity"), cpus, by_row[index], "nvidia-smi topo -m")
    for index, node in numa.items():
        yield Fact(("gpu", index, "numa_node"), node, by_row[index], "nvidia-smi topo -m")
    for (first, second), offered in parse_p2p(paste.text).items():
        if offered is not None:
            line = by_row.get(first) or by_row[second]
            yield Fact(("link", first, second, "p2p"), offered, line, "nvidia-smi topo -p2p")
    yield from _slow(paste)


def _row_line(paste: Paste, index: int) -> Line | None:
    return next((line for line, _ in paste.find(rf"^\s*GPU{index}\s+.*\b(?:XGMI|PCIE)\b")), None)


def _slow(paste: Paste) -> Iterator[Fact]:
    """nvidia-smi that takes long to answer is a sign of a link that does not come up."""
    pattern = r"(?:command|nvidia-smi|topo)\b.*?\btook\b.*?(\d+(?:\.\d+)?)\s*s(?:ec|\b)|^real\s+(\d+)m([\d.]+)s"
    for line, match in paste.find(pattern):
        seconds = float(match[1]) if match[1] else int(match[2]) * 60 + float(match[3])
        if seconds >= _SLOW_S:
            yield Fact(("sign", "slow-nvidia-smi"), re.sub(r"\s+", " ", line.text).strip(" ()"), line, "nvidia-smi")
