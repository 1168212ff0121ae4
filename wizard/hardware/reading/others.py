"""Accelerators of other makers: Intel (xpu-smi, sycl-ls), Gaudi (hl-smi), Ascend (npu-smi), Apple, PCI lists."""

from __future__ import annotations

import re
from collections.abc import Iterator

from wizard.hardware.models import apple_chip, known_model, memory_bytes
from wizard.hardware.reading.lines import Fact, Paste


def read_others(paste: Paste) -> Iterator[Fact]:
    yield from _intel(paste)
    yield from _gaudi(paste)
    yield from _ascend(paste)
    yield from _apple(paste)
    yield from _lspci(paste)


def _intel(paste: Paste) -> Iterator[Fact]:
    """xpu-smi's table (`| 0 | Device Name: Intel(R) ... |`) and sycl-ls (`[level_zero:gpu:0] ... Intel(R) ...`)."""
    for line, match in paste.find(r"^\s*\|?\s*(\d+)\s*\|\s*Device Name:\s*(Intel[^|]+)"):
        yield Fact(("gpu", int(match[1]), "vendor"), "intel", line, "xpu-smi")
        yield Fact(("gpu", int(match[1]), "name"), match[2].strip(), line, "xpu-smi")
    for line, match in paste.find(r"level_zero:(?:gpu:?|gpu\]\[level_zero:)(\d+)\]?.*?(Intel\(R\)[^\[,]+)"):
        yield Fact(("gpu", int(match[1]), "vendor"), "intel", line, "sycl-ls")
        yield Fact(("gpu", int(match[1]), "name"), match[2].strip(), line, "sycl-ls")


def _gaudi(paste: Paste) -> Iterator[Fact]:
    """hl-smi: `|   0  HL-225              N/A  | 0000:33:00.0     N/A |`."""
    for line, match in paste.find(r"^\s*\|\s*(\d+)\s+(HL-\d+\w*)\s+"):
        yield Fact(("gpu", int(match[1]), "vendor"), "habana", line, "hl-smi")
        model = known_model(match[2])
        yield Fact(("gpu", int(match[1]), "name"), model.name if model else match[2], line, "hl-smi")


def _ascend(paste: Paste) -> Iterator[Fact]:
    """npu-smi: `| 0     910B3               | OK | 93.6 ...`."""
    for line, match in paste.find(r"^\s*\|\s*(\d+)\s+((?:Ascend)?\d{3}[A-Z]?\d?)\s*\|\s*(?:OK|Warning|Alarm)"):
        yield Fact(("gpu", int(match[1]), "vendor"), "ascend", line, "npu-smi")
        yield Fact(("gpu", int(match[1]), "name"), f"Ascend {match[2].removeprefix('Ascend')}", line, "npu-smi")


def _apple(paste: Paste) -> Iterator[Fact]:
    mac = r"\bmacos\b|\bmac\s?os\b|\bos x\b|\bdarwin\b|macbook|mac ?mini|mac studio|\bmbp\b|\bimac\b|chip:\s*apple"
    about_mac = paste.has(mac)
    for line, _ in paste.find(mac):
        yield Fact(("platform", "system"), "macos", line, "text")
    for line in paste.lines:
        chip = apple_chip(line.text if not about_mac else f"mac {line.text}")
        if chip and (about_mac or "apple" in line.text.lower()):
            yield Fact(("gpu", 0, "vendor"), "apple", line, "text")
            yield Fact(("gpu", 0, "name"), chip, line, "text")
            yield Fact(("cpu", "model"), chip, line, "text")
            yield Fact(("platform", "system"), "macos", line, "text")
            break
    if about_mac:
        for line, match in paste.find(r"(?:memory:\s*)?(\d+)\s*(GB|GiB)\b\s*(?:RAM|unified|memory|$)"):
            yield Fact(("memory", "total_bytes"), int(match[1]) * 2**30, line, "text")


def _lspci(paste: Paste) -> Iterator[Fact]:
    """`3D controller: NVIDIA Corporation GA100 [A100 PCIe 40GB]`, one line a device, in bus order."""
    count = 0
    pattern = r"^\s*((?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f])?\s*(?:\S+\s)?(?:3D|VGA compatible|Display) controller[^:]*:\s*(.+)"
    index: int | None = None
    for line in paste.lines:
        match = re.match(pattern, line.text, re.I)
        if match:
            index = None
            vendor = "nvidia" if "nvidia" in match[2].lower() else "amd" if re.search(r"\bAMD|Advanced Micro", match[2]) else None
            if vendor is None:
                continue
            model = known_model(match[2])
            if vendor == "amd" and model is None:  # integrated graphics and server display chips
                continue
            index, count = count, count + 1
            yield Fact(("gpu", index, "vendor"), vendor, line, "lspci")
            if model:
                yield Fact(("gpu", index, "name"), model.name, line, "lspci")
                if size := memory_bytes(model, match[2]):
                    yield Fact(("gpu", index, "memory_bytes"), size, line, "lspci")
            if match[1]:
                yield Fact(("gpu", index, "pci_bus_id"), match[1], line, "lspci")
        elif index is not None and (width := re.search(r"LnkSta:.*Width x(\d+)", line.text)):
            yield Fact(("gpu", index, "pcie_width"), int(width[1]), line, "lspci -vv")
        elif index is not None and (most := re.search(r"LnkCap:.*Width x(\d+)", line.text)):
            yield Fact(("gpu", index, "pcie_max_width"), int(most[1]), line, "lspci -vv")
        elif re.match(r"^(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.\d\s", line.text):
            index = None
