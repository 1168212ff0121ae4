"""How much memory a rank needs: weights, gradients, optimizer, activations, logits, and what the libraries take.

The terms follow what the engine really keeps: trained weights in fp32 with fp32 gradients, which are views of the
buckets that travel; under autocast a 16-bit copy of each trained matrix from forward to backward; a frozen base
in the training precision; activations as counted in `activations`. `tests/engine/test_memory.py` holds the sum against
real trainings on a CPU. Kernels and allocators differ, so a range of 20 % either way is shown until a step of this
machine has been measured (`calibration`).
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.contract.findings import Decision
from wizard.advice.activations import LOGITS_BYTES, between_blocks_bytes, layer_bytes
from wizard.advice.calibration import MemoryCalibration
from wizard.advice.devices import Devices
from wizard.advice.reasons import gib, two_figures
from wizard.facts.model import ModelFacts
from wizard.facts.parameters import Shape, adapter_parameters
from wizard.hardware.inventory import HardwareInventory
from wizard.questions.needs import TrainingNeeds

#: The range that is shown: from tables, and where a step of this machine was measured.
LOW, HIGH = 0.8, 1.2
LOW_MEASURED, HIGH_MEASURED = 0.9, 1.1
MARGIN = 1.1
_BYTES = {"fp32": 4.0, "fp16": 2.0, "bf16": 2.0}
#: Bytes a parameter of the frozen base takes: 4 bits plus double-quantized block scales; 8 bits plus scales.
_QUANTIZED = {"int4": 0.52, "int8": 1.03}
#: Device context, communication buffers and kernels' workspaces; on a CPU python with torch and its threads.
_OVERHEAD = {"cpu": 0.34e9, "apple": 0.8e9}
_OVERHEAD_GPU = 1.3e9
#: Memory that was freed and that the C library keeps: as a share of gradients and activations, with all weights trained
#: and with an adapter. Read off trainings of 2 to 135 million parameters with glibc 2.36.
_KEPT = (0.25, 0.5)
#: The same where activations are recomputed, in blocks' worth: some, and so much more with each layer, since a glibc
#: before 2.38 hardly reuses aligned memory, and so keeps half of what recomputing saves.
_BLOCKS_KEPT = ((1.2, 0.48), (1.1, 0.54))
#: With this variable set below the size of most tensors the C library keeps nothing, at the price of page faults:
#: `MALLOC_MMAP_THRESHOLD_=1048576` took half of the memory and a quarter (full) to a half (LoRA) more time where
#: activations were recomputed.
GIVE_BACK = "MALLOC_MMAP_THRESHOLD_"
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
    accumulation: int = 1


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


def estimate(
    model: ModelFacts, needs: TrainingNeeds, setting: Setting, kind: str, calibration: MemoryCalibration | None = None
) -> Estimate | None:
    """Memory of one rank at its highest; None when the model's size or shape is not known.

    The highest moment is either when the backward pass begins (all activations, and the scores over the vocabulary)
    or when it ends (all gradients, the embedding's twice, and one block computed again). `calibration` replaces what
    tables say of the process itself and of what the allocator keeps.
    """
    shape, parameters = model.shape, model.parameters
    if shape is None or parameters is None:
        return None
    width, cpu = _BYTES[setting.precision], kind == "cpu"
    shards = setting.world if setting.strategy in ("fsdp", "deepspeed") else 1
    weights, trained = _weights(model, shape, needs, width, shards)
    # over several passes fsdp adds gradients up whole, and reduces them to its share with the last
    gradients = trained * 4.0 / (shards if setting.accumulation == 1 else 1)
    rank = (needs.adapter_r or 16) if needs.adapter else None
    block = layer_bytes(shape, width, rank, mask=4.0 if cpu else 1.0)
    tokens = setting.micro_batch * setting.max_length
    between = between_blocks_bytes(shape, width, bool(needs.adapter))
    kept = shape.layers * (between if setting.gradient_checkpointing else block) + 3 * shape.hidden * 4.0
    # a classifier has one value for each class, which is nothing
    logits = 0.0 if needs.task == "text-classification" else tokens * shape.vocab * LOGITS_BYTES
    begins = tokens * kept + logits
    ends = (tokens * block if setting.gradient_checkpointing else 0.0) + (
        0.0 if needs.adapter else (model.embedding_parameters or 0) * 4.0 / shards
    )
    # buckets that travel, and a sum over several passes, hold the gradients all the time
    held = setting.world > 1 or setting.accumulation > 1
    beside = gradients + max(0.0, ends - begins) if held else max(0.0, gradients + ends - begins)
    terms = {
        "weights": weights,
        "gradients": beside,
        "optimizer": trained * (4.0 if needs.optimizer == "sgd" else 8.0) / shards,
        "activations": tokens * kept,
        "logits": logits,
        "overhead": _OVERHEAD.get(kind, _OVERHEAD_GPU),
    }
    if shards > 1:  # the 16-bit copy exists only of what is gathered: one block whole, and the next on its way
        terms["gathered"] = 2 * (parameters / shape.layers) * (width + 4.0)
    if cpu and GIVE_BACK not in needs.env:
        some, each = _BLOCKS_KEPT[rank is not None]
        recomputed = tokens * block * (some + each * shape.layers)
        stored = (begins + gradients) * _KEPT[rank is not None]
        terms["heap"] = recomputed if setting.gradient_checkpointing else stored
    return Estimate(calibration.applied(terms) if calibration is not None else terms)


def _weights(
    model: ModelFacts, shape: Shape, needs: TrainingNeeds, width: float, shards: int
) -> tuple[float, float]:
    """(bytes of all weights on each rank, number of trained parameters)."""
    parameters = float(model.parameters or 0)
    if needs.adapter:
        trained = float(adapter_parameters(shape, needs.adapter_r or 16))
        look_up = model.embedding_parameters or 0
        if needs.quantization:  # only the matrices of the blocks are quantized
            base = (parameters - look_up) * _QUANTIZED[needs.quantization] + look_up * 4.0
        else:
            base = parameters * width
        return (base + trained * 4.0) / shards, trained
    weights = parameters * 4.0 / shards
    if width < 4 and shards == 1:
        weights += parameters * width
    return weights, parameters


def decide_memory(
    model: ModelFacts | None,
    needs: TrainingNeeds,
    setting: Setting,
    devices: Devices,
    budget: float | None,
    device_bytes: float | None,
    calibration: MemoryCalibration | None = None,
) -> Decision:
    """What the chosen setting needs on each device, as a range, term by term."""
    need = estimate(model, needs, setting, devices.kind, calibration) if model else None
    if need is None:
        return Decision(value=None, confidence="low", reason=_why_unknown(model), facts=["from: tables"])
    about = (LOW, HIGH) if calibration is None else (LOW_MEASURED, HIGH_MEASURED)
    low, high = need.total * about[0], need.total * about[1]
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
    largest_first = sorted(need.terms.items(), key=lambda item: -item[1])
    spelled = ", ".join(f"{name} {gib(size)}" for name, size in largest_first if size)
    free = devices.free_bytes
    counted = f"{model.parameters:,} parameters (from {model.parameters_from})"
    return Decision(
        value=value,
        reason=reason,
        confidence="low" if budget is None else "fair",
        facts=[
            calibration.source if calibration is not None else "from: tables",
            counted,
            f"{spelled} GiB" + (f" against {gib(free)} GiB free now" if free else ""),
            f"{setting.micro_batch} x {setting.max_length} tokens, {setting.precision}, {setting.strategy}"
            + (", gradient checkpointing" if setting.gradient_checkpointing else ""),
        ],
    )


def _why_unknown(model: ModelFacts | None) -> str:
    if model is None:
        return "not known before a model is chosen"
    return "not known: " + (next(iter(model.unknown.values()), "the configuration does not name its sizes"))
