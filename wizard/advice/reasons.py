"""Small words shared by the decisions: what was asked, how sizes and names are written."""

from __future__ import annotations

from typing import Any

from engine.contract.findings import Alternative, Decision, Evidence, Finding
from wizard.hardware.inventory import Accelerator

AUTO = "auto"
GIB = 2**30


def asked(value: Any) -> bool:
    """Whether the person fixed a value, rather than leaving it open."""
    return value is not None and value != AUTO


def kept(value: Any, why: str, facts: list[str] | None = None, alternative: Alternative | None = None) -> Decision:
    """A value that was set, by the person, a preset or a starter; it stands, whatever the advice would have been."""
    return Decision(
        value=value, reason=f"as set; {why}", confidence="high", facts=facts or [], alternative=alternative
    )


def other(value: Any, when: str) -> Alternative:
    return Alternative(value=value, when=when)


def finding(
    category: str,
    confidence: str,
    summary: str,
    source: str,
    text: str,
    fix: list[str] | None = None,
    patch: dict[str, Any] | None = None,
) -> Finding:
    """A finding whose one piece of evidence is `text`, read from `source`."""
    return Finding(
        category=category,
        confidence=confidence,
        summary=summary,
        fix=fix or [],
        preset_patch=patch,
        evidence=[Evidence(source=source, text=text)],
    )


def gib(size: float) -> str:
    """Bytes in GiB with two significant figures: 0.46, 6.1, 31, 140."""
    return f"{two_figures(size / GIB):g}"


def two_figures(value: float) -> float:
    """Rounded to two significant figures: what a prediction from tables may claim."""
    return float(f"{value:.2g}")


def short_name(device: Accelerator) -> str:
    """`NVIDIA GeForce RTX 3090` as `RTX 3090`; without a name the maker's."""
    if not device.name:
        return {
            "nvidia": "NVIDIA GPU",
            "amd": "AMD GPU",
            "apple": "Apple GPU",
            "intel": "Intel GPU",
            "ascend": "Ascend NPU",
            "habana": "Gaudi",
            "tpu": "TPU",
            "trainium": "Trainium",
        }[device.vendor]
    name = device.name
    for word in ("NVIDIA ", "GeForce ", "Tesla ", "AMD ", "Instinct ", "Intel(R) "):
        name = name.replace(word, "")
    return name


def count_of(number: int, thing: str) -> str:
    """`1 GPU`, `4 GPUs`, `2 processes`."""
    if number == 1:
        return f"1 {thing}"
    return f"{number} {thing}es" if thing.endswith("s") else f"{number} {thing}s"
