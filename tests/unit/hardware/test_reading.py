"""Pasted text, format by format: which facts are read, from which line, and that nothing makes the readers fail."""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.advice.texts import advise_text, entries
from wizard.hardware.inventory import HardwareInventory
from wizard.hardware.models import known_model, memory_bytes, models_in
from wizard.hardware.reading.lines import Paste, numbers
from wizard.hardware.reading.read import read_text

TEXTS = [
    entry["text"] for name in ("reported_machines", "described_machines") for entry in entries(name).values()
]


def read(text: str) -> HardwareInventory:
    return read_text(text).inventory


def test_every_fact_names_its_line():
    inventory = read("something else\nGPU 0: NVIDIA A10\nNvidia driver version: 550.54.14\n")
    assert inventory.evidence["gpu.0.name"] == "line 2: GPU 0: NVIDIA A10"
    assert inventory.evidence["driver.nvidia"].startswith("line 3:")


def test_what_a_text_does_not_say_is_unknown_with_the_way_to_learn_it():
    unknown = read("2x RTX 3090").unknown
    assert {"links", "cpu.cores", "memory", "driver", "software.torch", "network.interfaces", "text"} <= set(unknown)
    assert "nvidia-smi topo -m" in unknown["links"]


def test_a_number_of_gpus_that_is_not_said_is_not_presented_as_known():
    advice = advise_text("GPU type: NVIDIA A100")
    assert advice.decisions["devices"].confidence == "low"
    assert any("not in the text" in text for text in advice.unknown if text.startswith("accelerators.count"))


def test_the_table_of_nvidia_smi():
    inventory = read(
        "| NVIDIA-SMI 535.104.05   Driver Version: 535.104.05   CUDA Version: 12.2 |\n"
        "|   3  NVIDIA A100-SXM4-80GB          On  | 00000000:07:00.0 Off |                    2 |\n"
        "| N/A   31C    P0              62W / 400W |   1024MiB / 81920MiB |     97%      Default |\n"
        "|                                         |                      |             Disabled |\n"
    )
    (device,) = inventory.accelerators
    assert (device.index, device.name, device.pci_bus_id) == (3, "NVIDIA A100-SXM4-80GB", "00000000:07:00.0")
    assert (device.memory_bytes, device.free_bytes) == (81920 * 2**20, 80896 * 2**20)
    assert (device.utilization, device.power_watts, device.power_limit_watts, device.ecc_errors) == (97, 62, 400, 2)
    assert device.display is False and device.mig is False and device.compute_capability == "8.0"
    assert inventory.software.drivers == {"nvidia": "535.104.05", "cuda": "12.2"}


def test_processes_in_mig_instances():
    inventory = read(
        "|    0   N/A  N/A     55111      C   tritonserver                    20481MiB |\n"
        "|    1    3    0      34965      C   python                          14195MiB |\n"
    )
    assert [(device.mig, len(device.slices)) for device in inventory.accelerators] == [(False, 0), (True, 1)]


@pytest.mark.parametrize(
    "row,cells",
    [
        ("GPU0 X NV4 0-7 0", {"NV4"}),
        ("GPU0\tX\tNV4\t0-7\t0", {"NV4"}),
        ("   GPU0     X    NV4    0-7,16-23                    N/A", {"NV4"}),
        ("\x1b[4mGPU0\x1b[0m  X  NV4", {"NV4"}),
        ("> GPU0 X NV4", {"NV4"}),
    ],
)
def test_matrices_however_they_were_pasted(row, cells):
    assert {link.path for link in read(f"    GPU0 GPU1 CPU Affinity\n{row}\n").links} == cells
    assert {link.path for link in read(f"{row}\n").links} == cells


def test_cards_beside_gpus_in_a_matrix():
    inventory = read("     GPU0 NIC0 NIC1 CPU Affinity\nGPU0 X PXB SYS 0-7\nNIC Legend:\n  NIC0: mlx5_0\n  NIC1: mlx5_1\n")
    assert [(nic.nic, nic.path) for nic in inventory.nic_links] == [("mlx5_0", "PXB"), ("mlx5_1", "SYS")]


