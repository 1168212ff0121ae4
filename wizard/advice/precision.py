"""The number format of the forward and backward pass."""

from __future__ import annotations

from engine.contract.findings import Decision
from wizard.advice.devices import Devices
from wizard.advice.reasons import asked, kept, other, short_name
from wizard.hardware.inventory import HardwareInventory
from wizard.questions.needs import TrainingNeeds

#: AMD architectures with bf16 matrix units: CDNA 1 (MI100) and later, RDNA 3 and later.
_AMD_BF16 = ("gfx908", "gfx90a", "gfx94", "gfx95", "gfx11", "gfx12")


def decide_precision(devices: Devices, inventory: HardwareInventory, needs: TrainingNeeds) -> Decision:
    best = _best(devices, inventory)
    if asked(needs.precision):
        word = (
            "which is what this machine does best"
            if needs.precision == best.value
            else f"{best.value} would be the choice here: {best.reason}"
        )
        return kept(needs.precision, word, best.facts)
    return best


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
        return _nvidia(devices)
    if devices.kind == "amd":
        return _amd(devices)
    return Decision(value="bf16", confidence="fair", reason=f"{devices.words()} has bf16 units")


def _nvidia(devices: Devices) -> Decision:
    known = [device for device in devices.used if device.capability is not None]
    if not known:
        return Decision(
            value="fp16",
            confidence="low",
            reason="the compute capability is not known; fp16 runs on every GPU since 2017",
            alternative=other("bf16", "the GPU has compute capability 8.0 or more"),
        )
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
    return Decision(
        value="fp32",
        confidence="high",
        reason="this CPU has neither AMX nor AVX512-BF16, without which bf16 is several times slower than fp32",
    )
