"""Cloud machines by the name of their type: what the provider's pages say is inside.

Sources: the instance type pages of AWS EC2, Google Compute Engine and Azure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Instance:
    """`gpu` in the words of `wizard.hardware.models`; `network_gbit` is the total between machines."""

    pattern: str
    count: int
    gpu: str
    network_gbit: int | None = None
    fabric: str | None = None


_TYPES = [
    Instance(r"p3\.2xlarge", 1, "V100-SXM2 16GB", 10),
    Instance(r"p3\.8xlarge", 4, "V100-SXM2 16GB", 10),
    Instance(r"p3\.16xlarge", 8, "V100-SXM2 16GB", 25),
    Instance(r"p3dn\.24xlarge", 8, "V100-SXM2 32GB", 100, "efa"),
    Instance(r"p4d\.24xlarge", 8, "A100-SXM4 40GB", 400, "efa"),
    Instance(r"p4de\.24xlarge", 8, "A100-SXM4 80GB", 400, "efa"),
    Instance(r"p5\.48xlarge", 8, "H100 SXM5", 3200, "efa"),
    Instance(r"p5\.4xlarge", 1, "H100 SXM5", 100, "efa"),
    Instance(r"p5en?\.48xlarge", 8, "H200", 3200, "efa"),
    Instance(r"p6-b200\.48xlarge", 8, "B200", 3200, "efa"),
    Instance(r"p2\.xlarge", 1, "K80"),
    Instance(r"p2\.8xlarge", 8, "K80", 10),
    Instance(r"p2\.16xlarge", 16, "K80", 25),
    Instance(r"g4dn\.(?:\d?xlarge|[248]xlarge|16xlarge)", 1, "T4", 25),
    Instance(r"g4dn\.12xlarge", 4, "T4", 50),
    Instance(r"g4dn\.metal", 8, "T4", 100),
    Instance(r"g5\.(?:xlarge|[248]xlarge|16xlarge)", 1, "A10G", 10),
    Instance(r"g5\.(?:12|24)xlarge", 4, "A10G", 40),
    Instance(r"g5\.48xlarge", 8, "A10G", 100),
    Instance(r"g6\.(?:xlarge|[248]xlarge|16xlarge)", 1, "L4", 10),
    Instance(r"g6\.(?:12|24)xlarge", 4, "L4", 40),
    Instance(r"g6\.48xlarge", 8, "L4", 100),
    Instance(r"g6e\.(?:xlarge|[248]xlarge|16xlarge)", 1, "L40S", 20),
    Instance(r"g6e\.(?:12|24)xlarge", 4, "L40S", 100),
    Instance(r"g6e\.48xlarge", 8, "L40S", 400),
    Instance(r"a2-highgpu-([1248])g", 0, "A100-SXM4 40GB"),
    Instance(r"a2-megagpu-16g", 16, "A100-SXM4 40GB", 100),
    Instance(r"a2-ultragpu-([1248])g", 0, "A100-SXM4 80GB"),
    Instance(r"a3-(?:high|mega|edge)gpu-([1248])g", 0, "H100 SXM5"),
    Instance(r"a3-ultragpu-8g", 8, "H200"),
    Instance(r"a4-highgpu-8g", 8, "B200"),
    Instance(r"g2-standard-(?:4|8|12|16|32)\b", 1, "L4"),
    Instance(r"g2-standard-24", 2, "L4"),
    Instance(r"g2-standard-48", 4, "L4"),
    Instance(r"g2-standard-96", 8, "L4", 100),
    Instance(r"(?:standard_)?nd96asr_v4", 8, "A100-SXM4 40GB", 1600, "infiniband"),
    Instance(r"(?:standard_)?nd96amsr_a100_v4", 8, "A100-SXM4 80GB", 1600, "infiniband"),
    Instance(r"(?:standard_)?nd96is?r?_h100_v5", 8, "H100 SXM5", 3200, "infiniband"),
    Instance(r"(?:standard_)?nd96is?r?_h200_v5", 8, "H200", 3200, "infiniband"),
    Instance(r"(?:standard_)?nd96is?r?_mi300x_v5", 8, "MI300X", 3200, "infiniband"),
    Instance(r"(?:standard_)?nd40rs_v2", 8, "V100-SXM2 32GB", 100, "infiniband"),
    Instance(r"(?:standard_)?nc24ads_a100_v4", 1, "A100-PCIE 80GB"),
    Instance(r"(?:standard_)?nc48ads_a100_v4", 2, "A100-PCIE 80GB"),
    Instance(r"(?:standard_)?nc96ads_a100_v4", 4, "A100-PCIE 80GB"),
    Instance(r"(?:standard_)?nc6s_v3", 1, "V100 16GB"),
    Instance(r"(?:standard_)?nc12s_v3", 2, "V100 16GB"),
    Instance(r"(?:standard_)?nc24r?s_v3", 4, "V100 16GB"),
    Instance(r"(?:standard_)?nc40ads_h100_v5", 1, "H100 NVL"),
    Instance(r"(?:standard_)?nc80adis_h100_v5", 2, "H100 NVL"),
    Instance(r"(?:standard_)?nc(?:4|8|16)as_t4_v3", 1, "T4"),
    Instance(r"(?:standard_)?nc64as_t4_v3", 4, "T4"),
    Instance(r"dgx[\s-]?a100", 8, "A100-SXM4"),
    Instance(r"dgx[\s-]?h100", 8, "H100 SXM5"),
    Instance(r"dgx[\s-]?h200", 8, "H200"),
    Instance(r"dgx[\s-]?b200", 8, "B200"),
    Instance(r"dgx-?2\b", 16, "V100-SXM3 32GB"),
    Instance(r"dgx-?1v?\b", 8, "V100-SXM2"),
    Instance(r"dl1\.24xlarge", 8, "Gaudi", 400, "efa"),
]
TYPES = [(re.compile(rf"(?<![\w.-])(?:{item.pattern})(?![\w-])", re.I), item) for item in _TYPES]


def instances_in(text: str) -> list[tuple[int, int, Instance, int]]:
    """(start, end, instance, GPUs) of every machine type that a text names."""
    found = []
    for pattern, item in TYPES:
        for match in pattern.finditer(text):
            if not any(start <= match.start() < end for start, end, _, _ in found):
                found.append((match.start(), match.end(), item, item.count or int(match[1])))
    return found