def test_the_p2p_matrix_overrules_what_the_paths_suggest():
    inventory = read("    GPU0 GPU1\nGPU0 X PHB\nGPU1 PHB X\n\n    GPU0 GPU1\nGPU0 X GNS\nGPU1 GNS X\n")
    assert [(link.path, link.p2p) for link in inventory.links] == [("PHB", False)]


def test_ports_of_all_three_tools():
    ibstatus = "Infiniband device 'mlx5_0' port 1 status:\n  state: 4: ACTIVE\n  rate: 100 Gb/sec (4X EDR)\n  link_layer: InfiniBand\n"
    ibstat = "CA 'mlx5_1'\n  Port 1:\n    State: Down\n    Rate: 200\n    Link layer: Ethernet\n"
    devinfo = "hca_id: mlx5_2\n  port: 1\n    state: PORT_ACTIVE (4)\n    link_layer: InfiniBand\n"
    ports = {port.device: port for port in read(ibstatus + ibstat + devinfo).network.rdma}
    assert (ports["mlx5_0"].state, ports["mlx5_0"].rate_gbit, ports["mlx5_0"].link_layer) == ("ACTIVE", 100, "InfiniBand")
    assert (ports["mlx5_1"].state, ports["mlx5_1"].rate_gbit, ports["mlx5_1"].link_layer) == ("DOWN", 200, "Ethernet")
    assert ports["mlx5_2"].state == "ACTIVE"


def test_interfaces_and_routes():
    network = read(
        "2: eno1: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 9000 qdisc mq state UP\n    inet 10.0.0.4/24 scope global eno1\n"
        "3: docker0: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1500 state UP\n    inet 172.17.0.1/16 scope global docker0\n"
        "4: eno2: <NO-CARRIER,BROADCAST,MULTICAST,UP> mtu 1500 state DOWN\n"
        "default via 10.0.0.1 dev eno1\nSettings for eno1:\n\tSpeed: 25000Mb/s\n"
    ).network
    eno1, docker0, eno2 = network.interfaces
    assert (eno1.up, eno1.kind, eno1.mtu, eno1.speed_mbit, eno1.addresses) == (True, "ethernet", 9000, 25000, ["10.0.0.4/24"])
    assert docker0.kind == "virtual" and not eno2.up and network.default_interface == "eno1"


def test_a_processor():
    cpu = read(
        "CPU(s):  64\nModel name:  Intel(R) Xeon(R) Gold 6430\nThread(s) per core: 2\nCore(s) per socket: 16\n"
        "Socket(s): 2\nNUMA node0 CPU(s): 0-15\nNUMA node1 CPU(s): 16-31\nFlags: avx2 amx_bf16 avx512f\n"
    ).cpu
    assert (cpu.sockets, cpu.physical_cores, cpu.logical_cores, len(cpu.numa)) == (2, 32, 64, 2) and cpu.fast_bf16


@pytest.mark.parametrize(
    "text,size",
    [
        ("shm              64M     0   64M   0% /dev/shm", 64 * 2**20),
        ("tmpfs              65536     0     65536   0% /dev/shm", 64 * 2**20),
        ("shm on /dev/shm type tmpfs (rw,nosuid,size=65536k)", 64 * 2**20),
        ("docker run --gpus all --shm-size=8g image", 8 * 2**30),
    ],
)
def test_the_size_of_shared_memory(text, size):
    assert read(text).memory.shm_total_bytes == size


@pytest.mark.parametrize(
    "text,cuda,hip",
    [
        ("PyTorch version: 2.4.0+cu121", "12.1", None),
        ("torch==2.9.0+cu130", "13.0", None),
        ("PyTorch version: 2.6.0+rocm6.2.4", None, "6.2.4"),
        ("pytorch 2.5 cu124", "12.4", None),
        ("PyTorch version: 2.5.1+cpu\nCUDA used to build PyTorch: None", None, None),
    ],
)
def test_the_build_of_torch(text, cuda, hip):
    build = read(text).software.torch
    assert (build.cuda, build.hip) == (cuda, hip)


def test_variables_that_steer_and_no_secret():
    environment = read("export NCCL_IB_DISABLE=1\nNCCL_SOCKET_IFNAME=eth0\nexport HF_TOKEN=hf_abc\nNCCL_SECRET_KEY=x\n").environment
    assert environment == {"NCCL_IB_DISABLE": "1", "NCCL_SOCKET_IFNAME": "eth0"}


