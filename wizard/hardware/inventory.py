"""What one machine has: the single value every decision starts from. It can be saved, sent and read elsewhere.

An inventory names the host and its addresses, so it stays with the runs; nothing of that is copied into a preset.
Unknown is None (or an entry in `unknown` with the reason), never a guess. Sizes are bytes, speeds Mbit/s.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

VERSION = 1

Vendor = Literal["nvidia", "amd", "apple", "intel", "ascend", "habana", "tpu", "trainium"]


class _Part(BaseModel):
    """Fields of a newer version are ignored, so that an older wizard can still plan with them."""

    model_config = ConfigDict(extra="ignore", protected_namespaces=())


class Platform(_Part):
    system: Literal["linux", "windows", "macos", "other"] = "other"
    release: str | None = None
    architecture: str | None = None
    wsl: int | None = Field(None, description="1 or 2 under the Windows Subsystem for Linux")
    container: str | None = Field(None, description="docker, podman, kubernetes, ... where inside one")
    cloud: str | None = Field(None, description="type of machine where a cloud provider names it: p4d.24xlarge")
    virtual: bool | None = Field(None, description="a hypervisor is underneath")
    iommu: str | None = Field(
        None, description="what the kernel command line says about the IOMMU: pt (pass-through) | on | off | default"
    )
    memlock_bytes: int | None = Field(None, description="limit of locked memory; -1 for none")
    open_files: int | None = Field(None, description="soft limit of open descriptors")


class NumaNode(_Part):
    id: int
    cpus: str | None = None
    memory_bytes: int | None = None


class Cpu(_Part):
    model: str | None = None
    sockets: int | None = None
    physical_cores: int | None = None
    logical_cores: int | None = None
    affinity_cores: int | None = Field(None, description="logical cores this process may be scheduled on")
    quota_cores: float | None = Field(None, description="limit of the control group; None without one")
    flags: list[str] = Field(
        default_factory=list, description="those that matter here: amx_bf16, avx512_bf16, avx512f, avx2"
    )
    numa: list[NumaNode] = Field(default_factory=list)

    @property
    def usable_cores(self) -> int:
        """Cores that can compute at once: physical ones, within the affinity and the quota; at least 1."""
        limits = [self.physical_cores or self.logical_cores, self.affinity_cores]
        if self.quota_cores:
            limits.append(int(self.quota_cores))
        return max(1, min([limit for limit in limits if limit is not None] or [1]))

    @property
    def fast_bf16(self) -> bool:
        """Whether bf16 multiplies run in hardware (AMX or AVX512-BF16; on Apple silicon BF16 of Armv8.6)."""
        return any(flag in self.flags for flag in ("amx_bf16", "avx512_bf16"))


class Memory(_Part):
    total_bytes: int | None = None
    available_bytes: int | None = None
    limit_bytes: int | None = Field(None, description="limit of the control group; None without one")
    shm_total_bytes: int | None = Field(None, description="size of /dev/shm")
    shm_free_bytes: int | None = None

    @property
    def usable_bytes(self) -> int | None:
        """What a training may use: what is available, within the control group's limit."""
        known = [size for size in (self.available_bytes or self.total_bytes, self.limit_bytes) if size]
        return min(known) if known else None


class Slice(_Part):
    """A part of a GPU (MIG) that is a device of its own."""

    uuid: str
    name: str | None = None
    memory_bytes: int | None = None


class Accelerator(_Part):
    index: int = Field(description="as the vendor's tool counts")
    vendor: Vendor
    name: str | None = None
    memory_bytes: int | None = None
    free_bytes: int | None = None
    compute_capability: str | None = Field(None, description="NVIDIA: `8.0`")
    architecture: str | None = Field(None, description="AMD: `gfx90a`")
    uuid: str | None = None
    pci_bus_id: str | None = None
    numa_node: int | None = None
    cpu_affinity: str | None = None
    pcie_generation: int | None = None
    pcie_width: int | None = None
    pcie_max_width: int | None = None
    processes: int | None = Field(None, description="processes that compute on it now")
    display: bool | None = Field(None, description="a screen is attached, which takes memory and time")
    utilization: int | None = Field(None, description="percent of the time in which a kernel ran")
    power_watts: float | None = None
    power_limit_watts: float | None = None
    ecc_errors: int | None = Field(None, description="uncorrected memory errors since the driver was loaded")
    mig: bool = False
    slices: list[Slice] = Field(default_factory=list)
    fabric: str | None = Field(
        None, description="NVSwitch fabric: completed | in progress | not started | not supported"
    )
    visible: bool = Field(True, description="False where CUDA_VISIBLE_DEVICES and the like hide it from this process")

    @property
    def capability(self) -> tuple[int, int] | None:
        """(8, 0) for `8.0`."""
        major, _, minor = (self.compute_capability or "").partition(".")
        return (int(major), int(minor)) if major.isdigit() and minor.isdigit() else None


class Link(_Part):
    """The way between two accelerators (indices).

    `path` in the words of `nvidia-smi topo -m`: NV12, PIX, PXB, PHB, NODE, SYS; XGMI or PCIE on AMD.
    """

    first: int
    second: int
    path: str
    p2p: bool | None = Field(None, description="direct access is offered by the driver")

    @property
    def nvlinks(self) -> int:
        """NVLink connections between the two; 0 where there are none."""
        return int(self.path[2:]) if self.path.startswith("NV") and self.path[2:].isdigit() else 0


