"""AMD GPUs: the kernel's own folder tells that they are there, amd-smi or rocm-smi what they are."""

from __future__ import annotations

import json
import re
from typing import Any

from wizard.hardware.inventory import Accelerator, Link
from wizard.hardware.sources import Probed, Sources
from wizard.hardware.topology import parse_rocm_types

_TIMEOUT_S = 10.0


def probe_amd(sources: Sources) -> Probed:
    """Devices as RCCL sees them: an MI250X card is two of them."""
    nodes = _kfd_gpus(sources)
    if not nodes and not sources.exists("/dev/kfd"):
        return Probed()
    devices, reason = _from_rocm_smi(sources)
    unknown: dict[str, str] = {}
    if not devices:
        devices = [
            Accelerator(index=index, vendor="amd", architecture=node.get("arch"), memory_bytes=node.get("memory"))
            for index, node in enumerate(nodes)
        ]
        unknown["amd"] = f"{reason}; names come from the kernel only" if devices else f"/dev/kfd exists, but {reason}"
    for device, node in zip(devices, nodes, strict=False):
        device.architecture = device.architecture or node.get("arch")
        device.memory_bytes = device.memory_bytes or node.get("memory")
    hidden = sources.environ.get("HIP_VISIBLE_DEVICES", sources.environ.get("ROCR_VISIBLE_DEVICES"))
    if hidden is not None:
        shown = {part.strip() for part in hidden.split(",")}
        for device in devices:
            device.visible = str(device.index) in shown or (device.uuid or "-") in shown
    drivers = {"rocm": version} if (version := sources.read("/opt/rocm/.info/version")) else {}
    return Probed({"accelerators": devices, "links": _links(sources, devices, unknown), "drivers": drivers}, unknown)


def _kfd_gpus(sources: Sources) -> list[dict[str, Any]]:
    """The compute driver's topology: nodes with a gfx version are GPUs, in the order ROCm counts."""
    base, found = "/sys/class/kfd/kfd/topology/nodes", []
    for name in sorted(sources.names(base), key=lambda text: int(text) if text.isdigit() else -1):
        text = sources.read(f"{base}/{name}/properties") or ""
        version = re.search(r"^gfx_target_version (\d+)", text, re.M)
        if not version or int(version[1]) == 0:
            continue
        number = int(version[1])
        arch = f"gfx{number // 10000}{number // 100 % 100:x}{number % 100:x}"
        sizes = [
            int(size)
            for bank in sources.names(f"{base}/{name}/mem_banks")
            for size in re.findall(
                r"^size_in_bytes (\d+)", sources.read(f"{base}/{name}/mem_banks/{bank}/properties") or "", re.M
            )
        ]
        found.append({"arch": arch, "memory": max(sizes) if sizes else None})
    return found


def _from_rocm_smi(sources: Sources) -> tuple[list[Accelerator], str]:
    output = sources.run(
        ["rocm-smi", "--showproductname", "--showmeminfo", "vram", "--showuniqueid", "--showbus", "--json"], _TIMEOUT_S
    )
    if output.text is None:
        return _from_amd_smi(sources, output.reason or "rocm-smi printed nothing")
    try:
        cards = json.loads(output.text[output.text.index("{") :])
    except ValueError:
        return _from_amd_smi(sources, "the output of rocm-smi could not be read")
    devices = []
    for key, card in cards.items():
        number = re.fullmatch(r"card(\d+)", key)
        if not number or not isinstance(card, dict):
            continue
        total, used = (_int(card.get(f"VRAM Total {part}Memory (B)")) for part in ("", "Used "))
        devices.append(
            Accelerator(
                index=len(devices),
                vendor="amd",
                name=_name(card),
                memory_bytes=total,
                free_bytes=total - used if total is not None and used is not None else None,
                architecture=(card.get("GFX Version") or None),
                uuid=card.get("Unique ID"),
                pci_bus_id=card.get("PCI Bus"),
            )
        )
    return devices, "rocm-smi listed no card"


def _from_amd_smi(sources: Sources, reason: str) -> tuple[list[Accelerator], str]:
    output = sources.run(["amd-smi", "static", "--asic", "--vram", "--json"], _TIMEOUT_S)
    if output.text is None:
        return [], f"{reason}; {output.reason}"
    try:
        data = json.loads(output.text[re.search(r"[\[{]", output.text).start() :])
    except (ValueError, AttributeError):
        return [], "the output of amd-smi could not be read"
    rows = data.get("gpu_data", []) if isinstance(data, dict) else data
    devices = []
    for row in rows:
        asic, vram = row.get("asic") or {}, row.get("vram") or {}
        size = vram.get("size")
        size = _int(size.get("value") if isinstance(size, dict) else size)
        devices.append(
            Accelerator(
                index=_int(row.get("gpu")) or len(devices),
                vendor="amd",
                name=asic.get("market_name"),
                architecture=asic.get("target_graphics_version"),
                memory_bytes=size * 2**20 if size is not None else None,
            )
        )
    return devices, "amd-smi listed no GPU"


def _links(sources: Sources, devices: list[Accelerator], unknown: dict[str, str]) -> list[Link]:
    if len(devices) < 2:
        return []
    output = sources.run(["rocm-smi", "--showtopotype"], _TIMEOUT_S)
    links = parse_rocm_types(output.text or "")
    if not links:
        unknown["links"] = output.reason or "the output of rocm-smi --showtopotype could not be read"
    return links


def _name(card: dict[str, Any]) -> str | None:
    for key in ("Card Series", "Card series", "Card Model", "Card model"):
        if card.get(key) and not str(card[key]).startswith("0x"):
            return str(card[key])
    return None


def _int(value: Any) -> int | None:
    try:
        return int(value)
    except (TypeError, ValueError):
        return None