@pytest.mark.parametrize(
    "text,count,nodes",
    [
        ("2x RTX 3090", 2, None),
        ("RTX 3090 x2", 2, None),
        ("dual RTX 3090s", 2, None),
        ("a pair of 3090s", 2, None),
        ("8xH100", 8, None),
        ("8 × A100", 8, None),
        ("4 nodes of 8x A100 each", 8, 4),
        ("2 machines, each with 1 RTX 3090", 1, 2),
        ("16 RTX 3090 over 4 nodes", 4, 4),
        ("8 A100 80GB SXM on 4 nodes", 8, 4),
        ("16 nodes of ND96isr_H100_v5", 8, 16),
        ("an RTX 4090 rather than an A100", 1, None),
    ],
)
def test_numbers_in_words(text, count, nodes):
    reading = read_text(text)
    assert (len(reading.inventory.accelerators), reading.nodes) == (count, nodes)


@pytest.mark.parametrize("text", ["2080 steps took 3090 ms", "loss 1.080 at step 4090", "port 5090 is busy", "the A10 motorway at 40 km/h"])
def test_numbers_that_are_no_cards_are_few(text):
    assert len(read(text).accelerators) <= 1 and not read(text).links


@pytest.mark.parametrize(
    "name,capability,memory",
    [
        ("NVIDIA GeForce RTX 3090 Ti", "8.6", 24),
        ("NVIDIA A100-SXM4-80GB", "8.0", 80),
        ("Tesla V100-PCIE-32GB", "7.0", 32),
        ("NVIDIA RTX 6000 Ada Generation", "8.9", 48),
        ("Quadro RTX 6000", "7.5", 24),
        ("NVIDIA RTX A6000", "8.6", 48),
        ("NVIDIA A10G", "8.6", 24),
        ("NVIDIA GeForce RTX 4070 Ti", "8.9", None),
    ],
)
def test_what_a_name_tells(name, capability, memory):
    model = known_model(name)
    assert model.capability == capability
    assert memory_bytes(model, name) == (memory * 2**30 if memory else None)


def test_the_longer_name_is_meant():
    assert [model.name for _, _, model in models_in("RTX 3090 Ti and RTX 3090")] == [
        "NVIDIA GeForce RTX 3090 Ti",
        "NVIDIA GeForce RTX 3090",
    ]


def test_numbers_of_a_list():
    assert numbers("0,2-4") == [0, 2, 3, 4] and numbers("zero") == [] and len(numbers("0-99999999")) <= 1025


def test_frames_quotes_and_fences_are_taken_off():
    assert [line.text for line in Paste("```\n> │ a │\n\x1b[1mb\x1b[0m\n```").lines] == ["| a |", "b"]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 10**9))
def test_mangled_text_is_read_or_left_and_never_fails(seed):
    """Lines of real texts shuffled, cut and glued: the readers and the advice must bear it."""
    chance = random.Random(seed)
    lines = "\n".join(chance.choice(TEXTS) for _ in range(2)).splitlines()
    chance.shuffle(lines)
    text = "\n".join(line[: chance.randint(0, 120)] for line in lines[:40])
    advice = advise_text(text)
    devices = advice.decisions["devices"].value
    assert not [line for line in advice.unknown if "the reader failed" in line]
    assert devices["count"] is None or devices["count"] == len(devices["indices"])


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=400))
def test_any_text_at_all(text):
    advise_text(text)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(TEXTS), st.sampled_from([None, "10.0.0.9", "192.168.1.7"]))
def test_no_interface_is_recommended_that_does_not_exist(text, address):
    reading = read_text(text)
    advice = advise_text(text, num_nodes=2, main_address=address)
    names = [item.name for item in reading.inventory.network.interfaces]
    env = advice.decisions["env"].value
    assert env.get("GLOO_SOCKET_IFNAME") in (None, *names)
    assert env.get("NCCL_SOCKET_IFNAME") in (None, *(f"={name}" for name in names))


def test_a_megabyte_of_log_is_read_in_time():
    import time

    text = TEXTS[0] + "step 10 loss 2.5 lr 1e-4 tokens/s 12345\n" * 25_000
    began = time.perf_counter()
    read(text)
    assert time.perf_counter() - began < 5
