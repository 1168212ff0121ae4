"""Signs of trouble in kernel logs and PCI registers: IOMMU, ACS, Xid, fabric manager, NVLS."""

from __future__ import annotations

import re
from collections.abc import Iterator

from wizard.hardware.reading.lines import Fact, Paste

#: Kind of sign and the words it has.
_SIGNS = [
    ("acs-redirect", r"ACSCtl:.*(?:ReqRedir\+|CmpltRedir\+)|\bACS\b.*\b(?:is )?(?:enabled|on)\b"),
    ("iommu-fault", r"IO_PAGE_FAULT|DMAR:.*\[(?:DMA|PTE)[^\]]*\].*fault|DMAR: DRHD: handling fault|iommu.*page fault"),
    ("gpu-lost", r"Xid[^\n]*:\s*79\b|fallen off the bus|GPU is lost"),
    ("gpu-fault", r"Xid[^\n]*:\s*(?:48|63|64|74|92|94|95|119|120)\b"),
    ("nvls-failed", r"transport/nvls\.cc.*(?:fail|error|warn)|(?:NVLS|multicast).*(?:fail|error|cannot|could not)|Cuda failure.*nvls"),
    ("fabric-manager-down", r"fabric-?manager.*(?:inactive|failed|dead|not (?:running|found|active)|could not be found|mismatch)|"
                            r"(?:inactive|failed|dead).*fabric-?manager|system not yet initialized|Error 802\b"),
    ("p2p-broken", r"p2p.*(?:hang|stuck|wrong data|corrupt|broken)|(?:hang|stuck|wrong data|corrupt)\w*.*\bp2p\b|"
                   r"Validating.*P2P.*fail|P2P.*verification.*fail"),
    ("nvidia-gpus", r"\bNV-?link\b|\bNVSwitch\b|\bCUDA\b(?!.*(?:none|N/A|False|not available))|\bNCCL_|\bNVIDIA\b|\bnvidia-smi\b|\bnccl\b"),
    ("amd-gpus", r"\bxGMI\b|\bROCm\b(?!.*N/A)|\bRCCL\b|\brocm-smi\b|\bamd-smi\b|\bGCDs?\b"),
    ("nccl-on-virtual", r"NET/Socket\s*:\s*Using\s+\[0\](?:docker|virbr|veth|br-|lo\b|cni|flannel|cali)"),
    ("shm-full", r"/dev/shm/nccl-\w+.*(?:fail|error|No space)|(?:fail|error|creating).*/dev/shm/nccl-|shared memory segment.*/dev/shm.*size"),
    ("driver-mismatch", r"Driver/library version mismatch"),
    ("efa", r"\befa_\d|rdmap\d+s\d+|provider:\s*efa|Elastic Fabric Adapter|aws-ofi-nccl"),
]


def read_kernel(paste: Paste) -> Iterator[Fact]:
    for kind, pattern in _SIGNS:
        for line, _ in paste.find(pattern):
            if kind == "efa" and re.search(r"\bno EFA\b|without EFA", line.text, re.I):
                continue
            yield Fact(("sign", kind), " ".join(line.text.split()), line, "log")
            break
    for line, _ in paste.find(r"fabric-?manager.*active \(running\)|Active: active \(running\).*fabric|fabric-?manager\b[^\n]*\b(?:is )?(?:running|active)\b(?<!inactive)"):
        if not re.search(r"inactive|not (?:running|active)", line.text, re.I):
            yield Fact(("fabric_manager",), "completed", line, "systemctl")
    for line, match in paste.find(r"(?:BOOT_IMAGE|Kernel command line|/proc/cmdline|GRUB_CMDLINE)[^\n]*"):
        options = re.findall(r"(?:^|[\s\"'=])(?:amd_|intel_)?iommu=([\w,]+)", match[0])
        values = [value for item in options for value in item.split(",")]
        value = next((word for word in ("pt", "off", "on") if word in values), "default")
        yield Fact(("platform", "iommu"), value, line, "/proc/cmdline")
    for line, match in paste.find(r"Default domain type:\s*(\w+)|\biommu=(pt|off|on)\b|\bIOMMU\s+(?:is\s+)?(enabled|on|off|disabled)\b"):
        word = (match[1] or match[2] or match[3]).lower()
        value = {"translated": "on", "passthrough": "pt", "enabled": "on", "disabled": "off"}.get(word, word)
        yield Fact(("platform", "iommu"), value, line, "dmesg")
    for line, _ in paste.find(r"DMAR: IOMMU enabled|AMD-Vi: (?:Interrupt remapping enabled|AMD IOMMUv2 loaded)"):
        yield Fact(("platform", "iommu"), "on", line, "dmesg")
