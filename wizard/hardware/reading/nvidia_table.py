"""The table that plain `nvidia-smi` prints: devices, memory, power, MIG, processes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from wizard.hardware.models import known_model
from wizard.hardware.reading.lines import Fact, Line, Paste

SOURCE = "nvidia-smi"
_FIRST = re.compile(
    r"^\s*\|?\s*(\d{1,2})\s+((?:NVIDIA|Tesla|GeForce|Quadro|TITAN|GRID|RTX|A\d|H\d|[A-Z])\S*(?:\s\S+)*?)\s+"
    r"(On|Off|N/A|WDDM|TCC|MCDM)\s*\|\s*([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d)\s+(On|Off|N/A)"
    r"(?:\s*\|\s*(\S+))?"
)
_MEMORY = re.compile(r"(\d+)\s*MiB\s*/\s*(\d+)\s*MiB")
_POWER = re.compile(r"(\d+(?:\.\d+)?)\s*W\s*/\s*(\d+(?:\.\d+)?)\s*W")
_BUSY = re.compile(r"\|\s*(\d+)\s*%\s")
_MIG_MODE = re.compile(r"\|\s*(Enabled\*?)\s*\|?\s*$")
_MIG_ROW = re.compile(r"^\s*\|\s*(\d+)\s+(\d+)\s+(\d+)\s+(\d+)\s+\|\s*(\d+)MiB\s*/\s*(\d+)MiB")
_PROCESS = re.compile(r"^\s*\|?\s*(\d{1,2})\s+(N/A|\d+)\s+(N/A|\d+)\s+(\d{2,})\s+([CG+M]+)\s+(.+?)\s+(\d+)\s*MiB\s*\|?\s*$")
_OLD_PROCESS = re.compile(r"^\s*\|?\s*(\d{1,2})\s+(\d{3,})\s+([CG+]+)\s+(\S.*?)\s+(\d+)\s*MiB\s*\|?\s*$")


def read_table(paste: Paste) -> Iterator[Fact]:
    for line, match in paste.find(r"NVIDIA-SMI\s+([\d.]+)?.*?Driver Version:\s*([\d.]+)"):
        yield Fact(("driver", "nvidia"), match[2], line, SOURCE)
    for line, match in paste.find(r"CUDA Version:\s*(\d+\.\d+)"):
        yield Fact(("driver", "cuda"), match[1], line, SOURCE)
    current: int | None = None
    for line in paste.lines:
        if first := _FIRST.match(line.text):
            current = int(first[1])
            yield from _device(current, first, line)
        elif current is not None and "|" in line.text:
            yield from _detail(current, line)
        if re.match(r"^\s*\|\s*Processes", line.text) or re.match(r"^\s*\|\s*MIG devices", line.text):
            current = None
        yield from _mig(line)


def _device(index: int, first: re.Match, line: Line) -> Iterator[Fact]:
    name = first[2].strip()
    yield Fact(("gpu", index, "vendor"), "nvidia", line, SOURCE)
    yield Fact(("gpu", index, "name"), name, line, SOURCE)
    yield Fact(("gpu", index, "pci_bus_id"), first[4], line, SOURCE)
    if first[3] in ("WDDM", "TCC", "MCDM"):
        yield Fact(("platform", "system"), "windows", line, SOURCE)
    if first[5] != "N/A":
        yield Fact(("gpu", index, "display"), first[5] == "On", line, SOURCE)
    if first[6] and first[6].isdigit():
        yield Fact(("gpu", index, "ecc_errors"), int(first[6]), line, SOURCE)


def _detail(index: int, line: Line) -> Iterator[Fact]:
    if memory := _MEMORY.search(line.text):
        used, total = int(memory[1]) * 2**20, int(memory[2]) * 2**20
        yield Fact(("gpu", index, "memory_bytes"), total, line, SOURCE)
        yield Fact(("gpu", index, "free_bytes"), max(0, total - used), line, SOURCE)
    if power := _POWER.search(line.text):
        yield Fact(("gpu", index, "power_watts"), float(power[1]), line, SOURCE)
        yield Fact(("gpu", index, "power_limit_watts"), float(power[2]), line, SOURCE)
    if memory and (busy := _BUSY.search(line.text, memory.end())):
        yield Fact(("gpu", index, "utilization"), int(busy[1]), line, SOURCE)
    if _MIG_MODE.search(line.text):
        yield Fact(("gpu", index, "mig"), True, line, SOURCE)


def _mig(line: Line) -> Iterator[Fact]:
    """Rows of the table of MIG devices, and of processes that run in an instance (GI and CI other than N/A)."""
    if row := _MIG_ROW.match(line.text):
        index, total = int(row[1]), int(row[6]) * 2**20
        yield Fact(("gpu", index, "mig"), True, line, SOURCE)
        yield Fact(("gpu", index, f"slice.{row[2]}.{row[3]}"), {"memory_bytes": total}, line, SOURCE)
    elif process := _PROCESS.match(line.text):
        index = int(process[1])
        yield Fact(("gpu", index, "vendor"), "nvidia", line, SOURCE)
        yield Fact(("gpu", index, "mig"), process[2] != "N/A", line, SOURCE)
        if "C" in process[5]:
            yield Fact(("gpu", index, f"process.{process[4]}"), int(process[7]) * 2**20, line, SOURCE)
        if process[2] != "N/A":
            yield Fact(("gpu", index, f"slice.{process[2]}.{process[3]}"), {}, line, SOURCE)
    elif (old := _OLD_PROCESS.match(line.text)) and "C" in old[3] and not known_model(old[4]):
        yield Fact(("gpu", int(old[1]), f"process.{old[2]}"), int(old[5]) * 2**20, line, SOURCE)
