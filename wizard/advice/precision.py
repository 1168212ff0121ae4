"""The number format of the forward and backward pass."""

from __future__ import annotations

from engine.contract.findings import Decision
from wizard.advice.devices import Devices, used_links
from wizard.advice.reasons import asked, kept, other, short_name
from wizard.facts.model import ModelFacts
from wizard.hardware.inventory import HardwareInventory
from wizard.questions.needs import TrainingNeeds

#: The value where nothing tells what the devices can do. It never reaches a preset: there `SAFE` stands for it.
UNKNOWN, SAFE = "unknown", "fp32"
#: Families trained in bf16 whose activations leave fp16's range (65504). Sources: transformers' notes on T5 in fp16
#: (hidden states are clamped there for that reason) and on Gemma 2 and 3 (activations overflow in half precision).
_NOT_IN_FP16 = ("t5", "mt5", "umt5", "longt5", "switch_transformers", "flan", "gemma2", "gemma3", "gemma3_text")
#: AMD architectures with bf16 matrix units: CDNA 1 (MI100) and later, RDNA 3 and later.
_AMD_BF16 = ("gfx908", "gfx90a", "gfx94", "gfx95", "gfx11", "gfx12")


def decide_precision(
    devices: Devices, inventory: HardwareInventory, needs: TrainingNeeds, model: ModelFacts | None = None
) -> Decision:
    """By the weakest device in use, and by what the model's family bears; `UNKNOWN` where no device is known."""
    best = _bearable(_best(devices, inventory), model)
    if asked(needs.precision):
        word = (
            "which is what this machine does best"
            if needs.precision == best.value
            else f"{best.value} would be the choice here: {best.reason}"
        )
        return kept(needs.precision, word, best.facts)
    return best


def _bearable(best: Decision, model: ModelFacts | None) -> Decision:
    family = (model.architecture if model else None) or ""
    if best.value != "fp16" or family not in _NOT_IN_FP16:
        return best
    return Decision(
        value="fp32",
        confidence="fair",
        facts=[*best.facts, f"model_type: {family}"],
        reason=f"{family} was trained in bf16 and overflows fp16, the only half precision of this device",
        alternative=other("bf16", "a GPU with bf16 units (compute capability 8.0 or more) is used"),
    )


def _best(devices: Devices, inventory: HardwareInventory) -> Decision:
    if devices.kind == "cpu":
        return _cpu(inventory)
    if devices.kind == "apple":
        return Decision(
            value="fp32",
            confidence="fair",
            reason="half precision on Apple GPUs is young in torch and gains little there",
        )
    if devices.kind == "nvidia":
        return _nvidia(devices, inventory)
    if devices.kind == "amd":
        return _amd(devices)
    if devices.kind == "ascend" and any((device.name or "").rstrip("Aa").endswith("910") for device in devices.used):
        return Decision(
            value="fp16", confidence="fair", reason="the first Ascend 910 has fp16 units only; bf16 came with the 910B"
        )
    return Decision(value="bf16", confidence="fair", reason=f"{devices.words()} has bf16 units")


def _by_links(devices: Devices, inventory: HardwareInventory) -> Decision:
    """GPUs without a name: MIG and the number of NVLinks between two tell the generation, little else does.

    MIG exists from Ampere on. Cards of before 2020 have at most six in all. Source: NVIDIA's NVLink generations (Pascal 4, Volta 6, Turing 2).
    """
    if any(device.mig for device in inventory.accelerators):
        return Decision(
            value="bf16",
            confidence="high",
            facts=["MIG"],
            reason="MIG exists only on GPUs with bf16 units (A30, A100 and later)",
        )
    most = max((link.nvlinks for link in used_links(devices, inventory)), default=0)
    bridged = len(inventory.accelerators) == 2 and most in (3, 4)
    if most > 6 or bridged:
        return Decision(
            value="bf16",
            confidence="high" if most > 6 else "fair",
            facts=[f"NV{most} between two GPUs"],
            reason=f"{most} NVLinks between two GPUs exist only on cards with bf16 units (Ampere and later)"
            if most > 6
            else f"{most} NVLinks between two cards mean a bridge of four, which is Ampere's; Ampere has bf16 units",
            alternative=other("fp16", "the GPUs turn out to be older than Ampere"),
        )
    return Decision(
        value=UNKNOWN,
        confidence="low",
        reason="the GPU's model is not known: bf16 from compute capability 8.0 on, fp16 on 7.x, else fp32",
        alternative=other("bf16", "the GPU has compute capability 8.0 or more (A100, RTX 30 and later)"),
    )


def _nvidia(devices: Devices, inventory: HardwareInventory) -> Decision:
    known = [device for device in devices.used if device.capability is not None]
    if not known:
        return _by_links(devices, inventory)
    weakest = min(known, key=lambda device: device.capability)
    facts = [f"{short_name(weakest)}: compute capability {weakest.compute_capability}"]
    if weakest.capability >= (8, 0):
        return Decision(
            value="bf16",
            confidence="high",
            facts=facts,
            reason=f"compute capability {weakest.compute_capability}: bf16 units, and the range of "
            "fp32, so no loss scaling",
        )
    if weakest.capability >= (7, 0):
        return Decision(
            value="fp16",
            confidence="high",
            facts=facts,
            reason=f"compute capability {weakest.compute_capability}: fp16 tensor cores; bf16 would "
            "only be emulated (from 8.0 on it is real)",
            alternative=other("fp32", "the loss becomes NaN (models trained in bf16 can overflow fp16)"),
        )
    return Decision(
        value="fp32",
        confidence="high",
        facts=facts,
        reason=f"compute capability {weakest.compute_capability}: no tensor cores, so half precision gains no speed",
        alternative=other("fp16", "memory is short and the loss stays finite") if weakest.capability >= (6, 0) else None,
    )


def _amd(devices: Devices) -> Decision:
    architectures = {device.architecture for device in devices.used}
    if None in architectures or not architectures:
        return Decision(
            value="bf16",
            confidence="fair",
            reason="AMD's training GPUs since 2020 have bf16 units; this one's architecture could not be read",
        )
    if all(name.startswith(_AMD_BF16) for name in architectures):
        return Decision(
            value="bf16", confidence="high", reason=f"{', '.join(sorted(architectures))} has bf16 matrix units"
        )
    return Decision(
        value="fp16", confidence="fair", reason=f"{', '.join(sorted(architectures))} has no bf16 matrix units"
    )


def _cpu(inventory: HardwareInventory) -> Decision:
    flags = [flag for flag in ("amx_bf16", "avx512_bf16") if flag in inventory.cpu.flags]
    if flags:
        return Decision(
            value="bf16",
            confidence="fair",
            facts=[f"flags: {', '.join(flags)}"],
            reason=f"this CPU multiplies bf16 in hardware ({'AMX' if 'amx_bf16' in flags else 'AVX512-BF16'})",
            alternative=other("fp32", "the model is small: converting costs more than the products gain"),
        )
    if inventory.from_text and not inventory.cpu.flags:
        return Decision(
            value="fp32",
            confidence="fair",
            reason="whether the CPU has AMX or AVX512-BF16 is not known; without them bf16 is several times slower",
            alternative=other("bf16", "lscpu lists amx_bf16 (Xeon of the 4th generation on) or avx512_bf16 (EPYC 9004 on)"),
        )
    return Decision(
        value="fp32",
        confidence="high",
        reason="this CPU has neither AMX nor AVX512-BF16, without which bf16 is several times slower than fp32",
    )
