"""Plain descriptions: `2x RTX 3090, Threadripper, no NVLink`; `4 nodes of 8 A100 80GB, 100 Gbit`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from wizard.hardware.instances import instances_in
from wizard.hardware.models import memory_bytes, models_in
from wizard.hardware.reading.lines import Fact, Group, Line, Paste

SOURCE = "description"
WORDS = {
    "a": 1, "an": 1, "one": 1, "single": 1, "two": 2, "dual": 2, "both": 2, "pair of": 2, "couple of": 2, "three": 3,
    "triple": 3, "four": 4, "quad": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "ten": 10, "twelve": 12,
    "sixteen": 16, "thirty-two": 32,
}
_NUMBER = r"(\d{1,4}|" + "|".join(WORDS) + r")"
_BRAND = r"(?:NVIDIA|Nvidia|Intel\(R\)|Data Center|Radeon(?:\(TM\))? Pro|Arc|GeForce|Tesla|Quadro|AMD|Instinct|Radeon|Intel|Google|AWS|PCIe|SXM\d?|(?:\d+\s?(?:GB|GiB))|identical|x|\*|of|the|GPUs?|cards?|boards?|:|-|\()"
_BEFORE = re.compile(rf"(?<![\w.]){_NUMBER}\s*(?:{_BRAND}\s*)*$", re.I)
_AFTER = re.compile(r"^(?:\s|SXM\d?|PCIe|NVLink|GPUs?|cards?|\(|\)|-|,?\s*\d+\s?(?:GB|GiB)(?:\s*each)?)*?\s*(?:x\s?(\d{1,3})\b(?!\d*\s*(?:lane|slot))|\((\d{1,3})\s*(?:x|gpus?|cards?)?\))", re.I)
_LOOSE = re.compile(rf"(?<![\w.]){_NUMBER}[\s-]*(?:x\s*)?(?:GPUs?|graphics cards|accelerators|APUs|NPUs|HPUs|XPUs)\b", re.I)
_NODES = re.compile(
    rf"(?<![\w.]){_NUMBER}[\s-]*(?:x\s*)?(?:identical\s+|compute\s+|GPU\s+|worker\s+|DGX\s+|CPU\s+|CPU-only\s+|old\s+|physical\s+)*"
    r"(?:nodes?|machines?|servers?|hosts?|boxes|workstations?|instances?|VMs?|desktops?|PCs|laptops|trays|Macs|Mac Studios|Mac minis)\b",
    re.I,
)
_EACH = re.compile(r"\beach\b|\bper (?:node|machine|server|host|box|instance)\b|/node\b|\bapiece\b", re.I)
_GBIT = re.compile(
    r"(?<![\w.])(\d+(?:\.\d+)?)\s*-?\s*(?:(?:[Gg][Bb]it|[Gg]b/s|[Gg]b(?:it)?ps|[Gg]bE|Gb\b|GBE|[Gg]ig[ -]?E|[Gg]igabit)"
    r"|G\s+(?:[Ee]thernet|RoCE|[Nn]etwork|[Ll]ink|NIC|[Ii]nfini[Bb]and|IB|LAN|EFA))"
)
_MBIT = re.compile(r"(?<![\w.])(\d+)\s*(?:[Mm]bit|Mb/s|[Mm]bps)")
_INFINIBAND = {"qdr": 40, "fdr": 56, "edr": 100, "hdr": 200, "ndr": 400, "xdr": 800, "hdr100": 100, "ndr200": 200}
_CPU = re.compile(
    r"((?:AMD\s+)?(?:Ryzen\s+)?Threadripper(?:\s+PRO)?(?:\s+\d{4}\w*)?|(?:AMD\s+)?EPYC(?:\s+\d\w{3}\w?)?|(?:AMD\s+)?Ryzen\s+\d\s+\d{4}\w*|"
    r"(?:Intel(?:\(R\))?\s+)?Xeon(?:\(R\))?(?:\s+(?:Platinum|Gold|Silver|Bronze|Max|W|E\d?|D|CPU)[\s-]*[\w-]*)*|(?:Intel\s+)?Core\s+(?:Ultra\s+)?i?\d[\w-]*|"
    r"\bi[3579]-\d{4,5}\w*|Ampere Altra|Graviton\s*\d?|Grace)", re.I)


def read_plain(paste: Paste, taken: set[int]) -> Iterator[Fact]:
    """`taken`: lines that a tool's reader already explained, where a model's name is no new device."""
    free = [line for line in paste.lines if line.number not in taken]
    for line in free:
        yield from _devices(line)
        yield from _network(line)
        yield from _named(line)
    numbered = {
        match[1] for line in free for match in re.finditer(r"\b((?:node|host|machine|server|worker)[-_ ]?\d+)\s*:", line.text, re.I)
    }
    if len(numbered) > 1:
        yield Fact(("nodes",), len(numbered), free[0], SOURCE)
    pattern = r"device_count\(\)\s*[=:]?\s*(\d+)|\b(?:number of GPUs|GPU count|num_gpus|GPUs|\w+\.com/gpu)\"?\s*[:=]\s*\"?(\d+)\b"
    for line, match in paste.find(pattern):
        if int(match[1] or match[2]) > 0:
            yield Fact(("gpu_count",), int(match[1] or match[2]), line, SOURCE)
    for line in paste.lines:
        yield from _words(line)
        if line.number not in taken:
            yield from _processor(line)


def value_of(word: str) -> int:
    return int(word) if word.isdigit() else WORDS[word.lower()]


def spaced(text: str) -> str:
    """`8xH100` as `8 x H100`, which the names' patterns need; nothing else changes."""
    text = re.sub(r"\bgpu:([A-Za-z][\w.-]*):(\d{1,2})\b", r"\2 x \1", text)  # as Slurm writes it
    text = re.sub(r"(?<![\w.])(\d{1,3})(?:\s?[x*]|X|\sX(?=\s))\s*(?=[A-Za-z(]|\d{4}|\d{2}\d?[A-Za-z])", r"\1 x ", text)
    return re.sub(r"(?<=[a-z0-9])x(\d{1,2})(?=\s|,|$|\))", r" x\1", text) if re.search(r"\d{4}x\d|[A-Z]\d+x\d", text) else text


