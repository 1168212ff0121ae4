"""The host: lscpu, numactl, free, df, ulimit, uname, containers."""

from __future__ import annotations

import re
from collections.abc import Iterator

from wizard.hardware.reading.lines import Fact, Line, Paste, size_bytes

#: `lscpu` keys and the fields they are.
_LSCPU = {"Model name": "model", "Socket(s)": "sockets", "CPU(s)": "logical_cores"}
#: Xeon generations with AMX (fourth on) or AVX512-BF16 (third generation Cooper Lake; EPYC from Zen 4, 9004/8004/4004).
_AMX_XEON = re.compile(
    r"xeon[^\n]*?(?:sapphire|emerald|granite)|(?:sapphire|emerald|granite)\s+rapids|xeon\s*6\b|"
    r"\b(?:4|5|6)th[\s-]gen(?:eration)?\.?\s+(?:intel\s+)?(?:\(r\)\s*)?xeon|xeon[^\n]{0,30}?\b(?:4|5)th[\s-]gen|"
    r"(?:platinum|gold|silver|bronze|max|w\d)\s*-?\s*(?:[3-9]4[0-9]{2}|[3-9]5[0-9]{2})[a-z+]*\b|\b6[79]\d\d[pe]\b",
    re.I,
)
_BF16_EPYC = re.compile(r"epyc\s*(?:[489]\d\d[45][a-z]?|genoa|bergamo|siena|turin)|ryzen\s*(?:threadripper\s*)?(?:pro\s*)?[79]\s?9\d{3}|"
                        r"ryzen\s*\d\s*[79]\d{3}|threadripper\s*(?:pro\s*)?[79]\d{3}w?x|cooper lake", re.I)


def read_host(paste: Paste) -> Iterator[Fact]:
    yield from _lscpu(paste)
    yield from _memory(paste)
    yield from _shm(paste)
    yield from _limits(paste)
    yield from _system(paste)


def _lscpu(paste: Paste) -> Iterator[Fact]:
    cores_a_socket: tuple[Line, int] | None = None
    sockets = 1
    for line in paste.lines:
        pair = re.match(r"^\s*([A-Z][\w()/ -]*?):\s{1,}(\S.*)$", line.text)
        if not pair:
            continue
        key, value = pair[1].strip(), pair[2].strip()
        if key in _LSCPU:
            if key == "Model name":
                yield Fact(("cpu", "model"), value, line, "lscpu")
            elif value.isdigit():
                yield Fact(("cpu", _LSCPU[key]), int(value), line, "lscpu")
                sockets = int(value) if key == "Socket(s)" else sockets
        elif key == "Core(s) per socket" and value.isdigit():
            cores_a_socket = (line, int(value))
        elif key == "Flags":
            have = set(value.split())
            flags = [flag for flag in ("amx_bf16", "avx512_bf16", "avx512f", "avx2") if flag in have]
            yield Fact(("cpu", "flags"), flags, line, "lscpu")
        elif key == "Hypervisor vendor":
            yield Fact(("platform", "virtual"), True, line, "lscpu")
        elif key == "NUMA node(s)" and value.isdigit():
            yield Fact(("cpu", "numa_count"), int(value), line, "lscpu")
        elif node := re.fullmatch(r"NUMA node(\d+) CPU\(s\)", key):
            yield Fact(("cpu", f"numa.{node[1]}"), value, line, "lscpu")
        elif key == "Architecture":
            yield Fact(("platform", "architecture"), value, line, "lscpu")
            yield Fact(("platform", "system"), "linux", line, "lscpu")
    if cores_a_socket:
        yield Fact(("cpu", "physical_cores"), cores_a_socket[1] * sockets, cores_a_socket[0], "lscpu")
    for line, match in paste.find(r"^available:\s*(\d+) nodes"):
        yield Fact(("cpu", "numa_count"), int(match[1]), line, "numactl")
    for line, match in paste.find(r"^node (\d+) cpus:\s*(\d[\d ]*)"):
        yield Fact(("cpu", f"numa.{match[1]}"), ",".join(match[2].split()), line, "numactl")
    for line, _ in paste.find(_AMX_XEON.pattern):
        yield Fact(("cpu", "flags"), ["amx_bf16", "avx512_bf16", "avx512f", "avx2"], line, "processor's model")
    for line, _ in paste.find(_BF16_EPYC.pattern):
        yield Fact(("cpu", "flags"), ["avx512_bf16", "avx512f", "avx2"], line, "processor's model")


def _memory(paste: Paste) -> Iterator[Fact]:
    for line, match in paste.find(r"^MemTotal:\s*(\d+) kB"):
        yield Fact(("memory", "total_bytes"), int(match[1]) * 1024, line, "/proc/meminfo")
    for line, match in paste.find(r"^MemAvailable:\s*(\d+) kB"):
        yield Fact(("memory", "available_bytes"), int(match[1]) * 1024, line, "/proc/meminfo")
    for line, match in paste.find(r"^Mem:\s+(\d[\d.]*)\s*([KMGT]i?)\s+(\S+)\s+(\S+)"):
        yield Fact(("memory", "total_bytes"), size_bytes(match[1], match[2]), line, "free")
        last = re.match(r"(\d[\d.]*)\s*([KMGT]i?)$", line.text.split()[-1])
        if last and len(line.text.split()) >= 7:
            yield Fact(("memory", "available_bytes"), size_bytes(last[1], last[2]), line, "free")
    for line, match in paste.find(r"\b(?:RAM|System RAM|memory|RAM total)\b\s*[:=]?\s*(\d[\d.]*)\s*(GB|GiB|Gi|TB|TiB)\b"):
        if not re.search(r"gpu|vram|cuda|video", line.text, re.I):
            yield Fact(("memory", "total_bytes"), size_bytes(match[1], match[2]), line, "text")
    for line, match in paste.find(r"\b(\d[\d.]*)\s*(GB|GiB|Gi|TB|TiB)\s+(?:of\s+)?(?:(?:system|host|main|DDR[45]|ECC|unified)\s+)*(?:RAM|memory|DDR[45])\b"):
        if not re.search(rf"(?:gpu|vram)\s*{re.escape(match[0])}", line.text, re.I):
            yield Fact(("memory", "total_bytes"), size_bytes(match[1], match[2]), line, "text")


