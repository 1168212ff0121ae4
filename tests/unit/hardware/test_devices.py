"""GPUs: NVML stood in for, matrices as nvidia-smi prints them, AMD, Apple and Intel tools as recorded."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from tests.unit.hardware.recorded import machine
from wizard.hardware.amd import probe_amd
from wizard.hardware.apple import probe_apple
from wizard.hardware.intel import probe_intel
from wizard.hardware.nvidia import probe_nvidia
from wizard.hardware.topology import parse_rocm_types, parse_topo

TOPO = """\
\x1b[4m\tGPU0\tGPU1\tGPU2\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m
GPU0\t X \tNV12\tSYS\tPXB\tSYS\t0-15,32-47\t0\t\tN/A
GPU1\tNV12\t X \tPIX\tPXB\tSYS\t0-15,32-47\t0\t\tN/A
GPU2\tSYS\tPIX\t X \tSYS\tNODE\t16-31\t1\t\tN/A
NIC0\tPXB\tPXB\tSYS\t X \tSYS
NIC1\tSYS\tSYS\tNODE\tSYS\t X

Legend:

  X    = Self
  NV#  = Connection traversing a bonded set of # NVLinks

NIC Legend:

  NIC0: mlx5_0
  NIC1: mlx5_1
"""


class FakeNvml:
    """Answers like pynvml for `gpus`, a list of dicts; what is missing raises, as old drivers do."""

    NVML_P2P_CAPS_INDEX_READ, NVML_P2P_STATUS_OK = 0, 0

    def __init__(self, gpus, p2p=0):
        self.gpus, self.p2p, self.closed = gpus, p2p, False

    def __getattr__(self, name):
        def missing(*args):
            raise RuntimeError(f"{name}: Not Supported")

        return missing

    def nvmlInit(self):
        pass

    def nvmlShutdown(self):
        self.closed = True

    def nvmlDeviceGetCount(self):
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index):
        if self.gpus[index] is None:
            raise RuntimeError("GPU is lost")
        return self.gpus[index]

    def nvmlSystemGetDriverVersion(self):
        return b"550.90.07"

    def nvmlSystemGetCudaDriverVersion_v2(self):
        return 12040

    def nvmlDeviceGetName(self, gpu):
        return gpu["name"]

    def nvmlDeviceGetUUID(self, gpu):
        return gpu["uuid"]

    def nvmlDeviceGetCudaComputeCapability(self, gpu):
        return gpu["capability"]

    def nvmlDeviceGetMemoryInfo(self, gpu):
        return SimpleNamespace(total=gpu["memory"], free=gpu["memory"] - 100)

    def nvmlDeviceGetMigMode(self, gpu):
        return (1, 1) if gpu.get("slices") else (0, 0)

    def nvmlDeviceGetMaxMigDeviceCount(self, gpu):
        return 7

    def nvmlDeviceGetMigDeviceHandleByIndex(self, gpu, index):
        return gpu["slices"][index]

    def nvmlDeviceGetP2PStatus(self, first, second, kind):
        return self.p2p


def gpu(index, **more):
    return {
        "name": "NVIDIA A100-SXM4-80GB",
        "uuid": f"GPU-{index}aaaa",
        "capability": (8, 0),
        "memory": 80 * 2**30,
    } | more


def test_gpus_links_and_cards(tmp_path):
    nvml = FakeNvml([gpu(0), gpu(1), gpu(2)], p2p=3)
    probed = probe_nvidia(machine(tmp_path, commands={"nvidia-smi topo -m": TOPO}), nvml)
    devices, links = probed.found["accelerators"], probed.found["links"]
    assert [(d.index, d.compute_capability, d.capability, d.numa_node, d.cpu_affinity) for d in devices] == [
        (0, "8.0", (8, 0), 0, "0-15,32-47"),
        (1, "8.0", (8, 0), 0, "0-15,32-47"),
        (2, "8.0", (8, 0), 1, "16-31"),
    ]
    assert [(link.first, link.second, link.path, link.nvlinks, link.p2p) for link in links] == [
        (0, 1, "NV12", 12, False),
        (0, 2, "SYS", 0, False),
        (1, 2, "PIX", 0, False),
    ]
    assert ("mlx5_0", "PXB") in [(nic.nic, nic.path) for nic in probed.found["nic_links"] if nic.gpu == 0]
    assert probed.found["drivers"] == {"nvidia": "550.90.07", "cuda": "12.4"} and nvml.closed


def test_what_old_drivers_do_not_answer_is_unknown_not_an_error(tmp_path):
    device = probe_nvidia(machine(tmp_path), FakeNvml([gpu(0)])).found["accelerators"][0]
    assert device.pcie_width is None and device.processes is None and device.fabric is None


def test_a_lost_gpu_does_not_hide_the_others(tmp_path):
    probed = probe_nvidia(machine(tmp_path), FakeNvml([gpu(0), None]))
    assert len(probed.found["accelerators"]) == 1 and "lost" in probed.unknown["nvidia.gpu1"]


def test_an_unknown_matrix_is_said(tmp_path):
    assert "nvidia-smi is not installed" in probe_nvidia(machine(tmp_path), FakeNvml([gpu(0), gpu(1)])).unknown["links"]


def test_slices(tmp_path):
    parts = [{"name": "MIG 3g.40gb", "uuid": "MIG-a", "memory": 40 * 2**30}]
    device = probe_nvidia(machine(tmp_path), FakeNvml([gpu(0, slices=parts)])).found["accelerators"][0]
    assert device.mig and [(part.uuid, part.memory_bytes) for part in device.slices] == [("MIG-a", 40 * 2**30)]


@pytest.mark.parametrize(
    "variable,visible",
    [
        (None, [0, 1, 2]),
        ("1", [1]),
        ("2,0", [0, 2]),
        ("GPU-1aaaa", [1]),
        ("", []),
        ("-1", []),
        ("0,7,1", [0]),
        ("0, 1", [0, 1]),
    ],
)
def test_visible_devices(tmp_path, variable, visible):
    environ = {} if variable is None else {"CUDA_VISIBLE_DEVICES": variable}
    probed = probe_nvidia(machine(tmp_path, environ=environ), FakeNvml([gpu(0), gpu(1), gpu(2)]))
    assert [device.index for device in probed.found["accelerators"] if device.visible] == visible


def test_no_driver_is_silent_without_a_gpu_and_said_with_one(tmp_path):
    class Broken(FakeNvml):
        def nvmlInit(self):
            raise RuntimeError("Driver Not Loaded")

    assert probe_nvidia(machine(tmp_path / "a"), Broken([])).unknown == {}
    files = {
        "/sys/bus/pci/devices/0000:01:00.0/vendor": "0x10de",
        "/sys/bus/pci/devices/0000:01:00.0/class": "0x030200",
    }
    assert (
        "1 NVIDIA GPU(s) on the PCI bus" in probe_nvidia(machine(tmp_path / "b", files), Broken([])).unknown["nvidia"]
    )


def test_a_matrix_with_missing_affinity_columns():
    links, _, affinity, numa = parse_topo(
        "        GPU0  GPU1  CPU Affinity  NUMA Affinity\n"
        "GPU0     X    SYS   0-7,16-23                    N/A\n"
        "GPU1    SYS    X    8-15,24-31    1              N/A\n"
    )
    assert (
        [(link.path) for link in links] == ["SYS"] and affinity == {0: "0-7,16-23", 1: "8-15,24-31"} and numa == {1: 1}
    )


@pytest.mark.parametrize("text", ["", "nonsense", "GPU0", "\tGPU0\nGPU0 what is this"])
def test_matrices_that_cannot_be_read_are_empty(text):
    assert parse_topo(text)[0] == []


KFD = "/sys/class/kfd/kfd/topology/nodes"
ROCM = {
    "card0": {
        "Card Series": "AMD Instinct MI300X",
        "VRAM Total Memory (B)": "206141652992",
        "VRAM Total Used Memory (B)": "1000",
        "Unique ID": "0xabc",
        "GFX Version": "gfx942",
        "PCI Bus": "0000:0C:00.0",
    },
    "card1": {"Card series": "0x74a1", "Card model": "AMD Instinct MI300X", "VRAM Total Memory (B)": "206141652992"},
    "system": {"Driver version": "6.8"},
}
TYPES = (
    "=== Link Type between two GPUs ===\n       GPU0         GPU1\nGPU0   0            XGMI\nGPU1   XGMI         0\n"
)


def test_amd_through_rocm_smi(tmp_path):
    files = {
        f"{KFD}/0/properties": "gfx_target_version 0\n",
        f"{KFD}/1/properties": "gfx_target_version 90402\n",
        f"{KFD}/2/properties": "gfx_target_version 90402\n",
        "/opt/rocm/.info/version": "6.4.1",
    }
    commands = {"rocm-smi --showproductname": "WARNING: x\n" + json.dumps(ROCM), "rocm-smi --showtopotype": TYPES}
    probed = probe_amd(machine(tmp_path, files, commands, {"HIP_VISIBLE_DEVICES": "1"}))
    devices = probed.found["accelerators"]
    assert [(d.name, d.architecture, d.visible) for d in devices] == [
        ("AMD Instinct MI300X", "gfx942", False),
        ("AMD Instinct MI300X", "gfx942", True),
    ]
    assert devices[0].free_bytes == 206141652992 - 1000 and probed.found["drivers"] == {"rocm": "6.4.1"}
    assert [(link.first, link.second, link.path) for link in probed.found["links"]] == [(0, 1, "XGMI")]


def test_amd_by_the_kernel_alone(tmp_path):
    files = {
        f"{KFD}/1/properties": "gfx_target_version 90010\n",
        f"{KFD}/1/mem_banks/0/properties": "size_in_bytes 68702699520\n",
    }
    probed = probe_amd(machine(tmp_path, files))
    assert [(d.architecture, d.memory_bytes) for d in probed.found["accelerators"]] == [("gfx90a", 68702699520)]
    assert "kernel only" in probed.unknown["amd"]


def test_no_amd_is_silent(tmp_path):
    probed = probe_amd(machine(tmp_path))
    assert probed.found == {} and probed.unknown == {}


def test_rocm_types_that_cannot_be_read_are_empty():
    assert parse_rocm_types("GPU0 what") == []


def test_apple(tmp_path):
    commands = {
        "sysctl -n hw.optional.arm64": "1\n",
        "sysctl -n machdep.cpu.brand_string": "Apple M2 Pro\n",
        "sysctl -n hw.memsize": "17179869184\n",
    }
    device = probe_apple(machine(tmp_path, commands=commands, system="Darwin")).found["accelerators"][0]
    assert (device.vendor, device.name, device.memory_bytes) == ("apple", "Apple M2 Pro", 2**34)
    assert probe_apple(machine(tmp_path, commands=commands)).found == {}
    assert "Apple silicon" in probe_apple(machine(tmp_path, system="Darwin")).unknown["apple"]


def test_intel(tmp_path):
    pci = "/sys/bus/pci/devices"
    files = {
        f"{pci}/0000:29:00.0/vendor": "0x8086",
        f"{pci}/0000:29:00.0/class": "0x038000",
        f"{pci}/0000:00:02.0/vendor": "0x8086",
        f"{pci}/0000:00:02.0/class": "0x030000",
    }
    listed = json.dumps(
        {
            "device_list": [
                {
                    "device_id": 0,
                    "device_name": "Intel(R) Data Center GPU Max 1100",
                    "memory_physical_size_byte": "51539607552",
                }
            ]
        }
    )
    device = probe_intel(machine(tmp_path, files, {"xpu-smi discovery": listed})).found["accelerators"][0]
    assert (device.vendor, device.memory_bytes) == ("intel", 51539607552)
    assert "1 Intel GPU(s)" in probe_intel(machine(tmp_path, files)).unknown["intel"]
