"""Machines and a starter for tests of the questions."""

from __future__ import annotations

from wizard import session
from wizard.hardware.inventory import Accelerator, Cpu, HardwareInventory, Interface, Memory, Network
from wizard.questions.flow import Flow

_GIB = 2**30


def cpu_machine(cores: int = 2) -> HardwareInventory:
    return HardwareInventory(cpu=Cpu(physical_cores=cores, logical_cores=cores),
                             memory=Memory(total_bytes=8 * _GIB, available_bytes=7 * _GIB))


def gpu_machine(count: int = 4) -> HardwareInventory:
    devices = [Accelerator(index=i, vendor="nvidia", name="NVIDIA A100-SXM4-80GB", memory_bytes=80 * _GIB,
                           free_bytes=79 * _GIB, compute_capability="8.0") for i in range(count)]
    return HardwareInventory(cpu=Cpu(physical_cores=32, logical_cores=64), accelerators=devices,
                             memory=Memory(total_bytes=256 * _GIB, available_bytes=250 * _GIB),
                             network=Network(interfaces=[Interface(name="lo", up=True, kind="loopback"),
                                                         Interface(name="ens5", up=True, kind="ethernet")]))


def flow(inventory: HardwareInventory | None = None, preset: dict | None = None, **more) -> Flow:
    return Flow(inventory or cpu_machine(), session.starter(), preset, **more)


def keys(asked: Flow) -> list[str]:
    return [question.key for question in asked.asked]
