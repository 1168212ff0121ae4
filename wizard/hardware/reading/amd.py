"""rocm-smi, amd-smi, rocminfo and what torch's collect_env prints on ROCm."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from wizard.hardware.models import known_model
from wizard.hardware.reading.lines import Fact, Line, Paste, size_bytes

SOURCE = "rocm-smi"
_INDEXED = re.compile(r"^\s*GPU\s*\[(\d+)\]\s*:\s*(.+?)\s*:\s*(.*?)\s*$")
_AMD_BLOCK = re.compile(r"^\s*GPU:\s*(\d+)\s*$")
_AMD_KEY = re.compile(r"^\s*([A-Z][A-Z_ ]+):\s*(.*?)\s*$")
#: `0       1     0x740c,   12345  34.0°C  90.0W  N/A, N/A, 0  800Mhz  1600Mhz  0%  auto  560.0W  0%  0%`
_CONCISE = re.compile(r"^\s*(\d{1,2})\s+(?:\[?\d*\s*:?|\d+)\s*.*?(?:\d+(?:\.\d+)?)\s*°?[cC]\b.*?(\d+(?:\.\d+)?)\s*W\b.*%\s*$")
_MONITOR = re.compile(r"^\s*(\d{1,2})\s+(\d+)\s*W\s+\d+\s*°?C")


def read_amd(paste: Paste) -> Iterator[Fact]:
    yield from _json(paste)
    yield from _indexed(paste)
    yield from _blocks(paste)
    yield from _rocminfo(paste)
    rocm = paste.has(r"ROCm System Management|rocm-smi|amd-smi|AMD-SMI|VRAM%|MEM_CLOCK")
    for line in paste.lines:
        if rocm and (row := _CONCISE.match(line.text) or _MONITOR.match(line.text)):
            index = int(row[1])
            yield Fact(("gpu", index, "vendor"), "amd", line, SOURCE)
            yield Fact(("gpu", index, "power_watts"), float(row[2]), line, SOURCE)
            if model := known_model(line.text):
                yield Fact(("gpu", index, "name"), model.name, line, SOURCE)
    for line, match in paste.find(r"\bROCm(?:\s+version|\s+runtime)?\s*[:=]?\s*v?(\d+\.\d+(?:\.\d+)?)|ROCM-?VERSION\s*:\s*(\d[\d.]+)"):
        yield Fact(("driver", "rocm"), match[1] or match[2], line, SOURCE)


def _indexed(paste: Paste) -> Iterator[Fact]:
    """`GPU[0] : Card Series: AMD Instinct MI250X`."""
    used: dict[int, int] = {}
    totals: dict[int, int] = {}
    for line in paste.lines:
        row = _INDEXED.match(line.text)
        if not row:
            continue
        index, key, value = int(row[1]), row[2].strip().lower(), row[3]
        yield Fact(("gpu", index, "vendor"), "amd", line, SOURCE)
        if key in ("card series", "card model", "device name", "marketing name") and not value.startswith("0x") and value:
            yield Fact(("gpu", index, "name"), value, line, SOURCE)
        elif key in ("gfx version", "target_graphics_version"):
            yield Fact(("gpu", index, "architecture"), value, line, SOURCE)
        elif key.startswith("vram total memory"):
            totals[index] = int(value) if value.isdigit() else 0
            yield Fact(("gpu", index, "memory_bytes"), totals[index], line, SOURCE)
        elif key.startswith("vram total used") and value.isdigit():
            used[index] = int(value)
            if totals.get(index):
                yield Fact(("gpu", index, "free_bytes"), totals[index] - used[index], line, SOURCE)
        elif "pci bus" in key:
            yield Fact(("gpu", index, "pci_bus_id"), value, line, SOURCE)
        elif "numa node" in key and value.strip("-").isdigit() and int(value) >= 0:
            yield Fact(("gpu", index, "numa_node"), int(value), line, SOURCE)


def _blocks(paste: Paste) -> Iterator[Fact]:
    """`GPU: 0` and indented upper-case keys, as amd-smi list and static print them."""
    index: int | None = None
    vram = False
    for line in paste.lines:
        if block := _AMD_BLOCK.match(line.text):
            index = int(block[1])
            yield Fact(("gpu", index, "vendor"), "amd", line, "amd-smi")
        elif index is not None and (pair := _AMD_KEY.match(line.text)):
            key, value = pair[1].strip(), pair[2]
            vram = key == "VRAM" or (vram and key not in ("ASIC", "BUS", "BOARD"))
            if key == "MARKET_NAME" and value not in ("", "N/A"):
                yield Fact(("gpu", index, "name"), value, line, "amd-smi")
            elif key == "TARGET_GRAPHICS_VERSION":
                yield Fact(("gpu", index, "architecture"), value, line, "amd-smi")
            elif key == "BDF":
                yield Fact(("gpu", index, "pci_bus_id"), value, line, "amd-smi")
            elif key == "SIZE" and vram and (size := re.match(r"(\d+)\s*([MG]i?B)", value)):
                yield Fact(("gpu", index, "memory_bytes"), size_bytes(size[1], size[2]), line, "amd-smi")


def _rocminfo(paste: Paste) -> Iterator[Fact]:
    """Agents of rocminfo: CPUs come as agents too, GPUs have a gfx name."""
    count, marketing = -1, None
    for line in paste.lines:
        if re.match(r"^\s*Name:\s+gfx", line.text):
            count += 1
            name = line.text.split()[-1]
            yield Fact(("gpu", count, "vendor"), "amd", line, "rocminfo")
            yield Fact(("gpu", count, "architecture"), name.split(":")[0], line, "rocminfo")
            marketing = count
        elif (shown := re.match(r"^\s*Marketing Name:\s+(\S.*)$", line.text)) and marketing is not None:
            if known_model(shown[1]):
                yield Fact(("gpu", marketing, "name"), shown[1].strip(), line, "rocminfo")
            marketing = None


def _json(paste: Paste) -> Iterator[Fact]:
    """`rocm-smi ... --json`: {"card0": {...}}."""
    start = paste.text.find('{"card0"')
    if start < 0:
        return
    try:
        cards, _ = json.JSONDecoder().raw_decode(paste.text[start:])
    except ValueError:
        return
    line: Line = next((line for line in paste.lines if '"card0"' in line.text), paste.lines[0])
    for key, card in cards.items():
        number = re.fullmatch(r"card(\d+)", key)
        if not number or not isinstance(card, dict):
            continue
        index = int(number[1])
        yield Fact(("gpu", index, "vendor"), "amd", line, "rocm-smi --json")
        for title, field in (("card series", "name"), ("card model", "name"), ("gfx version", "architecture")):
            value = next((str(item) for name, item in card.items() if name.lower() == title), "")
            if value and not value.startswith("0x"):
                yield Fact(("gpu", index, field), value, line, "rocm-smi --json")
        total = card.get("VRAM Total Memory (B)", "")
        if str(total).isdigit():
            yield Fact(("gpu", index, "memory_bytes"), int(total), line, "rocm-smi --json")
