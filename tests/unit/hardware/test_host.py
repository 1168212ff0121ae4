"""Processor, memory, control groups, platform, network and software, from recorded files."""

from __future__ import annotations

import sys

import pytest

from tests.unit.hardware.recorded import cpuinfo, machine
from wizard.hardware import probe
from wizard.hardware.cgroups import memory_limit, quota_cores
from wizard.hardware.cpu import count_cpus, probe_cpu
from wizard.hardware.inventory import Cpu, HardwareInventory, Memory, dump_inventory, load_inventory
from wizard.hardware.memory import probe_memory
from wizard.hardware.network import interface_kind, probe_network
from wizard.hardware.software import steering_variables, torch_build
from wizard.hardware.sources import run_command
from wizard.hardware.system import probe_platform
from wizard.hardware.text import inventory_lines


def test_a_two_socket_processor(tmp_path):
    files = {
        "/proc/cpuinfo": cpuinfo(2, 4, threads=2, flags="avx2 avx512_bf16 amx_bf16 sse"),
        "/proc/self/status": "Cpus_allowed_list:\t0-5\n",
        "/sys/devices/system/node/node0/meminfo": "Node 0 MemTotal:  1000 kB\n",
        "/sys/devices/system/node/node0/cpulist": "0-7\n",
        "/sys/devices/system/node/node10/meminfo": "Node 10 MemTotal:  2000 kB\n",
    }
    cpu = probe_cpu(machine(tmp_path, files)).found["cpu"]
    assert (cpu.sockets, cpu.physical_cores, cpu.logical_cores, cpu.affinity_cores, cpu.usable_cores) == (
        2,
        8,
        16,
        6,
        6,
    )
    assert cpu.flags == ["amx_bf16", "avx512_bf16", "avx2"] and cpu.fast_bf16
    assert [(node.id, node.memory_bytes) for node in cpu.numa] == [(0, 1024000), (10, 2048000)]


def test_an_arm_processor_is_counted_by_topology(tmp_path):
    files = {"/proc/cpuinfo": "processor\t: 0\nFeatures\t: fp asimd\n\nprocessor\t: 1\nFeatures\t: fp asimd\n"}
    for core in (0, 1):
        files |= {
            f"/sys/devices/system/cpu/cpu{core}/topology/physical_package_id": "0",
            f"/sys/devices/system/cpu/cpu{core}/topology/core_id": str(core),
        }
    cpu = probe_cpu(machine(tmp_path, files)).found["cpu"]
    assert (cpu.sockets, cpu.physical_cores, cpu.logical_cores) == (1, 2, 2)


@pytest.mark.parametrize(
    "cpu,cores",
    [
        (Cpu(), 1),
        (Cpu(physical_cores=8, affinity_cores=16), 8),
        (Cpu(physical_cores=8, affinity_cores=2), 2),
        (Cpu(physical_cores=8, quota_cores=3.5), 3),
        (Cpu(physical_cores=8, quota_cores=0.5), 1),
        (Cpu(logical_cores=4), 4),
    ],
)
def test_usable_cores(cpu, cores):
    assert cpu.usable_cores == cores


def test_count_cpus():
    assert count_cpus("0-3,8,10-11") == 7 and count_cpus("0") == 1


def test_control_group_version_2_takes_the_tightest_of_the_parents(tmp_path):
    files = {
        "/proc/self/cgroup": "0::/a/b\n",
        "/sys/fs/cgroup/a/cpu.max": "150000 100000",
        "/sys/fs/cgroup/a/b/cpu.max": "max 100000",
        "/sys/fs/cgroup/a/memory.max": "max",
        "/sys/fs/cgroup/a/b/memory.max": "2000000000",
    }
    sources = machine(tmp_path, files)
    assert quota_cores(sources) == 1.5 and memory_limit(sources) == 2_000_000_000


def test_control_group_version_1(tmp_path):
    files = {
        "/proc/self/cgroup": "4:memory:/job\n1:cpu,cpuacct:/job\n",
        "/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us": "400000",
        "/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us": "100000",
        "/sys/fs/cgroup/memory/job/memory.limit_in_bytes": "1073741824",
        "/sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712",
    }
    sources = machine(tmp_path, files)
    assert quota_cores(sources) == 4 and memory_limit(sources) == 2**30


def test_no_limit(tmp_path):
    sources = machine(
        tmp_path,
        {
            "/proc/self/cgroup": "1:cpu:/\n",
            "/sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1",
            "/sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000",
        },
    )
    assert quota_cores(sources) is None and memory_limit(sources) is None


def test_memory(tmp_path):
    memory = probe_memory(machine(tmp_path, {"/proc/meminfo": "MemTotal: 1000 kB\nMemAvailable: 900 kB\n"})).found[
        "memory"
    ]
    assert (memory.total_bytes, memory.available_bytes, memory.usable_bytes) == (1024000, 921600, 921600)
    assert Memory(total_bytes=100, available_bytes=80, limit_bytes=50).usable_bytes == 50


@pytest.mark.parametrize(
    "release,wsl", [("6.8.0-45-generic", None), ("5.15.167.4-microsoft-standard-WSL2", 2), ("4.4.0-19041-Microsoft", 1)]
)
def test_wsl(tmp_path, release, wsl):
    found = probe_platform(machine(tmp_path, {"/proc/sys/kernel/osrelease": release})).found["platform"]
    assert (found.system, found.wsl) == ("linux", wsl)


