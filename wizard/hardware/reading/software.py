"""Software: torch's collect_env, accelerate env, pip lists, and variables that were set."""

from __future__ import annotations

import re
from collections.abc import Iterator

from wizard.hardware.reading.lines import Fact, Paste
from wizard.hardware.software import steering_variables

_PACKAGES = (
    "torch|accelerate|transformers|datasets|peft|bitsandbytes|deepspeed|flash[-_]attn|nvidia-nccl-cu1[123]|"
    "torch[-_]npu|intel[-_]extension[-_]for[-_]pytorch|habana[-_]torch[-_]plugin"
)


def read_software(paste: Paste) -> Iterator[Fact]:
    for line, match in paste.find(r"^\W*(?:PyTorch version(?: \(GPU\?\))?|torch(?:\.__version__)?)\s*[:=]{1,2}\s*v?(\d+\.\d+(?:\.\d+)?\S*)"):
        yield from _torch(match[1].rstrip(",;"), line, "collect_env")
    for line, match in paste.find(r"(?:py)?torch\s*(?:==|version|v)?\s*(\d\.\d+(?:\.\d+)?(?:\+\w+)?)(?:\s*[\s(,+]*\s*(?:cuda|cu)\s*-?(\d+\.?\d*))?"):
        yield from _torch(match[1], line, "text")
        if match[2]:
            yield Fact(("torch", "cuda"), _dotted(match[2]), line, "text")
    for line, match in paste.find(r"(?:wheel|build|built)\b[^\n]{0,20}?\bcu(\d{3})\b|\bcu(1[123]\d)\b(?:\s+(?:wheel|build))?"):
        yield Fact(("torch", "cuda"), _dotted(match[1] or match[2]), line, "text")
    for line, match in paste.find(r"CUDA used to build PyTorch:\s*(\S+)"):
        yield Fact(("torch", "cuda"), match[1] if match[1][0].isdigit() else None, line, "collect_env")
        yield Fact(("torch", "built"), True, line, "collect_env")
    for line, match in paste.find(r"ROCM used to build PyTorch:\s*(\S+)"):
        yield Fact(("torch", "hip"), match[1] if match[1][0].isdigit() else None, line, "collect_env")
    for line, match in paste.find(r"Nvidia driver version:\s*([\d.]+)|\bdriver(?:\s+version)?\s*[:=]?\s*v?(\d{3}\.\d+(?:\.\d+)?)\b|NVRM version:.*?\s(\d{3}\.\d+(?:\.\d+)?)\s"):
        yield Fact(("driver", "nvidia"), next(filter(None, match.groups())), line, "collect_env")
    for line, match in paste.find(r"CUDA Driver Version:\s*(\d{3}\.\d+(?:\.\d+)?)"):
        yield Fact(("driver", "nvidia"), match[1], line, "check_env")
    for line, match in paste.find(r"\bdriver\s+(\d{3})(?:\.x|xx)?\b(?!\.)"):
        yield Fact(("driver", "nvidia"), match[1], line, "text")
    for line, match in paste.find(rf"(?:\[(?:pip3?|conda)\]\s*)?\b({_PACKAGES})\s*(?:==|\s+)\s*v?(\d+(?:\.\d+)+\S*)"):
        yield Fact(("package", match[1].lower().replace("_", "-")), match[2].rstrip(",;)"), line, "pip")
    for line, match in paste.find(r"^\W*`?(Accelerate|Transformers|Datasets|Peft)`?\s*version\s*:\s*(\d\S*)"):
        yield Fact(("package", match[1].lower()), match[2], line, "accelerate env")
    for line, match in paste.find(r"\bNCCL\s*(?:version|v)?\s*[:=]?\s*v?(2\.\d+(?:\.\d+)?)"):
        yield Fact(("package", "nccl"), match[1], line, "text")
    for line, match in paste.find(r"^\W*Python version:\s*(\d+\.\d+(?:\.\d+)?)"):
        yield Fact(("python",), match[1], line, "collect_env")
    for line, match in paste.find(r"^\s*(?:[-*]\s*)?(?:export\s+|set\s+|ENV\s+|-e\s+|env:\s*)?([A-Z][A-Z0-9_]{3,})\s*=\s*(\"[^\"]*\"|'[^']*'|\S*)\s*;?\s*\\?$", 0):
        for name, value in steering_variables({match[1]: match[2].strip("\"'")}).items():
            yield Fact(("env", name), value, line, "environment")


def _torch(version: str, line, source: str) -> Iterator[Fact]:
    yield Fact(("torch", "version"), version, line, source)
    if build := re.search(r"\+(cu|rocm|cpu|xpu)(\d+(?:\.\d+)*)?", version):
        yield Fact(("torch", "built"), True, line, source)
        if build[1] == "cu" and build[2]:
            yield Fact(("torch", "cuda"), _dotted(build[2]), line, source)
        elif build[1] == "rocm":
            yield Fact(("torch", "hip"), build[2] or "unknown", line, source)
        elif build[1] == "xpu":
            yield Fact(("torch", "xpu"), "yes", line, source)


def _dotted(text: str) -> str:
    """`121` as 12.1."""
    return text if "." in text else f"{text[:2]}.{text[2:] or '0'}"