def _devices(line: Line) -> Iterator[Fact]:
    text = spaced(line.text)
    if re.search(r"\bno (?:GPUs?|graphics card|accelerators?)\b|\bCPU[- ]only\b|\bwithout (?:a |any )?GPUs?\b|\bGPU\W+none\b", text, re.I):
        yield Fact(("cpu_only",), True, line, SOURCE)
    nodes = _node_count(text)
    if nodes is not None:
        yield Fact(("nodes",), nodes, line, SOURCE)
    for start, _, machine, count in instances_in(text):
        many = re.search(rf"{_NUMBER}\s*(?:x\s*)?(?:AWS|GCP|Azure|Amazon|NVIDIA)?\s*$", text[:start], re.I)
        if many and value_of(many[1]) > 1:
            yield Fact(("nodes",), value_of(many[1]), line, SOURCE)
        yield Fact(("platform", "cloud"), re.sub(r"\s+", "-", text[start:_]).lower(), line, SOURCE)
        for _, _, model in models_in(machine.gpu)[:1]:
            said = memory_bytes(model, f"{machine.gpu} {text}")
            yield Fact(("group",), Group(model.name, count, said), line, "type of machine")
        if machine.network_gbit:
            yield Fact(("network", "peer_speed_mbit"), machine.network_gbit * 1000, line, "type of machine")
        if machine.fabric:
            yield Fact(("network", "fabric"), machine.fabric, line, "type of machine")
    spans = [(start, end) for start, end, _, _ in instances_in(text)]
    mentions = [item for item in models_in(text) if not any(start <= item[0] < end for start, end in spans)]
    if spans and mentions and len({model for *_, model in mentions}) == 1:
        mentions = []  # `g5.12xlarge (4x A10G)` says the same twice
    for at, (start, end, model) in enumerate(mentions):
        if re.search(r"\b(?:not|instead of|rather than|unlike|than|vs\.?|like)\s+(?:an?\s+|the\s+)?(?:\w+\s+)?$", text[:start], re.I):
            continue
        limit = mentions[at + 1][0] if at + 1 < len(mentions) else len(text)
        before = text[mentions[at - 1][1] if at else 0 : start]
        count = _count(before, text[end:limit])
        if count is None and len(mentions) == 1 and (loose := _LOOSE.search(text)):
            count = value_of(loose[1])
        twins = sum(other is model for *_, other in mentions)
        lanes = count in (4, 8, 16) and re.match(r"^\s*\(x\d+\)", text[end:limit])
        if twins > 1 and (count is None or lanes):  # `a 3090 in slot 1, a 3090 in slot 2`; `3090 (x8) + 3090 (x8)`
            count = twins
        size = memory_bytes(model, text[max(0, start - 12) : min(limit, end + 24)])
        total = nodes is not None and nodes > 1 and count is not None and len(mentions) == 1 and not _EACH.search(text) and not _of(text, start)
        yield Fact(("group",), Group(model.name, count, size, per_node=not total), line, SOURCE)
    loose = _LOOSE.search(text)
    if loose and re.search(r"\b(?:between|of|from|for|per|any|these|any)\s*$", text[: loose.start()], re.I):
        loose = None  # `hops between two GPUs` counts nothing
    if not mentions and not spans and loose:
        yield Fact(("gpu_count",), value_of(loose[1]), line, SOURCE)


