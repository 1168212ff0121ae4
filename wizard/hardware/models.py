"""What the name of an accelerator alone tells: maker, generation, memory, how cards of its kind are joined.

From the makers' data sheets, NVIDIA's list of compute capabilities and AMD's list of GPU architectures. First match
wins, so longer names stand before the shorter ones they contain.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, field
from typing import Literal

from wizard.hardware.inventory import Vendor


@dataclass(frozen=True)
class Model:
    """One kind of device. `memory_gib` lists the sizes it is sold with; `nvlinks` joins a pair where all are up."""

    vendor: Vendor
    name: str
    pattern: str
    capability: str | None = None
    architecture: str | None = None
    memory_gib: tuple[int, ...] = ()
    nvlinks: int | None = None
    joined_by: Literal["bridge", "switch"] | None = None
    #: False where the driver offers no direct access over PCIe whatever the slots are.
    pcie_p2p: bool | None = None
    #: Devices that software sees for each card that a person counts.
    dies: int = 1
    compiled: re.Pattern = field(init=False, repr=False, compare=False, default=None)  # type: ignore[assignment]

    def __post_init__(self) -> None:
        object.__setattr__(self, "compiled", re.compile(rf"(?<![a-z0-9])(?:{self.pattern})(?![0-9])", re.I))


def _nvidia(name: str, pattern: str, capability: str, memory: tuple[int, ...] = (), **more) -> Model:
    return Model("nvidia", name, pattern, capability=capability, memory_gib=memory, **more)


def _amd(name: str, pattern: str, architecture: str, memory: tuple[int, ...] = (), **more) -> Model:
    return Model("amd", name, pattern, architecture=architecture, memory_gib=memory, **more)


def _geforce(name: str, capability: str, memory: tuple[int, ...], **more) -> Model:
    """`RTX 3090`, also as people shorten it: 3090, rtx3090."""
    number, *suffix = name.split()[-2 if name.endswith((" Ti", " SUPER")) else -1 :]
    tail = rf"[\s-]?{suffix[0]}" if suffix else r"(?![\s-]?(?:ti|super)\b)"
    brand = r"(?:geforce\s*)?(?:[rg]tx[\s-]?)" + ("?" if len(number) == 4 and int(number) >= 2000 else "")
    unit = r"(?!\s*(?:mib|mb|gb|gib|w|mhz|ms|s|it|tok|%)\b)(?![.,]\d)"
    return _nvidia(f"NVIDIA GeForce {name}", rf"{brand}{number}{tail}s?{unit}", capability, memory, **more)


_SWITCH18 = {"nvlinks": 18, "joined_by": "switch"}
_BRIDGE4 = {"nvlinks": 4, "joined_by": "bridge"}
_BRIDGE12 = {"nvlinks": 12, "joined_by": "bridge"}
_BRIDGE2 = {"nvlinks": 2, "joined_by": "bridge"}
_NO_P2P = {"pcie_p2p": False}

MODELS: list[Model] = [
    _nvidia("NVIDIA GB300", r"gb300", "10.3", (279,), **_SWITCH18),
    _nvidia("NVIDIA GB200", r"gb200", "10.0", (186,), **_SWITCH18),
    _nvidia("NVIDIA B300", r"b300", "10.3", (270,), **_SWITCH18),
    _nvidia("NVIDIA B200", r"b200", "10.0", (180,), **_SWITCH18),
    _nvidia("NVIDIA GB10", r"gb10|dgx spark", "12.1", (119,)),
    _nvidia("NVIDIA GH200", r"gh200", "9.0", (96, 144)),
    _nvidia("NVIDIA H200 NVL", r"h200[\s-]nvl", "9.0", (141,)),
    _nvidia("NVIDIA H200", r"h200s?", "9.0", (141,), **_SWITCH18),
    _nvidia("NVIDIA H100 NVL", r"h100[\s-]nvl", "9.0", (94,), **_BRIDGE12),
    _nvidia("NVIDIA H100 PCIe", r"h100[\s-](?:80gb[\s-])?pcie", "9.0", (80,), **_BRIDGE12),
    _nvidia(
        "NVIDIA H100 SXM5", r"h100[\s-](?:\d\dgb[\s-])?(?:hbm3|sxm5?)(?:[\s-]\d\dgb)?", "9.0", (80, 64), **_SWITCH18
    ),
    _nvidia("NVIDIA H100", r"h100s?", "9.0", (80,)),
    _nvidia("NVIDIA H800", r"h800", "9.0", (80,)),
    _nvidia("NVIDIA H20", r"h20", "9.0", (96, 141)),
    _nvidia("NVIDIA A100-PCIE", r"a100[\s-](?:\d0gb[\s-])?pcie(?:[\s-]\d0gb)?", "8.0", (40, 80), **_BRIDGE12),
    _nvidia(
        "NVIDIA A100-SXM4",
        r"a100[\s-](?:\d0gb[\s-])?sxm4?(?:[\s-]\d0gb)?",
        "8.0",
        (40, 80),
        nvlinks=12,
        joined_by="switch",
    ),
    _nvidia("NVIDIA A100", r"a100s?(?:[\s-]\d0gb)?", "8.0", (40, 80)),
    _nvidia("NVIDIA A800", r"a800", "8.0", (40, 80)),
    _nvidia("NVIDIA A40", r"a40s?", "8.6", (48,), **_BRIDGE4),
    _nvidia("NVIDIA A30", r"a30s?", "8.0", (24,), **_BRIDGE4),
    _nvidia("NVIDIA A10G", r"a10gs?", "8.6", (24,)),
    _nvidia("NVIDIA A10", r"a10s?", "8.6", (24,)),
    _nvidia("NVIDIA A16", r"a16", "8.6", (16,)),
    _nvidia("NVIDIA A2", r"(?:nvidia|tesla)\s+a2|(?<=\d x )a2s?", "8.6", (16,)),
    _nvidia("NVIDIA L40S", r"l40s", "8.9", (48,)),
    _nvidia("NVIDIA L40", r"l40", "8.9", (48,)),
    _nvidia("NVIDIA L20", r"nvidia l20|l20(?=\s+(?:gpu|48))", "8.9", (48,)),
    _nvidia("NVIDIA L4", r"l4s?", "8.9", (24,)),
    _nvidia("Tesla T4", r"t4g?s?", "7.5", (16,)),
    _nvidia("Tesla V100-SXM3", r"v100[\s-](?:32gb[\s-])?sxm3(?:[\s-]32gb)?", "7.0", (32,), nvlinks=6, joined_by="switch"),
    _nvidia("Tesla V100-SXM2", r"v100s?[\s-](?:\d\dgb[\s-])?sxm2(?:[\s-]\d\dgb)?", "7.0", (16, 32)),
    _nvidia("Tesla V100", r"v100s?(?:[\s-]pcie)?(?:[\s-]\d\dgb)?", "7.0", (16, 32)),
    _nvidia("Tesla P100", r"p100s?", "6.0", (16, 12)),
    _nvidia("Tesla P40", r"p40s?", "6.1", (24,)),
    _nvidia("Tesla P4", r"(?:tesla|nvidia)\s+p4|(?<=\d x )p4s?", "6.1", (8,)),
    _nvidia("Tesla M40", r"m40", "5.2", (12, 24)),
    _nvidia("Tesla M60", r"m60", "5.2", (8,)),
    _nvidia("Tesla K80", r"k80s?", "3.7", (12,)),
    _nvidia("Tesla K40", r"k40[cms]?", "3.5", (12,)),
    _nvidia("Tesla K20", r"k20[cmx]?", "3.5", (5,)),
    _nvidia("NVIDIA RTX PRO 6000 Blackwell", r"rtx[\s-]?pro[\s-]?6000", "12.0", (96,)),
    _nvidia("NVIDIA RTX PRO 5000 Blackwell", r"rtx[\s-]?pro[\s-]?5000", "12.0", (48, 72)),
    _nvidia("NVIDIA RTX PRO 4500 Blackwell", r"rtx[\s-]?pro[\s-]?4[05]00", "12.0", (32, 24)),
    _nvidia("NVIDIA RTX 6000 Ada Generation", r"(?:rtx[\s-]?)?6000[\s-]ada", "8.9", (48,)),
    _nvidia("NVIDIA RTX 5000 Ada Generation", r"(?:rtx[\s-]?)?5000[\s-]ada", "8.9", (32,)),
    _nvidia("NVIDIA RTX 4500 Ada Generation", r"(?:rtx[\s-]?)?4500[\s-]ada", "8.9", (24,)),
    _nvidia("NVIDIA RTX 4000 Ada Generation", r"(?:rtx[\s-]?)?4000(?:[\s-]sff)?[\s-]ada", "8.9", (20,)),
    _nvidia("NVIDIA RTX A6000", r"(?:rtx[\s-]?)?a6000s?", "8.6", (48,), **_BRIDGE4),
    _nvidia("NVIDIA RTX A5500", r"(?:rtx[\s-]?)?a5500", "8.6", (24,), **_BRIDGE4),
    _nvidia("NVIDIA RTX A5000", r"(?:rtx[\s-]?)?a5000s?", "8.6", (24,), **_BRIDGE4),
    _nvidia("NVIDIA RTX A4500", r"(?:rtx[\s-]?)?a4500", "8.6", (20,), **_BRIDGE4),
    _nvidia("NVIDIA RTX A4000", r"(?:rtx[\s-]?)?a4000s?", "8.6", (16,)),
    _nvidia("NVIDIA RTX A2000", r"(?:rtx[\s-]?)?a2000", "8.6", (12, 6)),
    _nvidia("Quadro RTX 8000", r"(?:quadro\s*)?rtx[\s-]?8000", "7.5", (48,), **_BRIDGE2),
    _nvidia("Quadro RTX 6000", r"(?:quadro\s*)?rtx[\s-]?6000", "7.5", (24,), **_BRIDGE2),
    _nvidia("Quadro RTX 5000", r"(?:quadro\s*)?rtx[\s-]?5000", "7.5", (16,), **_BRIDGE2),
    _nvidia("Quadro RTX 4000", r"(?:quadro\s*)?rtx[\s-]?4000", "7.5", (8,)),
    _nvidia("Quadro GV100", r"gv100", "7.0", (32,)),
    _nvidia("Quadro P6000", r"quadro\s*p6000", "6.1", (24,)),
    _nvidia("Quadro P5000", r"quadro\s*p5000", "6.1", (16,)),
    _nvidia("NVIDIA TITAN RTX", r"titan[\s-]?rtx", "7.5", (24,), **_BRIDGE2),
    _nvidia("NVIDIA TITAN V", r"titan[\s-]?v", "7.0", (12,)),
    _nvidia("NVIDIA TITAN Xp", r"titan[\s-]?xp?", "6.1", (12,)),
    _geforce("RTX 5090", "12.0", (32,), **_NO_P2P),
    _geforce("RTX 5080", "12.0", (16,), **_NO_P2P),
    _geforce("RTX 5070 Ti", "12.0", (16,), **_NO_P2P),
    _geforce("RTX 5070", "12.0", (12,), **_NO_P2P),
    _geforce("RTX 5060 Ti", "12.0", (16, 8), **_NO_P2P),
    _geforce("RTX 5060", "12.0", (8,), **_NO_P2P),
    _geforce("RTX 4090", "8.9", (24,), **_NO_P2P),
    _geforce("RTX 4080 SUPER", "8.9", (16,), **_NO_P2P),
    _geforce("RTX 4080", "8.9", (16,), **_NO_P2P),
    _geforce("RTX 4070 Ti", "8.9", (12, 16), **_NO_P2P),
    _geforce("RTX 4070 SUPER", "8.9", (12,), **_NO_P2P),
    _geforce("RTX 4070", "8.9", (12, 8), **_NO_P2P),
    _geforce("RTX 4060 Ti", "8.9", (16, 8), **_NO_P2P),
    _geforce("RTX 4060", "8.9", (8,), **_NO_P2P),
    _geforce("RTX 3090 Ti", "8.6", (24,), **_BRIDGE4),
    _geforce("RTX 3090", "8.6", (24,), **_BRIDGE4),
    _geforce("RTX 3080 Ti", "8.6", (12,)),
    _geforce("RTX 3080", "8.6", (10, 12)),
    _geforce("RTX 3070 Ti", "8.6", (8,)),
    _geforce("RTX 3070", "8.6", (8,)),
    _geforce("RTX 3060 Ti", "8.6", (8,)),
    _geforce("RTX 3060", "8.6", (12,)),
    _geforce("RTX 3050", "8.6", (8,)),
    _geforce("RTX 2080 Ti", "7.5", (11, 22), **_BRIDGE2),
    _geforce("RTX 2080 SUPER", "7.5", (8,), nvlinks=1, joined_by="bridge"),
    _geforce("RTX 2080", "7.5", (8,), nvlinks=1, joined_by="bridge"),
    _geforce("RTX 2070 SUPER", "7.5", (8,), nvlinks=1, joined_by="bridge"),
    _geforce("RTX 2070", "7.5", (8,)),
    _geforce("RTX 2060", "7.5", (6, 12)),
    _geforce("GTX 1660 Ti", "7.5", (6,)),
    _geforce("GTX 1660", "7.5", (6,)),
    _geforce("GTX 1650", "7.5", (4,)),
    _geforce("GTX 1080 Ti", "6.1", (11,)),
    _geforce("GTX 1080", "6.1", (8,)),
    _geforce("GTX 1070 Ti", "6.1", (8,)),
    _geforce("GTX 1070", "6.1", (8,)),
    _geforce("GTX 1060", "6.1", (6, 3)),
    _geforce("GTX 980 Ti", "5.2", (6,)),
    _geforce("GTX 980", "5.2", (4,)),
    _geforce("GTX 970", "5.2", (4,)),
    _geforce("GTX 780", "3.5", (3,)),
    _nvidia("NVIDIA Jetson AGX Orin", r"jetson (?:agx )?orin|agx orin", "8.7", (64, 32)),
    _amd("AMD Instinct MI355X", r"mi355x?", "gfx950", (288,)),
    _amd("AMD Instinct MI350X", r"mi350x?", "gfx950", (288,)),
    _amd("AMD Instinct MI325X", r"mi325x?", "gfx942", (256,)),
    _amd("AMD Instinct MI300A", r"mi300a", "gfx942", (128,)),
    _amd("AMD Instinct MI300X", r"mi300x?", "gfx942", (192,)),
    _amd("AMD Instinct MI250X", r"mi250x?", "gfx90a", (64,), dies=2),
    _amd("AMD Instinct MI210", r"mi210", "gfx90a", (64,)),
    _amd("AMD Instinct MI100", r"mi100", "gfx908", (32,)),
    _amd("AMD Instinct MI60", r"mi60", "gfx906", (32,)),
    _amd("AMD Instinct MI50", r"mi50", "gfx906", (16, 32)),
    _amd("AMD Radeon PRO W7900", r"w7900", "gfx1100", (48,)),
    _amd("AMD Radeon PRO W7800", r"w7800", "gfx1100", (32, 48)),
    _amd("AMD Radeon PRO W6800", r"w6800", "gfx1030", (32,)),
    _amd("AMD Radeon AI PRO R9700", r"r9700", "gfx1201", (32,)),
    _amd("AMD Radeon RX 9070 XT", r"(?:rx\s?)?9070(?:\s?xt)?", "gfx1201", (16,)),
    _amd("AMD Radeon RX 9060 XT", r"(?:rx\s?)?9060(?:\s?xt)?", "gfx1200", (16, 8)),
    _amd("AMD Radeon RX 7900 XTX", r"(?:rx\s?)?7900\s?xtx", "gfx1100", (24,)),
    _amd("AMD Radeon RX 7900 XT", r"(?:rx\s?)?7900(?:\s?(?:xt|gre))", "gfx1100", (20, 16)),
    _amd("AMD Radeon RX 7800 XT", r"rx\s?7[78]00\s?xt", "gfx1101", (16, 12)),
    _amd("AMD Radeon RX 7600", r"rx\s?7600(?:\s?xt)?", "gfx1102", (8, 16)),
    _amd("AMD Radeon RX 6900 XT", r"rx\s?69[05]0\s?xt", "gfx1030", (16,)),
    _amd("AMD Radeon RX 6800 XT", r"rx\s?6800(?:\s?xt)?", "gfx1030", (16,)),
    _amd("AMD Radeon RX 6700 XT", r"rx\s?67[05]0\s?xt", "gfx1031", (12,)),
    _amd("AMD Radeon RX 6600", r"rx\s?66[05]0(?:\s?xt)?", "gfx1032", (8,)),
    _amd("AMD Radeon VII", r"radeon\s*vii", "gfx906", (16,)),
    _amd("AMD Radeon RX Vega 64", r"vega\s?(?:56|64)", "gfx900", (8,)),
    _amd("AMD Radeon 8060S", r"8060s|ryzen ai max\+?|strix halo", "gfx1151"),
    Model("intel", "Intel Data Center GPU Max 1550", r"max\s?1550|pvc\s?1550", memory_gib=(64,), dies=2),
    Model("intel", "Intel Data Center GPU Max 1100", r"max\s?1100", memory_gib=(48,)),
    Model("intel", "Intel Data Center GPU Flex 170", r"flex\s?1[47]0", memory_gib=(16,)),
    Model("intel", "Intel Arc Pro B60", r"arc\s*(?:\(tm\))?\s*pro\s*b[56]0", memory_gib=(24, 16)),
    Model("intel", "Intel Arc B580", r"(?:arc\s*(?:\(tm\))?\s*)?b5[78]0", memory_gib=(12, 10)),
    Model("intel", "Intel Arc A770", r"arc\s*(?:\(tm\))?\s*a7[57]0|a770m?", memory_gib=(16, 8)),
    Model("habana", "Intel Gaudi 3", r"gaudi[\s-]?3|hl-?325\w?", memory_gib=(128,)),
    Model("habana", "Intel Gaudi 2", r"gaudi[\s-]?2|hl-?225\w?|hpu", memory_gib=(96,)),
    Model("habana", "Habana Gaudi", r"gaudi|hl-?205\w?|dl1\.24xlarge", memory_gib=(32,)),
    Model("ascend", "Ascend 910C", r"910c|ascend910_9\d*", memory_gib=(64,)),
    Model("ascend", "Ascend 910B", r"(?:ascend[\s-]?)?910b\d?|atlas\s?800t?\s?a2", memory_gib=(64, 32)),
    Model("ascend", "Ascend 910", r"ascend[\s-]?910a?", memory_gib=(32,)),
    Model("trainium", "AWS Trainium", r"trainium\s?\d?|trn[12]n?\.\d*xlarge|inferentia\s?\d?|inf2\.\d*xlarge"),
    Model("tpu", "Google TPU", r"tpu[\s-]?v\d\w?(?:-\d+)?|cloud tpu|\btpus?"),
]

_APPLE = re.compile(r"(?<![\w.])(?:apple\s+)?(m[1-6])(?:\s+(pro|max|ultra))?\b(?![-.\w])", re.I)


#: Generations by the beginning of a name, for names that a table cut off (`GeForce RTX 208...`).
_GENERATIONS = [
    (re.compile(r"RTX\s?PRO|RTX\s?50", re.I), "12.0"),
    (re.compile(r"RTX\s?40|Ada", re.I), "8.9"),
    (re.compile(r"RTX\s?(?:30|A\d)", re.I), "8.6"),
    (re.compile(r"RTX\s?20|GTX\s?16|Quadro RTX", re.I), "7.5"),
    (re.compile(r"GTX\s?10", re.I), "6.1"),
]


def cut_off_capability(name: str | None) -> str | None:
    """Compute capability from a name that ends in dots, where its beginning names the generation."""
    if not name or not name.endswith("..."):
        return None
    return next((capability for pattern, capability in _GENERATIONS if pattern.search(name)), None)


@functools.lru_cache(maxsize=1024)
def known_model(name: str | None) -> Model | None:
    """The model that a device's name means, or None where no table has it."""
    if not name:
        return None
    return next((model for model in MODELS if model.compiled.search(name)), None)