@pytest.mark.parametrize(
    "line,iommu", [("ro quiet", "default"), ("amd_iommu=on iommu=pt", "pt"), ("intel_iommu=on", "on"), ("iommu=off", "off")]
)
def test_iommu(tmp_path, line, iommu):
    assert probe_platform(machine(tmp_path, {"/proc/cmdline": line})).found["platform"].iommu == iommu


def test_containers(tmp_path):
    assert probe_platform(machine(tmp_path / "a", {"/.dockerenv": ""})).found["platform"].container == "docker"
    assert (
        probe_platform(machine(tmp_path / "b", {"/proc/1/cgroup": "0::/kubepods/x"})).found["platform"].container
        == "kubernetes"
    )
    assert probe_platform(machine(tmp_path / "c")).found["platform"].container is None


def test_routes_and_rdma(tmp_path):
    files = {
        "/proc/net/route": "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n"
        "eth1\t00000000\t0100000A\t0003\t0\t0\t200\t00000000\neth0\t00000000\t0100000A\t0003\t0\t0\t100\t00000000\n"
        "ib0\t0000A8C0\t00000000\t0001\t0\t0\t0\t0000FFFF\n"
        "down\t0000A8C0\t00000000\t0000\t0\t0\t0\t0000FFFF\nbroken line\n",
        "/sys/class/infiniband/mlx5_0/ports/1/state": "4: ACTIVE\n",
        "/sys/class/infiniband/mlx5_0/ports/1/rate": "100 Gb/sec (4X EDR)\n",
        "/sys/class/infiniband/mlx5_0/ports/1/link_layer": "InfiniBand\n",
    }
    network = probe_network(machine(tmp_path, files)).found["network"]
    assert network.default_interface == "eth0"
    assert ("192.168.0.0/16", "ib0") in [(route.network, route.interface) for route in network.routes] and len(
        network.routes
    ) == 3
    port = network.rdma[0]
    assert (port.state, port.rate_gbit, port.link_layer, port.opened) == ("ACTIVE", 100.0, "InfiniBand", False)


@pytest.mark.parametrize(
    "name,addresses,kind",
    [
        ("lo", ["127.0.0.1/8"], "loopback"),
        ("docker0", [], "virtual"),
        ("veth1a", [], "virtual"),
        ("ens5", [], "ethernet"),
        ("ib0", [], "infiniband"),
        ("wlp3s0", [], "wireless"),
        ("tun0", [], "other"),
    ],
)
def test_interface_kinds(name, addresses, kind):
    assert interface_kind(name, addresses) == kind


@pytest.mark.parametrize(
    "text,cuda,hip,xpu",
    [
        (
            "from typing import Optional\n__version__ = '2.13.0+cpu'\n"
            "cuda: Optional[str] = None\nhip: Optional[str] = None\n",
            None,
            None,
            None,
        ),
        (
            "__version__ = '2.9.0+cu128'\ndebug = False\ncuda: Optional[str] = '12.8'\nhip: Optional[str] = None\n",
            "12.8",
            None,
            None,
        ),
        ("__version__ = '2.9.0+rocm6.4'\ncuda = None\nhip = '6.4.43482'\n", None, "6.4.43482", None),
        ("__version__ = '2.9.0+xpu'\nxpu: Optional[str] = '20250200'\n", None, None, "20250200"),
    ],
)
def test_torch_build_is_read_as_text(text, cuda, hip, xpu):
    build = torch_build(text)
    assert (build.cuda, build.hip, build.xpu) == (cuda, hip, xpu)


def test_an_unreadable_torch_version_file_is_unknown():
    assert torch_build(None) is None and torch_build("import something") is None


def test_only_steering_variables_are_kept():
    environ = {
        "NCCL_DEBUG": "INFO",
        "CUDA_VISIBLE_DEVICES": "0",
        "HF_TOKEN": "hf_x",
        "AWS_SECRET_ACCESS_KEY": "x",
        "HOME": "/root",
        "UCX_TOKEN": "x",
    }
    assert steering_variables(environ) == {"CUDA_VISIBLE_DEVICES": "0", "NCCL_DEBUG": "INFO"}


def test_commands_never_raise_and_never_outlive_their_time():
    assert "not installed" in run_command(["no-such-tool-here"], 1).reason
    assert "no answer" in run_command([sys.executable, "-c", "import time; time.sleep(30)"], 0.2).reason
    assert "ended with 3" in run_command([sys.executable, "-c", "import sys; sys.exit(3)"], 30).reason


def test_a_probe_that_fails_costs_one_answer(monkeypatch):
    def broken(sources):
        raise RuntimeError("driver says no")

    monkeypatch.setitem(probe.PROBES, "network", broken)
    inventory = probe.read_inventory()
    assert "driver says no" in inventory.unknown["network"] and inventory.cpu.usable_cores >= 1


def test_this_machine_round_trips_through_a_file(tmp_path):
    inventory = probe.read_inventory()
    file = tmp_path / "inventory.json"
    file.write_text(dump_inventory(inventory))
    assert load_inventory(file) == inventory
    assert any(line.startswith("cpu") for line in inventory_lines(inventory))


@pytest.mark.parametrize(
    "text,message",
    [
        ("{", "not JSON"),
        ("[]", "not an inventory"),
        ('{"a": 1}', "not an inventory"),
        ('{"cpu": {"sockets": "many"}}', "cpu.sockets"),
        ('{"cpu": {}, "version": 99}', "newer"),
    ],
)
def test_a_file_that_is_no_inventory_says_so(tmp_path, text, message):
    file = tmp_path / "x.json"
    file.write_text(text)
    with pytest.raises(ValueError, match=message):
        load_inventory(file)


def test_an_empty_inventory_can_be_shown():
    assert inventory_lines(HardwareInventory())
