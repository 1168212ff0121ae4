"""The inventory as a person reads it."""

from __future__ import annotations

from wizard.formatting import NA, gibibytes
from wizard.hardware.inventory import Accelerator, HardwareInventory

_WIDTH = 12


def inventory_lines(inventory: HardwareInventory) -> list[str]:
    """A few aligned lines; what could not be read comes last, with the reason."""
    lines = [_line("machine", _platform(inventory)), _line("cpu", _cpu(inventory)), _line("memory", _memory(inventory))]
    if not inventory.accelerators:
        lines.append(_line("gpu", inventory.unknown.get("accelerators", "none found")))
    lines += [_line("gpu" if at == 0 else "", _gpu(device)) for at, device in enumerate(inventory.accelerators)]
    if inventory.links:
        kinds: dict[str, int] = {}
        for link in inventory.links:
            kinds[link.path] = kinds.get(link.path, 0) + 1
        lines.append(_line("links", ", ".join(f"{count} x {path}" for path, count in sorted(kinds.items()))))
    for at, item in enumerate(
        item for item in inventory.network.interfaces if item.up and item.kind not in ("loopback", "virtual")
    ):
        speed = f"{item.speed_mbit / 1000:g} Gbit/s" if item.speed_mbit else "speed unknown"
        default = ", default route" if item.name == inventory.network.default_interface else ""
        lines.append(
            _line(
                "network" if at == 0 else "",
                f"{item.name}: {speed}{default}, {', '.join(item.addresses[:2]) or 'no address'}",
            )
        )
    for port in inventory.network.rdma:
        rate = f"{port.rate_gbit:g} Gbit/s" if port.rate_gbit else "rate unknown"
        lines.append(
            _line("rdma", f"{port.device} port {port.port}: {port.link_layer or NA}, {port.state or NA}, {rate}")
        )
    lines.append(_line("software", _software(inventory) or NA))
    lines += [_line("sign", f"{sign.kind}: {sign.text}") for sign in inventory.signs]
    if inventory.environment:
        lines.append(_line("environment", ", ".join(f"{key}={value}" for key, value in inventory.environment.items())))
    lines += [_line("unknown", f"{name}: {reason}") for name, reason in inventory.unknown.items()]
    return lines


def _line(label: str, text: str) -> str:
    return f"{label:<{_WIDTH}}{text}".rstrip()


def _platform(inventory: HardwareInventory) -> str:
    platform = inventory.platform
    parts = [
        part
        for part in (
            inventory.host,
            platform.system.capitalize() if platform.system != "macos" else "macOS",
            platform.release,
        )
        if part
    ]
    if platform.wsl:
        parts.append(f"WSL{platform.wsl}")
    if platform.container:
        parts.append(f"in a container ({platform.container})")
    return ", ".join(parts)


def _cpu(inventory: HardwareInventory) -> str:
    cpu = inventory.cpu
    known = cpu.physical_cores or cpu.logical_cores or not inventory.from_text
    parts = [cpu.model or "unknown model", f"{cpu.usable_cores} usable cores" if known else "cores unknown"]
    if cpu.physical_cores and cpu.physical_cores != cpu.usable_cores:
        parts.append(f"of {cpu.physical_cores}")
    if cpu.sockets and cpu.sockets > 1:
        parts.append(f"{cpu.sockets} sockets")
    if len(cpu.numa) > 1:
        parts.append(f"{len(cpu.numa)} NUMA nodes")
    if cpu.quota_cores:
        parts.append(f"limited to {cpu.quota_cores:g} cores")
    if cpu.fast_bf16:
        parts.append("bf16 in hardware")
    return ", ".join(parts)


def _memory(inventory: HardwareInventory) -> str:
    memory = inventory.memory
    text = f"{gibibytes(memory.available_bytes)} available of {gibibytes(memory.total_bytes)}"
    if memory.limit_bytes:
        text += f", limited to {gibibytes(memory.limit_bytes)}"
    return text + (f", /dev/shm {gibibytes(memory.shm_total_bytes)}" if memory.shm_total_bytes else "")


def _gpu(device: Accelerator) -> str:
    parts = [f"{device.index}: {device.name or device.architecture or device.vendor}", gibibytes(device.memory_bytes)]
    if device.compute_capability:
        parts.append(f"compute {device.compute_capability}")
    if device.pcie_width:
        parts.append(f"PCIe x{device.pcie_width}")
    if device.numa_node is not None:
        parts.append(f"NUMA {device.numa_node}")
    if device.mig:
        parts.append(f"MIG, {len(device.slices)} slices")
    if not device.visible:
        parts.append("hidden by the environment")
    return ", ".join(parts)


def _software(inventory: HardwareInventory) -> str:
    software = inventory.software
    parts = [f"Python {software.python}" if software.python else None]
    build = software.torch
    if build:
        kind = (
            f"CUDA {build.cuda}" if build.cuda else f"ROCm {build.hip}" if build.hip else "XPU" if build.xpu else "CPU"
        )
        parts.append(f"torch {build.version} ({kind} build)")
    parts += [
        f"{name} {software.packages[name]}" for name in ("accelerate", "transformers") if name in software.packages
    ]
    parts += [f"{name} {version}" for name, version in software.drivers.items()]
    return ", ".join(part for part in parts if part)
