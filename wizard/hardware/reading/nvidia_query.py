"""Parts of `nvidia-smi -q`: one block for each GPU, `Key : value` lines under headings."""

from __future__ import annotations

import re
from collections.abc import Iterator

from wizard.hardware.reading.lines import Fact, Line, Paste

SOURCE = "nvidia-smi -q"
_BLOCK = re.compile(r"^GPU\s+([0-9A-F]{4,8}:[0-9A-F]{2}:[0-9A-F]{2}\.\d)\s*$", re.I)
_PAIR = re.compile(r"^(\s*)([A-Z][\w ./()-]*?)\s*:\s*(.*?)\s*$")
_HEADING = re.compile(r"^(\s*)([A-Z][\w /()-]*)\s*$")


def read_query_blocks(paste: Paste) -> Iterator[Fact]:
    blocks = [line for line in paste.lines if _BLOCK.match(line.text)]
    if not blocks and not paste.has(r"^\s*(Product Name|Attached GPUs|FB Memory Usage|Fabric)\s*(:|$)"):
        return
    current, heading, above = -1 if blocks else 0, "", ""
    for line in paste.lines:
        if block := _BLOCK.match(line.text):
            current, heading, above = current + 1, "", ""
            yield Fact(("gpu", current, "vendor"), "nvidia", line, SOURCE)
            yield Fact(("gpu", current, "pci_bus_id"), block[1], line, SOURCE)
        elif pair := _PAIR.match(line.text):
            yield from _value(current, heading, above, pair[2].strip(), pair[3], line)
        elif title := _HEADING.match(line.text):
            above, heading = heading, title[2].strip()


def _value(index: int, heading: str, above: str, key: str, value: str, line: Line) -> Iterator[Fact]:
    where = f"{above} {heading}"
    if key == "Driver Version" and re.match(r"\d", value):
        yield Fact(("driver", "nvidia"), value, line, SOURCE)
    elif key == "CUDA Version" and re.match(r"\d", value):
        yield Fact(("driver", "cuda"), value, line, SOURCE)
    elif key == "Attached GPUs" and value.isdigit():
        for at in range(min(int(value), 64)):
            yield Fact(("gpu", at, "vendor"), "nvidia", line, SOURCE)
    if index < 0:
        return
    number = re.match(r"\d+(?:\.\d+)?", value)
    if key == "Product Name" and value:
        yield Fact(("gpu", index, "vendor"), "nvidia", line, SOURCE)
        yield Fact(("gpu", index, "name"), value, line, SOURCE)
    elif key == "GPU UUID":
        yield Fact(("gpu", index, "uuid"), value, line, SOURCE)
    elif key in ("Display Active", "Display Attached") and value in ("Enabled", "Yes"):
        yield Fact(("gpu", index, "display"), True, line, SOURCE)
    elif heading == "MIG Mode" and key == "Current":
        yield Fact(("gpu", index, "mig"), value == "Enabled", line, SOURCE)
    elif heading.startswith("FB Memory") and key in ("Total", "Free") and number:
        field = "memory_bytes" if key == "Total" else "free_bytes"
        yield Fact(("gpu", index, field), int(float(number[0])) * 2**20, line, SOURCE)
    elif "Link Width" in where and key in ("Current", "Max") and number:
        yield Fact(("gpu", index, "pcie_width" if key == "Current" else "pcie_max_width"), int(number[0]), line, SOURCE)
    elif "PCIe Generation" in where and key == "Max" and number:
        yield Fact(("gpu", index, "pcie_generation"), int(number[0]), line, SOURCE)
    elif heading == "Utilization" and key in ("Gpu", "GPU") and number:
        yield Fact(("gpu", index, "utilization"), int(number[0]), line, SOURCE)
    elif key in ("Power Draw", "Average Power Draw", "Instantaneous Power Draw") and number:
        yield Fact(("gpu", index, "power_watts"), float(number[0]), line, SOURCE)
    elif key in ("Power Limit", "Current Power Limit") and number:
        yield Fact(("gpu", index, "power_limit_watts"), float(number[0]), line, SOURCE)
    elif heading == "Fabric" and key == "State":
        yield Fact(("gpu", index, "fabric"), {"n/a": "not supported"}.get(value.lower(), value.lower()), line, SOURCE)
