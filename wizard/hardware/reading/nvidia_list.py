"""Lines that number GPUs: `nvidia-smi -L`, `--query-gpu`, collect_env, and what people write in their own words."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator

from wizard.hardware.models import known_model
from wizard.hardware.reading.lines import Fact, Line, Paste, numbers, size_bytes

SOURCE = "list of GPUs"
_NUMBERED = re.compile(r"^[\s|*#-]*(?:[\w ]+:\s*)?(?:GPU|CUDA|Device|cuda:|card)s?\s*#?\[?(\d+(?:\s*[,-]\s*\d+)*)\]?\s*(?:[:=(|]|--?>)\s*(.+)", re.I)
_BARE = re.compile(r"^\s*\[?(\d{1,2})\]?\s*[:.)|]\s+(\S.+)")
_GPUSTAT = re.compile(r"^\s*\[(\d{1,2})\]\s+(\S.+)")
_UUID = re.compile(r"(GPU-[0-9a-fA-F-]{6,}|GPU-[xX0-9a-fA-F-]{6,})")
_MIG = re.compile(r"^\s*MIG\s+(\S+)\s+Device\s+(\d+):\s*\(?(?:UUID:\s*)?(MIG-[^\s)]+)?")
_SIZE = re.compile(r"(\d[\d,]*(?:\.\d+)?)\s*(MiB|MB|GiB|GB|Gi)\b", re.I)
_CAPABILITY = re.compile(r"(?:sm_?|compute(?:\s*capability)?\s*[:=]?\s*|cc\s*[:=]?\s*)(\d{1,2})[._]?(\d)\b", re.I)
_WIDTH = re.compile(r"(?:pcie?\b[^|;]{0,20}?|link width\s*:?\s*|width\s*)x?\s*(\d{1,2})x?\s*(?:lanes?)?\b(?![.\dGg])", re.I)
_LANES = re.compile(r"\bx(\d{1,2})\b(?:\s*lanes?)?|\b(\d{1,2})x\b", re.I)
_MAX_WIDTH = re.compile(r"max\.?\s*(?:of\s*)?x?(\d{1,2})|of\s+x(\d{1,2})|\bx\d+\s*(?:/|@)\s*x(\d{1,2})", re.I)
_GENERATION = re.compile(r"\bgen\.?\s*(?:up to\s*)?(\d)\b|pcie?\s*(\d)\.0", re.I)
_BUS = re.compile(r"\b((?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.\d)\b", re.I)
_POWER = re.compile(r"(?<![\d/])(\d+(?:\.\d+)?)\s*W\b(?:\s*/\s*(\d+(?:\.\d+)?)\s*W)?")


def read_gpu_lines(paste: Paste) -> Iterator[Fact]:
    """`GPU 0: NVIDIA A10 | 24 GiB | PCIe x4`; lines without a number belong to the GPU named last."""
    current: list[int] = []
    for line in paste.lines:
        if slice_ := _MIG.match(line.text):
            for index in current:
                yield Fact(("gpu", index, "mig"), True, line, SOURCE)
                fields = {"name": f"MIG {slice_[1]}", "uuid": slice_[3]}
                if size := re.search(r"\.(\d+)gb", slice_[1]):
                    fields["memory_bytes"] = int(size[1]) * 2**30
                yield Fact(("gpu", index, f"slice.L.{slice_[2]}"), fields, line, SOURCE)
            continue
        found = _NUMBERED.match(line.text)
        if found is None and (bare := _BARE.match(line.text) or _GPUSTAT.match(line.text)) and known_model(bare[2]):
            found = bare
        indices = numbers(found[1]) if found else []
        if indices and len(indices) <= 64:
            current = indices
            yield from _described(current, found[2], line)
        elif current and re.match(r"^\s+(?:PCIe?|link|width|bus|memory|vram|power)\b", line.text, re.I):
            yield from _link(current, line.text, line)
        elif current and not line.text.strip():
            current = []


def _described(indices: list[int], text: str, line: Line) -> Iterator[Fact]:
    model = known_model(text)
    capability = _CAPABILITY.search(text) or _CAPABILITY.search(line.text)
    bare = re.fullmatch(r"\s*(\d{1,2})\.(\d)\s*", text) if "apability" in line.text else None
    for index in indices:
        if model:
            head = re.split(r"\s*\((?:UUID|sm)|\s*\|\s*|\)|,\s|\s+(?=(?:UUID|sm_)\b)", text, maxsplit=1)[0].strip()
            yield Fact(("gpu", index, "vendor"), model.vendor, line, SOURCE)
            yield Fact(("gpu", index, "name"), head if known_model(head) is model and len(head) < 60 else model.name, line, SOURCE)
        elif re.match(r"\s*(NVIDIA|Tesla|GeForce|Quadro)\s", text) and not re.search(r"version|driver", text, re.I):
            yield Fact(("gpu", index, "vendor"), "nvidia", line, SOURCE)
            yield Fact(("gpu", index, "name"), re.split(r"\s*[(|]", text)[0].strip(), line, SOURCE)
        if match := capability or bare:
            yield Fact(("gpu", index, "vendor"), "nvidia", line, SOURCE)
            yield Fact(("gpu", index, "compute_capability"), f"{match[1]}.{match[2]}", line, SOURCE)
        if uuid := _UUID.search(text):
            yield Fact(("gpu", index, "uuid"), uuid[1], line, SOURCE)
        if model and (size := _SIZE.search(re.sub(r"\d+\s*(MiB|GB|GiB)\s*(free|used)", "", text))):
            yield Fact(("gpu", index, "memory_bytes"), size_bytes(size[1], size[2]), line, SOURCE)
        if free := re.search(r"(\d[\d.]*)\s*(MiB|MB|GiB|GB)\s*free", text, re.I):
            yield Fact(("gpu", index, "free_bytes"), size_bytes(free[1], free[2]), line, SOURCE)
    yield from _link(indices, text, line, about_pcie=re.search(r"pcie?\b(?!-?\d\dGB)|lanes|width", text, re.I) is not None)
    if driver := re.search(r"driver\s*(?:version)?\s*:?\s*(\d{3}\.[\d.]+)", text, re.I):
        yield Fact(("driver", "nvidia"), driver[1], line, SOURCE)


def _link(indices: list[int], text: str, line: Line, about_pcie: bool = True) -> Iterator[Fact]:
    """PCIe width now and at most, generation, bus, power."""
    most = _MAX_WIDTH.search(text) if about_pcie else None
    generation = _GENERATION.search(text) if about_pcie else None
    now = None
    if about_pcie:
        lanes = _LANES.search(re.sub(r"\(?(?:gpu\s*)?max[^)|]*\)?", "", text, flags=re.I))
        now = lanes and (lanes[1] or lanes[2])
    bus, power = _BUS.search(text), _POWER.search(text)
    for index in indices:
        if now and int(now) in (1, 2, 4, 8, 16, 32):
            yield Fact(("gpu", index, "pcie_width"), int(now), line, SOURCE)
        if most:
            yield Fact(("gpu", index, "pcie_max_width"), int(next(filter(None, most.groups()))), line, SOURCE)
        if generation:
            yield Fact(("gpu", index, "pcie_generation"), int(generation[1] or generation[2]), line, SOURCE)
        if bus:
            yield Fact(("gpu", index, "pci_bus_id"), bus[1], line, SOURCE)
        if power:
            yield Fact(("gpu", index, "power_watts"), float(power[1]), line, SOURCE)
            if power[2]:
                yield Fact(("gpu", index, "power_limit_watts"), float(power[2]), line, SOURCE)


#: Columns of --query-gpu by how their names begin.
_COLUMNS = {
    "index": "index", "name": "name", "gpu_name": "name", "uuid": "uuid", "gpu_uuid": "uuid",
    "memory.total": "memory_bytes", "memory.free": "free_bytes", "memory.used": "used",
    "pci.bus_id": "pci_bus_id", "gpu_bus_id": "pci_bus_id", "driver_version": "driver", "compute_cap": "compute_capability",
    "pcie.link.width.current": "pcie_width", "pcie.link.width.max": "pcie_max_width",
    "pcie.link.gen.current": "pcie_now", "pcie.link.gen.max": "pcie_generation", "utilization.gpu": "utilization",
    "power.draw": "power_watts", "power.limit": "power_limit_watts", "mig.mode.current": "mig",
    "display_active": "display", "display_mode": "display_mode",
    "ecc.errors.uncorrected.volatile.total": "ecc_errors",
}


def read_query(paste: Paste) -> Iterator[Fact]:
    """`nvidia-smi --query-gpu=... --format=csv`, with its header, or rows alone that name a model."""
    header: list[str] = []
    count = 0
    for line in paste.lines:
        cells = next(csv.reader([line.text], skipinitialspace=True), [])
        cells = [cell.strip() for cell in cells]
        names = [_COLUMNS.get(re.sub(r"\s*\[.*", "", cell).lower(), "") for cell in cells]
        if len(cells) > 1 and sum(bool(name) for name in names) * 2 > len(cells):
            header, count = names, 0
            continue
        if header and len(cells) == len(header):
            index = dict(zip(header, cells, strict=True)).get("index", "")
            yield from _row(int(index) if index.isdigit() else count, zip(header, cells, strict=True), line)
            count += 1
        elif len(cells) >= 2 and not header:
            row = _guess_columns(cells)
            if row is not None:
                index = row.pop("index", None)
                yield from _row(int(index) if index is not None else count, row.items(), line)
                count += 1


#: How nvidia-smi writes names and the cells beside them; people write neither that way.
_PRINTED = re.compile(r"(?:NVIDIA|Tesla|GeForce|Quadro|TITAN|GRID)\s[\w .-]{2,40}$|[AHL]\d+\S*$")
_CELL = re.compile(r"\d+ MiB|\d{3}\.\d+(?:\.\d+)?|GPU-[\w-]+|[0-9A-F]{4,8}:[0-9A-F]{2}:[0-9A-F]{2}\.\d")


def _guess_columns(cells: list[str]) -> dict[str, str] | None:
    """Rows printed with `noheader`: a model's name, a memory size with its unit, a number in front for the index."""
    at = next((at for at, cell in enumerate(cells[:2]) if known_model(cell) and _PRINTED.match(cell)), None)
    if at is None or not any(_CELL.fullmatch(cell) for cell in cells[at + 1 :]):
        return None
    if at == 1 and not cells[0].isdigit():
        return None
    row = {"name": cells[at]} | ({"index": cells[0]} if at == 1 else {})
    sizes = [cell for cell in cells if re.fullmatch(r"\d+ MiB", cell)]
    if sizes:
        row["memory_bytes"] = max(sizes, key=lambda cell: int(cell.split()[0]))
    for cell in cells:
        if re.fullmatch(r"\d{3}\.\d+(\.\d+)?", cell):
            row["driver"] = cell
        elif cell.startswith("GPU-"):
            row["uuid"] = cell
    return row