def _named(line: Line) -> Iterator[Fact]:
    """Interfaces that a person names in words."""
    if "IFNAME" in line.text or "NCCL INFO" in line.text:
        return
    for name in re.findall(r"\b(en[opsx]\w*\d\w*|eth\d+|bond\d+|ib\d+|hsn\d+)\b", line.text):
        yield Fact(("interface", name, "up"), True, line, SOURCE)


def _of(text: str, start: int) -> bool:
    """`4 nodes of 8 x A100`, `2 machines with 4 GPUs`: the number is what each node has."""
    return re.search(r"(?:nodes?|machines?|servers?|hosts?|boxes|workstations?|VMs?|desktops?|PCs)\W*(?:of|with|x|,?\s*having|\()?\W*[\w\s]{0,12}$",
                     text[:start], re.I) is not None


def _node_count(text: str) -> int | None:
    if re.search(r"\b(?:one|first|a) (?:box|machine|node|server|workstation|PC|host)\b.*\b(?:another|second|other)\b", text, re.I):
        return 2
    for match in _NODES.finditer(text):
        if re.search(r"NUMA\s*$", text[: match.end()][:-1], re.I) or re.search(r"NUMA", match[0], re.I):
            continue
        if match[1].lower() in ("a", "an", "one", "single", "1"):
            return 1
        return value_of(match[1])
    return None


def _count(before: str, after: str) -> int | None:
    if found := _BEFORE.search(before):
        return value_of(found[1])
    if found := _AFTER.search(after):
        return int(found[1] or found[2])
    return None


def _network(line: Line) -> Iterator[Fact]:
    text = line.text
    speeds = [int(float(speed) * 1000) for speed in _GBIT.findall(text)] + [int(speed) for speed in _MBIT.findall(text)]
    if re.search(r"(?<![\d-])\s(?:gigabit|GigE)\b|^gigabit", text, re.I) and not speeds:
        speeds = [1000]
    about = re.search(r"ethernet|network|link|nic\b|nics\b|infiniband|roce|switch|between|interconnect|gbit|gbps|gbe|lan\b|efa|mbit", text, re.I)
    if speeds and about and not re.search(r"pcie|nvlink\s*\d|disk|nvme|ssd", text, re.I):
        yield Fact(("network", "peer_speed_mbit"), max(speeds), line, SOURCE)
    if "NCCL INFO" in text or re.search(r"no device found", text, re.I):
        return
    if re.search(r"\bRoCE\b(?:v2)?", text) and not re.search(r"\bno RoCE", text):
        yield Fact(("network", "fabric"), "roce", line, SOURCE)
    elif re.search(r"\bInfiniBand\b|\bIB\b(?!M)", text) and not re.search(r"\b(?:no|without|not) (?:InfiniBand|IB)\b", text, re.I):
        yield Fact(("network", "fabric"), "infiniband", line, SOURCE)
    elif re.search(r"\bslingshot\b|\bhsn\d", text, re.I):
        yield Fact(("network", "fabric"), "slingshot", line, SOURCE)
    elif re.search(r"\bEFA\b", text) and not re.search(r"\b(?:no|without) EFA", text, re.I):
        yield Fact(("network", "fabric"), "efa", line, SOURCE)
    elif re.search(r"\bwi-?fi\b|\bwlan\b|\bwireless\b", text, re.I):
        yield Fact(("network", "fabric"), "wireless", line, SOURCE)
    for name in re.findall(r"\b(hdr100|ndr200|qdr|fdr|edr|hdr|ndr|xdr)\b", text, re.I):
        yield Fact(("network", "peer_speed_mbit"), _INFINIBAND[name.lower()] * 1000, line, SOURCE)
        yield Fact(("network", "fabric"), "infiniband", line, SOURCE)


