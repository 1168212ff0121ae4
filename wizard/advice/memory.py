"""How much memory a rank needs: weights, gradients, optimizer, activations, logits, and what the libraries take.

The terms follow what the engine really keeps: trained weights in fp32 with fp32 gradients, which are views of the
buckets that travel; under autocast a 16-bit copy of each trained matrix from forward to backward; a frozen base
in the training precision; logits up-cast to fp32 for the loss. Activations after Korthikanti et al. 2022
(arXiv:2205.05198, section 4), without the attention scores, which SDPA never writes out, and with a gated MLP where
the model has one. Models of 2 and 135 million parameters on a CPU (fp32, bf16, with and without recomputation) took
0.91 to 1.03 of the sum; other kernels and allocators differ more, so a range of 20 % either way is shown.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.contract.findings import Decision
from wizard.advice.devices import Devices
from wizard.advice.reasons import gib, two_figures
from wizard.facts.model import ModelFacts
from wizard.facts.parameters import adapter_parameters
from wizard.hardware.inventory import HardwareInventory
from wizard.questions.needs import TrainingNeeds

LOW, HIGH = 0.8, 1.2
MARGIN = 1.1
_BYTES = {"fp32": 4.0, "fp16": 2.0, "bf16": 2.0}
#: Bytes a parameter of the frozen base takes: 4 bits plus double-quantized block scales; 8 bits plus scales.
_QUANTIZED = {"int4": 0.52, "int8": 1.03}
#: Device context, communication buffers and kernels' workspaces; on a CPU python with torch and its threads.
_OVERHEAD = {"cpu": 0.45e9, "apple": 0.8e9}
_OVERHEAD_GPU = 1.3e9
#: Share of a device that may be planned with: allocators fragment, and others need a little as well.
SHARE_GPU, SHARE_CPU, SHARE_UNIFIED = 0.94, 0.85, 0.70


@dataclass(frozen=True)
class Setting:
    """One way to run: what memory depends on beside the model."""

    strategy: str
    gradient_checkpointing: bool
    micro_batch: int
    max_length: int
    precision: str
    world: int


@dataclass(frozen=True)
class Estimate:
    """Bytes on each device. `terms` sum to `total`."""

    terms: dict[str, float]

    @property
    def total(self) -> float:
        return sum(self.terms.values())


def holds(need: Estimate | None, budget: float | None) -> bool | None:
    """Whether a budget is enough, with a tenth to spare for what tables do not know; None where either is unknown."""
    return None if need is None or budget is None else need.total * MARGIN <= budget


def budget_bytes(devices: Devices, inventory: HardwareInventory, processes: int) -> float | None:
    """What each rank may use, or None where the machine's memory is not known."""
    if devices.kind == "cpu":
        usable = inventory.memory.usable_bytes
        return usable * SHARE_CPU / processes if usable else None
    if devices.kind == "apple":
        total = inventory.memory.usable_bytes or devices.memory_bytes
        return total * SHARE_UNIFIED if total else None
    total, free = devices.memory_bytes, devices.free_bytes
    return min(total * SHARE_GPU, free * 0.98) if total else None


def estimate(model: ModelFacts, needs: TrainingNeeds, setting: Setting, kind: str) -> Estimate | None:
    """Memory of one rank; None when the model's size or shape is not known."""
    shape, parameters = model.shape, model.parameters
    if shape is None or parameters is None:
        return None
    width = _BYTES[setting.precision]
    shards = setting.world if setting.strategy in ("fsdp", "deepspeed") else 1
    optimizer = 4.0 if needs.optimizer == "sgd" else 8.0
    if needs.adapter:
        trained = adapter_parameters(shape, needs.adapter_r or 16)
        look_up = model.embedding_parameters or 0
        if needs.quantization:  # only the matrices of the blocks are quantized
            base = (parameters - look_up) * _QUANTIZED[needs.quantization] + look_up * 4.0
        else:
            base = parameters * width
        weights = base + trained * 4.0
    else:
        trained, weights = parameters, parameters * 4.0
        if width < 4 and shards == 1:
            weights += parameters * width
    per_token = _layer_elements(shape) * width
    tokens = setting.micro_batch * setting.max_length
    if setting.gradient_checkpointing:
        activations = tokens * (shape.layers * shape.hidden * width + per_token)
    else:
        activations = tokens * shape.layers * per_token
    # a classifier has one value for each class, which is nothing
    logits = 0.0 if needs.task == "text-classification" else tokens * shape.vocab * (12.0 if width == 4 else 16.0)
    terms = {
        "weights": weights / shards,
        "gradients": trained * 4.0 / shards,
        "optimizer": trained * optimizer / shards,
        "activations": activations,
        "logits": logits,
        "overhead": _OVERHEAD.get(kind, _OVERHEAD_GPU),
    }
    if shards > 1:  # the 16-bit copy exists only of what is gathered: one block whole, and the next on its way
        terms["gathered"] = 2 * (parameters / shape.layers) * (width + 4.0)
    return Estimate(terms)


def _layer_elements(shape) -> float:
    """Values one token leaves behind in one block for the backward pass.

    Two norms with their inputs and fp32 insides (about 8 h), queries, keys, values and the attention's result, and
    the inner values of the MLP: gate, up, activated gate and product, or three where there is no gate.
    """
    inner = (4 if shape.gated else 3) * shape.intermediate
    return 8 * shape.hidden + 2 * shape.q_width + 2 * shape.kv_width + inner


def decide_memory(
    model: ModelFacts | None,
    needs: TrainingNeeds,
    setting: Setting,
    devices: Devices,
    budget: float | None,
    device_bytes: float | None,
) -> Decision:
    """What the chosen setting needs on each device, as a range, term by term."""
    need = estimate(model, needs, setting, devices.kind) if model else None
    if need is None:
        return Decision(value=None, confidence="low", reason=_why_unknown(model), facts=["from: tables"])
    low, high = need.total * LOW, need.total * HIGH
    fits = None if budget is None else need.total <= budget
    where = {"cpu": "process", "apple": "GPU"}.get(devices.kind, "GPU")
    of = f" of {gib(device_bytes)}" if device_bytes else ""
    reason = f"about {gib(need.total)}{of} GiB for each {where} ({gib(low)} to {gib(high)})"
    largest = sorted(((size, name) for name, size in need.terms.items() if name != "overhead"), reverse=True)[:2]
    reason += ", mostly " + " and ".join(f"{name} ({gib(size)})" for size, name in largest)
    if fits is False:
        reason = f"too much: {reason}"
    elif holds(need, budget) is False:
        reason = f"tight: {reason}"
    value = {
        "per_device_bytes": two_figures(need.total),
        "range_bytes": [two_figures(low), two_figures(high)],
        "budget_bytes": round(budget) if budget else None,
        "fits": fits,
        "terms_bytes": {name: two_figures(size) for name, size in need.terms.items()},
    }
    counted = f"{model.parameters:,} parameters (from {model.parameters_from})"
    return Decision(
        value=value,
        reason=reason,
        confidence="low" if budget is None else "fair",
        facts=[
            "from: tables",
            counted,
            f"{setting.micro_batch} x {setting.max_length} tokens, {setting.precision}, {setting.strategy}"
            + (", gradient checkpointing" if setting.gradient_checkpointing else ""),
        ],
    )


def _why_unknown(model: ModelFacts | None) -> str:
    if model is None:
        return "not known before a model is chosen"
    return "not known: " + (next(iter(model.unknown.values()), "the configuration does not name its sizes"))
