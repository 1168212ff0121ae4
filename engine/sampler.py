"""Looks at the machine while it trains: the rank's own device, and from each node's first rank the host."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import torch


def make_sampler(device: torch.device, first_on_node: bool, folder: Path) -> Callable[[], dict[str, Any]]:
    """A function that returns the fields of a `sample` event. The rank's own process is always among them."""
    process = psutil.Process()
    process.cpu_percent()
    psutil.cpu_percent()
    gpu = _gpu_reader(device) if device.type == "cuda" else None

    def sample() -> dict[str, Any]:
        host: dict[str, Any] = {"pid": os.getpid(), "process_cpu_percent": process.cpu_percent(),
                                "process_memory_bytes": process.memory_info().rss}
        if first_on_node:
            memory = psutil.virtual_memory()
            host |= {"cpu_percent": psutil.cpu_percent(), "memory_used_bytes": memory.total - memory.available,
                     "memory_total_bytes": memory.total, "disk_free_bytes": shutil.disk_usage(folder).free}
        return {"devices": [gpu()] if gpu else [], "host": host}

    return sample


def _gpu_reader(device: torch.device) -> Callable[[], dict[str, Any]]:
    """Reads one NVIDIA device through NVML, found by its UUID since CUDA_VISIBLE_DEVICES renumbers devices."""
    import pynvml

    pynvml.nvmlInit()
    properties = torch.cuda.get_device_properties(device)
    handle = pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{properties.uuid}".encode())
    index = pynvml.nvmlDeviceGetIndex(handle)

    def read() -> dict[str, Any]:
        memory, use = pynvml.nvmlDeviceGetMemoryInfo(handle), pynvml.nvmlDeviceGetUtilizationRates(handle)
        return {"index": index, "name": properties.name, "utilization_percent": use.gpu, "memory_used_bytes": memory.used,
                "memory_total_bytes": memory.total, "power_w": pynvml.nvmlDeviceGetPowerUsage(handle) / 1000,
                "temperature_c": pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU)}

    return read