def _words(line: Line) -> Iterator[Fact]:
    text = line.text
    if re.search(r"\b(?:no|without|w/o|lacks?)\s+(?:an?\s+)?NV-?link", text, re.I) and "time" not in text.lower() and "|" not in text:
        yield Fact(("nvlink",), False, line, SOURCE)
    elif re.search(r"\bNV-?Link(?:ed)?\b|\bNVSwitch\b", text, re.I) and "|" not in text and "NCCL INFO" not in text:
        yield Fact(("nvlink",), True, line, SOURCE)
    if re.search(r"\b(?:no|without)\s+(?:PCIe\s+)?P2P\b|\bP2P\b[^.,;]{0,20}\b(?:disabled|unavailable|not supported|unsupported|off|false)\b", text, re.I):
        yield Fact(("p2p",), False, line, SOURCE)
    if widths := re.search(r"\bx(16|8|4|2|1)\s*[/+&]\s*x(16|8|4|2|1)(?:\s*[/+&]\s*x(16|8|4|2|1))?(?:\s*[/+&]\s*x(16|8|4|2|1))?\b", text):
        for index, width in enumerate(width for width in widths.groups() if width):
            yield Fact(("gpu_width", index), int(width), line, SOURCE)
    elif re.search(r"\b(?:PCIe|gen\s?\d|slots?|risers?|lanes?|link)\b[^.;]{0,24}?\b(?:x[124]\b|[124]x\b(?!\s*[\dA-Z])|[124] lanes?\b)|\bonly (?:at |PCIe )?(?:x[124]|[124]x)\b|\bx[124]\b[^.;]{0,16}(?:slots?|lanes?|risers?|gen)|\bmining risers?\b", text, re.I):
        yield Fact(("sign", "narrow-pcie"), " ".join(text.split()), line, SOURCE)
    if re.search(r"(?:different|separate|each on (?:its|their) own|across(?: the)?(?: two)?|both|per)\s+(?:CPU\s+)?(?:sockets?|NUMA)|one (?:GPU )?(?:per|on each) (?:socket|CPU)|cross-(?:socket|NUMA)", text, re.I):
        yield Fact(("sign", "cross-numa"), " ".join(text.split()), line, SOURCE)
    if mig := re.search(r"(?<!no )\bMIG\b(?!\s*M\.)(?!.*\b(?:off|disabled)\b)", text):
        profile = re.search(r"\b(\d)g\.(\d+)gb\b", text[mig.start() - 40 if mig.start() > 40 else 0 :])
        if profile or re.search(r"slices?\b|enabled|instances?\b|mode is on", text, re.I):
            yield Fact(("mig",), int(profile[2]) * 2**30 if profile else None, line, SOURCE)


def _processor(line: Line) -> Iterator[Fact]:
    text = spaced(line.text)
    if found := _CPU.search(text):
        yield Fact(("cpu", "model"), found[1].strip(" -"), line, SOURCE)
        many = re.search(rf"{_NUMBER}(?:[\s-]*(?:socket|x))*\s*(?:AMD|Intel(?:\(R\))?)?\s*$", text[: found.start()], re.I)
        if many and (many[1].isdigit() is False or re.search(r"x|socket", many[0])) and value_of(many[1]) in (2, 4, 8):
            yield Fact(("cpu", "sockets"), value_of(many[1]), line, SOURCE)
    if sockets := re.search(rf"{_NUMBER}[\s-]*(?:CPU\s+)?sockets?\b", text, re.I):
        yield Fact(("cpu", "sockets"), value_of(sockets[1]), line, SOURCE)
    if numa := re.search(rf"{_NUMBER}\s*NUMA (?:nodes?|domains?)", text, re.I):
        yield Fact(("cpu", "numa_count"), value_of(numa[1]), line, SOURCE)
    if cores := re.search(r"(?<![\w.])(\d{1,3})[\s-]*(?:physical\s+)?cores?\b(?!\s*GPU)(?![\s-]*per)", text, re.I):
        sockets = 2 if re.search(r"\beach\b|\bper socket\b", text) and re.search(r"\b(?:dual|two|2)\b", text) else 1
        yield Fact(("cpu", "physical_cores"), int(cores[1]) * sockets, line, SOURCE)
    if pair := re.search(r"\b(\d{1,3})\s*C\s*/\s*(\d{1,3})\s*T\b", text, re.I):
        yield Fact(("cpu", "physical_cores"), int(pair[1]), line, SOURCE)
        yield Fact(("cpu", "logical_cores"), int(pair[2]), line, SOURCE)
    if virtual := re.search(r"(?<![\w.])(\d{1,3})\s*(?:x\s*)?v-?CPUs?\b", text, re.I):
        yield Fact(("cpu", "logical_cores"), int(virtual[1]), line, SOURCE)
    if threads := re.search(r"\((\d{1,3}) threads\)", text):
        yield Fact(("cpu", "logical_cores"), int(threads[1]), line, SOURCE)
    flags = {flag for flag, pattern in (("amx_bf16", r"\bAMX\b"), ("avx512_bf16", r"avx512[_-]?bf16")) if re.search(pattern, text, re.I)}
    if flags and not re.search(r"\bno (?:AMX|avx512)|without (?:AMX|avx512)", text, re.I):
        yield Fact(("cpu", "flags"), sorted(flags), line, SOURCE)