class Sign(_Part):
    """A line of a log or a tool that points to trouble which no field describes."""

    kind: Literal[
        "acs-redirect", "iommu-fault", "gpu-lost", "gpu-fault", "nvls-failed", "slow-nvidia-smi", "p2p-broken",
        "fabric-manager-down", "efa", "narrow-pcie", "cross-numa",
        "nvidia-gpus", "amd-gpus", "nccl-on-virtual", "machines-differ", "driver-mismatch",
        "mixed-cpu-gpu", "shm-full",
    ]
    text: str


class NicLink(_Part):
    gpu: int
    nic: str
    path: str


class Interface(_Part):
    name: str
    up: bool = False
    kind: Literal["loopback", "ethernet", "infiniband", "wireless", "virtual", "other"] = "other"
    speed_mbit: int | None = None
    mtu: int | None = None
    addresses: list[str] = Field(default_factory=list, description="with prefix length: 10.0.0.2/24")


class Route(_Part):
    """Where packets for `network` (CIDR) leave; the default route is 0.0.0.0/0."""

    network: str
    interface: str
    metric: int = 0


class RdmaPort(_Part):
    device: str
    port: int
    state: str | None = None
    rate_gbit: float | None = None
    link_layer: str | None = Field(None, description="InfiniBand, or Ethernet for RoCE")
    opened: bool | None = Field(None, description="whether /dev/infiniband is there to use it")
    gid_index: int | None = Field(None, description="of a RoCE v2 address with IPv4, where the table could be read")


class Network(_Part):
    interfaces: list[Interface] = Field(default_factory=list)
    default_interface: str | None = None
    routes: list[Route] = Field(default_factory=list)
    host_addresses: list[str] = Field(
        default_factory=list, description="what the hosts file says the host's own name is"
    )
    rdma: list[RdmaPort] = Field(default_factory=list)
    peer_speed_mbit: int | None = Field(None, description="between machines, where no interface is named with it")
    fabric: Literal["infiniband", "roce", "efa", "slingshot", "wireless"] | None = Field(
        None, description="the kind of network between machines, where no device is named with it"
    )

    def interface(self, name: str) -> Interface | None:
        return next((item for item in self.interfaces if item.name == name), None)


class TorchBuild(_Part):
    """Which devices the installed torch was compiled for; all None is a CPU build."""

    version: str | None = None
    cuda: str | None = None
    hip: str | None = None
    xpu: str | None = None


class Software(_Part):
    python: str | None = None
    packages: dict[str, str] = Field(default_factory=dict)
    torch: TorchBuild | None = None
    drivers: dict[str, str] = Field(
        default_factory=dict, description="nvidia, cuda (newest the driver runs), rocm, ..."
    )


class HardwareInventory(_Part):
    version: int = VERSION
    taken_unix_s: float | None = None
    host: str | None = None
    platform: Platform = Field(default_factory=Platform)
    cpu: Cpu = Field(default_factory=Cpu)
    memory: Memory = Field(default_factory=Memory)
    accelerators: list[Accelerator] = Field(default_factory=list)
    links: list[Link] = Field(default_factory=list)
    nic_links: list[NicLink] = Field(default_factory=list)
    network: Network = Field(default_factory=Network)
    software: Software = Field(default_factory=Software)
    environment: dict[str, str] = Field(
        default_factory=dict, description="variables that steer devices and communication"
    )
    signs: list[Sign] = Field(default_factory=list)
    unknown: dict[str, str] = Field(default_factory=dict, description="what could not be read, and why")
    evidence: dict[str, str] = Field(
        default_factory=dict, description="field: `line 4: ...` of the text it was read from; empty for a live machine"
    )

    @property
    def from_text(self) -> bool:
        """Read from pasted text: what it does not mention is unknown, not absent."""
        return bool(self.evidence) or "text" in self.unknown

    def sign(self, kind: str) -> Sign | None:
        return next((item for item in self.signs if item.kind == kind), None)

    def link(self, first: int, second: int) -> Link | None:
        """The way between two accelerators, whichever order it was written in."""
        wanted = {first, second}
        return next((item for item in self.links if {item.first, item.second} == wanted), None)


def dump_inventory(inventory: HardwareInventory) -> str:
    return inventory.model_dump_json(indent=2, exclude_none=True) + "\n"


def load_inventory(path: str | Path) -> HardwareInventory:
    """Read a saved inventory. Raises ValueError that says what is wrong with the file."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error})") from None
    try:
        data = json.loads(text)
    except ValueError as error:
        raise ValueError(f"{path}: not JSON ({error})") from None
    if not isinstance(data, dict) or not {"cpu", "platform", "accelerators"} & set(data):
        raise ValueError(f"{path}: not an inventory; `autotrain-wizard probe --json` writes one")
    if isinstance(data.get("version"), int) and data["version"] > VERSION:
        raise ValueError(
            f"{path}: version {data['version']} of the inventory is newer than {VERSION}; upgrade autotrain-wizard"
        )
    try:
        return HardwareInventory.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ValueError(f"{path}: {where}: {first['msg']}") from None
