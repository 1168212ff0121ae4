"""FLOPs of a training step and what devices can do at most. Unknown is None, never a guess."""

from __future__ import annotations


def train_flops_per_token(parameters: int, layers: int | None, hidden_size: int | None, sequence_length: int,
                          gradient_checkpointing: bool = False) -> float | None:
    """FLOPs one token costs in forward and backward: 6 N + 12 L H S.

    `parameters` N counts the matrices that multiply (no embedding look-up). Source: Chowdhery et al. 2022 (PaLM),
    appendix B, which also leaves recomputation out of the count, as MFU does; hence `gradient_checkpointing` only
    turns the figure into hardware FLOPs (a second forward: x 4/3).
    """
    if layers is None or hidden_size is None or parameters <= 0:
        return None
    flops = 6.0 * parameters + 12.0 * layers * hidden_size * sequence_length
    return flops * 4 / 3 if gradient_checkpointing else flops


#: Dense (no sparsity) peak FLOP/s by a part of the device's name, from the makers' data sheets. First match wins.
_PEAK_TFLOPS: list[tuple[str, dict[str, float]]] = [
    ("B200", {"bf16": 2250, "fp16": 2250}),
    ("H200", {"bf16": 989, "fp16": 989, "fp32": 67}),
    ("H100 PCIe", {"bf16": 756, "fp16": 756, "fp32": 51}),
    ("H100 NVL", {"bf16": 835, "fp16": 835, "fp32": 60}),
    ("H100", {"bf16": 989, "fp16": 989, "fp32": 67}),
    ("A100", {"bf16": 312, "fp16": 312, "fp32": 19.5}),
    ("A10G", {"bf16": 70, "fp16": 70, "fp32": 35}),
    ("A10", {"bf16": 125, "fp16": 125, "fp32": 31.2}),
    ("L40S", {"bf16": 362, "fp16": 362, "fp32": 91.6}),
    ("L4", {"bf16": 121, "fp16": 121, "fp32": 30.3}),
    ("V100", {"fp16": 125, "fp32": 15.7}),
    ("T4", {"fp16": 65, "fp32": 8.1}),
    ("RTX 5090", {"bf16": 209.5, "fp16": 209.5, "fp32": 104.8}),
    ("RTX 4090", {"bf16": 165, "fp16": 165, "fp32": 82.6}),
    ("RTX 3090 Ti", {"bf16": 80, "fp16": 80, "fp32": 40}),
    ("RTX 3090", {"bf16": 71, "fp16": 71, "fp32": 35.6}),
    ("MI300X", {"bf16": 1307, "fp16": 1307, "fp32": 163.4}),
    ("MI250X", {"bf16": 191.5, "fp16": 191.5, "fp32": 47.9}),
]


def peak_flops_per_s(device_name: str | None, precision: str) -> float | None:
    """Peak dense FLOP/s of one device at `precision` (fp32 | fp16 | bf16), or None when it is not in the table.

    For an MI250X it is the figure of one of its two dies, which is what a rank sees.
    """
    words = (device_name or "").replace("-", " ").split()
    for name, peaks in _PEAK_TFLOPS:
        parts = name.split()
        if any(words[i:i + len(parts)] == parts for i in range(len(words))):
            peak = peaks.get(precision)
            return peak * 1e12 if peak is not None else None
    return None