def models_in(text: str) -> list[tuple[int, int, Model]]:
    """(start, end, model) of every mention in a text, left to right, the longer name where two overlap."""
    found: list[tuple[int, int, Model]] = []
    for model in MODELS:
        for match in model.compiled.finditer(text):
            if not any(start < match.end() and match.start() < end for start, end, _ in found):
                found.append((match.start(), match.end(), model))
    return sorted(found, key=lambda item: item[0])


def apple_chip(text: str) -> str | None:
    """`Apple M2 Pro` where a text names a chip of a Mac; a bare M2 is none."""
    for match in _APPLE.finditer(text):
        if "apple" in match[0].lower() or match[2] or re.search(r"mac|mbp|mps|darwin|os x", text, re.I):
            return f"Apple {match[1].upper()}" + (f" {match[2].capitalize()}" if match[2] else "")
    return None


def memory_bytes(model: Model, near: str = "") -> int | None:
    """Memory of a model: its only size, or the one of its sizes that the words around the name say."""
    said = {int(float(size)) for size in re.findall(r"(\d+(?:\.\d+)?)\s*(?:gb|gib|g)\b", near, re.I)}
    for size in model.memory_gib:
        if size in said:
            return size * 2**30
    return model.memory_gib[0] * 2**30 if len(model.memory_gib) == 1 else None