def _shm(paste: Paste) -> Iterator[Fact]:
    """`df -h /dev/shm`, mount options, and the flag a container was started with."""
    for line, match in paste.find(r"^\s*\S+\s+(\d[\d.]*)([KMGT]?i?B?)\s+(\d[\d.]*)([KMGT]?i?B?)\s+(\d[\d.]*)([KMGT]?i?B?)\s+\d+%\s+/dev/shm"):
        unit, free_unit = match[2] or "K", match[6] or "K"  # df without -h counts blocks of 1 KiB
        yield Fact(("memory", "shm_total_bytes"), size_bytes(match[1], unit), line, "df")
        yield Fact(("memory", "shm_free_bytes"), size_bytes(match[5], free_unit), line, "df")
    for line, match in paste.find(r"/dev/shm\b.*?\bsize=(\d+)([kmg]?)"):
        yield Fact(("memory", "shm_total_bytes"), size_bytes(match[1], match[2]), line, "mount")
    for line, match in paste.find(r"(?:--shm-size[= ]|shm_size\s*[:=]\s*[\"']?)(\d+)\s*([kmg]?)"):
        yield Fact(("memory", "shm_total_bytes"), size_bytes(match[1], match[2]), line, "docker")
    for line, match in paste.find(r"\bShmSize\"?\s*[:=]\s*(\d+)\b"):
        yield Fact(("memory", "shm_total_bytes"), int(match[1]), line, "docker inspect")
    for line, match in paste.find(r"/dev/shm\b\D{0,25}?(\d[\d.]*)\s*(MB|MiB|M|GB|GiB|G)\b|(\d[\d.]*)\s*(MB|MiB|GB|GiB)\s+(?:of\s+)?(?:/dev/)?shm\b"):
        yield Fact(("memory", "shm_total_bytes"), size_bytes(match[1] or match[3], match[2] or match[4]), line, "text")


def _limits(paste: Paste) -> Iterator[Fact]:
    for line, match in paste.find(r"max locked memory\s*(?:\(kbytes, -l\))?\s+(unlimited|\d+)(?:\s+(unlimited|\d+)\s+bytes)?"):
        scale = 1 if match[2] else 1024
        yield Fact(("platform", "memlock_bytes"), -1 if match[1] == "unlimited" else int(match[1]) * scale, line, "ulimit")
    for line, match in paste.find(r"ulimit -l\b\s*[:=]?\s*(unlimited|\d+)?"):
        after = match[1] or _next_word(paste, line)
        if after and (after == "unlimited" or after.isdigit()):
            yield Fact(("platform", "memlock_bytes"), -1 if after == "unlimited" else int(after) * 1024, line, "ulimit")
    for line, match in paste.find(r"(?:open files\s*(?:\(-n\))?|ulimit -n\s*[:=]?)\s+(\d+)"):
        yield Fact(("platform", "open_files"), int(match[1]), line, "ulimit")


def _next_word(paste: Paste, line: Line) -> str | None:
    at = paste.lines.index(line)
    return paste.lines[at + 1].text.strip() if at + 1 < len(paste.lines) else None


def _system(paste: Paste) -> Iterator[Fact]:
    for line, match in paste.find(r"microsoft-standard-WSL2|\bWSL\s?-?(2|1)?\b"):
        yield Fact(("platform", "system"), "linux", line, "text")
        yield Fact(("platform", "wsl"), 1 if match[1] == "1" else 2, line, "text")
    for line, _ in paste.find(r"\b(?:on\s+|OS\s*:\s*|native\s+)?(?:Microsoft\s+)?Windows(?:\s+(?:1[01]|Server(?:\s+\d{4})?|NT|x64))?\b"):
        if not re.search(r"WSL|subsystem", paste.text, re.I) and not re.search(r"window(?:s)? (?:size|of|manager)", line.text, re.I):
            yield Fact(("platform", "system"), "windows", line, "text")
    for line, _ in paste.find(r"\b(?:Ubuntu|Debian|CentOS|Rocky Linux|RHEL|Red Hat|Fedora|Arch Linux|SLES|AlmaLinux|Linux version|Linux-\d)\b"):
        yield Fact(("platform", "system"), "linux", line, "text")
    for line, match in paste.find(r"\b(?:inside|in)\s+(?:a\s+)?(docker|podman|kubernetes|k8s|singularity|apptainer|lxc)\b|\bdocker run\b|/\.dockerenv|\bkubepods\b|\b(k8s|kubernetes) pod\b|\b(container)\b"):
        name = next((group for group in match.groups() if group), "docker")
        yield Fact(("platform", "container"), {"k8s": "kubernetes"}.get(name.lower(), name.lower()), line, "text")
    for line, _ in paste.find(r"\bKVM\b|\bQEMU\b|\bVMware\b|\bHyper-V\b|440FX|Hypervisor detected|\bproxmox\b|virtual machine"):
        yield Fact(("platform", "virtual"), True, line, "text")