def _row(index: int, cells, line: Line) -> Iterator[Fact]:
    source, used, total = "nvidia-smi --query-gpu", None, None
    yield Fact(("gpu", index, "vendor"), "nvidia", line, source)
    for name, cell in cells:
        number = re.match(r"-?\d+(?:\.\d+)?", cell)
        if name in ("name", "uuid", "pci_bus_id") and cell or name == "compute_capability" and re.fullmatch(r"\d+\.\d", cell):
            yield Fact(("gpu", index, name), cell, line, source)
        elif name == "driver":
            yield Fact(("driver", "nvidia"), cell, line, source)
        elif name in ("memory_bytes", "free_bytes", "used") and number:
            unit = re.search(r"[KMG]i?B", cell)
            size = size_bytes(number[0], unit[0] if unit else "MiB")
            used, total = size if name == "used" else used, size if name == "memory_bytes" else total
            if name != "used":
                yield Fact(("gpu", index, name), size, line, source)
        elif name in ("pcie_width", "pcie_max_width", "pcie_generation", "utilization", "ecc_errors") and number:
            yield Fact(("gpu", index, name), int(float(number[0])), line, source)
        elif name in ("power_watts", "power_limit_watts") and number:
            yield Fact(("gpu", index, name), float(number[0]), line, source)
        elif name in ("mig", "display"):
            yield Fact(("gpu", index, name), cell.lower() in ("enabled", "yes"), line, source)
    if used is not None and total is not None:
        yield Fact(("gpu", index, "free_bytes"), total - used, line, source)


