"""NVIDIA GPUs through NVML, the library behind nvidia-smi; the link matrix from `nvidia-smi topo -m`."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from types import ModuleType
from typing import Any

from wizard.hardware.inventory import Accelerator, Link, NicLink, Slice
from wizard.hardware.sources import Probed, Sources
from wizard.hardware.topology import parse_topo

#: A badly seated NVLink bridge can make nvidia-smi take minutes; that the matrix is unknown is then worth saying.
_TOPO_TIMEOUT_S = 15.0

_FABRIC = {0: "not supported", 1: "not started", 2: "in progress", 3: "completed"}


def probe_nvidia(sources: Sources, nvml: ModuleType | Any | None = None) -> Probed:
    """`nvml` replaces pynvml in tests."""
    if nvml is None:
        try:
            import pynvml as nvml
        except ImportError:
            return Probed(unknown={"nvidia": "the package nvidia-ml-py is not installed"})
    try:
        nvml.nvmlInit()
    except Exception as error:  # no driver is the normal case of a machine without NVIDIA GPUs
        return Probed(unknown=_why_no_nvml(sources, error))
    try:
        return _read(nvml, sources)
    except Exception as error:
        return Probed(unknown={"nvidia": f"NVML failed ({_words(error)})"})
    finally:
        _quiet(nvml.nvmlShutdown)


def _why_no_nvml(sources: Sources, error: Exception) -> dict[str, str]:
    """A machine that shows signs of an NVIDIA GPU but whose driver does not answer must not pass as CPU only."""
    devices = sources.names("/sys/bus/pci/devices")
    display = [
        name
        for name in devices
        if sources.read(f"/sys/bus/pci/devices/{name}/vendor") == "0x10de"
        and (sources.read(f"/sys/bus/pci/devices/{name}/class") or "").startswith("0x03")
    ]
    if display:
        return {
            "nvidia": f"{len(display)} NVIDIA GPU(s) on the PCI bus, but the driver does not answer ({_words(error)})"
        }
    return {}


def _read(nvml: Any, sources: Sources) -> Probed:
    unknown: dict[str, str] = {}
    handles, devices = [], []
    for index in range(nvml.nvmlDeviceGetCount()):
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
        except Exception as error:
            unknown[f"nvidia.gpu{index}"] = f"NVML cannot reach it ({_words(error)})"
            continue
        handles.append((index, handle))
        devices.append(_device(nvml, index, handle))
    drivers = {}
    if driver := _quiet(nvml.nvmlSystemGetDriverVersion):
        drivers["nvidia"] = _text(driver)
    if cuda := _quiet(nvml.nvmlSystemGetCudaDriverVersion_v2):
        drivers["cuda"] = f"{cuda // 1000}.{cuda % 1000 // 10}"
    links, nics = _links(nvml, handles, devices, sources, unknown)
    hide_devices(devices, sources.environ.get("CUDA_VISIBLE_DEVICES"))
    return Probed({"accelerators": devices, "links": links, "nic_links": nics, "drivers": drivers}, unknown)


def _device(nvml: Any, index: int, handle: Any) -> Accelerator:
    capability = _quiet(nvml.nvmlDeviceGetCudaComputeCapability, handle)
    memory = _quiet(nvml.nvmlDeviceGetMemoryInfo, handle)
    processes = _quiet(nvml.nvmlDeviceGetComputeRunningProcesses, handle)
    mode = _quiet(nvml.nvmlDeviceGetMigMode, handle)
    pci = _quiet(nvml.nvmlDeviceGetPciInfo, handle)
    fabric = _quiet(_fabric_state, nvml, handle)
    return Accelerator(
        index=index,
        vendor="nvidia",
        name=_text(_quiet(nvml.nvmlDeviceGetName, handle)),
        memory_bytes=memory.total if memory else None,
        free_bytes=memory.free if memory else None,
        compute_capability=f"{capability[0]}.{capability[1]}" if capability else None,
        uuid=_text(_quiet(nvml.nvmlDeviceGetUUID, handle)),
        pci_bus_id=_text(pci.busId) if pci else None,
        numa_node=_quiet(nvml.nvmlDeviceGetNumaNodeId, handle),
        pcie_generation=_quiet(nvml.nvmlDeviceGetMaxPcieLinkGeneration, handle),
        pcie_width=_quiet(nvml.nvmlDeviceGetCurrPcieLinkWidth, handle),
        pcie_max_width=_quiet(nvml.nvmlDeviceGetMaxPcieLinkWidth, handle),
        processes=len(processes) if processes is not None else None,
        display=_quiet(nvml.nvmlDeviceGetDisplayActive, handle) == 1,
        utilization=_quiet(lambda: nvml.nvmlDeviceGetUtilizationRates(handle).gpu),
        power_watts=_watts(_quiet(nvml.nvmlDeviceGetPowerUsage, handle)),
        power_limit_watts=_watts(_quiet(nvml.nvmlDeviceGetEnforcedPowerLimit, handle)),
        mig=bool(mode and mode[0]),
        slices=_slices(nvml, handle) if mode and mode[0] else [],
        fabric=fabric,
    )


def _watts(milliwatts: int | None) -> float | None:
    return None if milliwatts is None else round(milliwatts / 1000, 1)


def _fabric_state(nvml: Any, handle: Any) -> str | None:
    info = nvml.c_nvmlGpuFabricInfoV_t()
    nvml.nvmlDeviceGetGpuFabricInfoV(handle, ctypes.byref(info))
    return _FABRIC.get(info.state)


def _slices(nvml: Any, handle: Any) -> list[Slice]:
    found = []
    for index in range(_quiet(nvml.nvmlDeviceGetMaxMigDeviceCount, handle) or 0):
        part = _quiet(nvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, index)
        if part is None:
            continue
        memory, uuid = _quiet(nvml.nvmlDeviceGetMemoryInfo, part), _quiet(nvml.nvmlDeviceGetUUID, part)
        if uuid:
            found.append(
                Slice(
                    uuid=_text(uuid),
                    name=_text(_quiet(nvml.nvmlDeviceGetName, part)),
                    memory_bytes=memory.total if memory else None,
                )
            )
    return found


def _links(
    nvml: Any, handles: list[tuple[int, Any]], devices: list[Accelerator], sources: Sources, unknown: dict[str, str]
) -> tuple[list[Link], list[NicLink]]:
    if not devices:
        return [], []
    output = sources.run(["nvidia-smi", "topo", "-m"], _TOPO_TIMEOUT_S)
    if output.text is None:
        if len(devices) > 1:
            unknown["links"] = output.reason or "nvidia-smi topo -m printed nothing"
        return [], []
    links, nics, affinity, numa = parse_topo(output.text)
    for device in devices:
        device.cpu_affinity = affinity.get(device.index)
        if device.numa_node is None or device.numa_node < 0:
            device.numa_node = numa.get(device.index)
    by_index = dict(handles)
    for link in links:
        if link.first in by_index and link.second in by_index:
            link.p2p = _p2p(nvml, by_index[link.first], by_index[link.second])
    if not links and len(devices) > 1:
        unknown["links"] = "the output of nvidia-smi topo -m could not be read"
    return links, nics


def _p2p(nvml: Any, first: Any, second: Any) -> bool | None:
    """Whether the driver offers direct reads between two GPUs; the matrix alone cannot tell."""
    status = _quiet(nvml.nvmlDeviceGetP2PStatus, first, second, nvml.NVML_P2P_CAPS_INDEX_READ)
    return None if status is None else status == nvml.NVML_P2P_STATUS_OK


def hide_devices(devices: list[Accelerator], visible: str | None) -> None:
    """NVML lists every GPU; CUDA_VISIBLE_DEVICES decides which of them a training sees.

    As CUDA does, reading stops at the first entry that names no device.
    """
    if visible is None:
        return
    chosen: set[int] = set()
    for entry in (part.strip() for part in visible.split(",")):
        match = next(
            (
                d.index
                for d in devices
                if entry == str(d.index)
                or (len(entry) > 4 and (d.uuid or "").startswith(entry))
                or any(part.uuid == entry for part in d.slices)
            ),
            None,
        )
        if match is None:
            break
        chosen.add(match)
    for device in devices:
        device.visible = device.index in chosen


def _quiet(call: Callable, *args: Any) -> Any:
    """The answer, or None: each NVML query is optional, and old drivers lack some."""
    try:
        return call(*args)
    except Exception:
        return None


def _text(value: Any) -> str | None:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _words(error: Exception) -> str:
    return str(error) or type(error).__name__
