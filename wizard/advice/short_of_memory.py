"""What to do where a training does not fit: the smallest change that is foreseen to fit comes first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from engine.contract.findings import Finding
from wizard.advice.calibration import MemoryCalibration
from wizard.advice.devices import Devices
from wizard.advice.memory import GIVE_BACK, estimate
from wizard.advice.reasons import finding, gib
from wizard.advice.strategy import Plan, choose_plan, thing
from wizard.facts.model import ModelFacts
from wizard.hardware.inventory import HardwareInventory
from wizard.questions.needs import TrainingNeeds

_LORA, _INT4 = {"model.adapter.type": "lora"}, {"model.quantization": "int4"}


@dataclass(frozen=True)
class _Rescue:
    """One change: how it is said, the preset keys, and the needs that result."""

    words: str
    patch: dict[str, Any]
    needs: TrainingNeeds


def memory_findings(
    plan: Plan,
    devices: Devices,
    inventory: HardwareInventory,
    needs: TrainingNeeds,
    model: ModelFacts | None,
    budget: float | None,
    calibration: MemoryCalibration | None = None,
) -> list[Finding]:
    if plan.safe is not False or plan.need is None or budget is None or model is None:
        return []
    cpu = devices.kind == "cpu"
    fix, patch = [], None
    for rescue in _rescues(devices, inventory, needs):
        other = _planned(rescue.needs, plan, devices, model, budget, calibration)
        said = f": about {gib(other.need)} GiB, which fits" if other.safe and other.need else ""
        if not said and other.need:
            said = f": about {gib(other.need)} GiB, which is still too much"
        if other.safe or patch is None:
            fix.append(rescue.words + said)
            patch = rescue.patch
        if other.safe:
            break
    if not plan.gradient_checkpointing:
        fix.append("recompute activations (training.gradient_checkpointing: true)")
    if plan.batch[1] > 1:
        fix.append("a smaller training.micro_batch")
    if plan.setting.max_length > 256:
        fix.append(f"shorter sequences (data.max_length below {plan.setting.max_length})")
    if cpu and inventory.platform.system == "linux" and GIVE_BACK not in needs.env:
        given = needs.model_copy(update={"env": needs.env | {GIVE_BACK: "1048576"}})
        spare = estimate(model, given, plan.setting, devices.kind, calibration)
        said = f": about {gib(spare.total)} GiB, for a quarter to a half more time" if spare else ""
        fix.append(f"have freed memory given back at once (distributed.env.{GIVE_BACK}: '1048576'){said}")
    fix.append("a smaller model, or " + ("more memory" if cpu else "more or larger GPUs"))
    return [
        finding(
            "host-oom-sigkill" if cpu or devices.kind == "apple" else "cuda-oom-ddp-replica",
            "possible" if plan.fits else "likely",
            f"needs about {gib(plan.need)} GiB on each {thing(devices)}, which may use {gib(budget)}"
            + (": tight" if plan.fits else ""),
            "memory estimate",
            f"{plan.strategy}, micro-batch {plan.batch[1]}, {plan.setting.max_length} tokens, {plan.setting.precision}; "
            + terms_text(plan, devices, needs, model, calibration),
            fix,
            patch,
        )
    ]


def terms_text(
    plan: Plan, devices: Devices, needs: TrainingNeeds, model: ModelFacts, calibration: MemoryCalibration | None
) -> str:
    """`weights 14, optimizer 57, ... GiB against 79 GiB free now`, largest first."""
    need = estimate(model, needs, plan.setting, devices.kind, calibration)
    if need is None:
        return "not known term by term"
    parts = ", ".join(f"{name} {gib(size)}" for name, size in sorted(need.terms.items(), key=lambda item: -item[1]) if size)
    free = devices.free_bytes
    return f"{parts} GiB" + (f" against {gib(free)} GiB free now" if free else "")


def _rescues(devices: Devices, inventory: HardwareInventory, needs: TrainingNeeds) -> list[_Rescue]:
    """Adapters need weights that are worth keeping; 4 bits need an NVIDIA or AMD GPU."""
    can_quantize = devices.kind in ("nvidia", "amd")
    packages = inventory.software.packages
    missing = "torch" in packages and "bitsandbytes" not in packages
    first = " (after pip install 'autotrain-wizard[quantization]')" if missing else ""
    lora = needs.model_copy(update={"adapter": "lora", "adapter_r": needs.adapter_r or 16})
    int4 = lora.model_copy(update={"quantization": "int4"})
    found = []
    if needs.adapter is None and not needs.from_scratch:
        found.append(_Rescue("train an adapter (model.adapter.type: lora) instead of all weights", _LORA, lora))
        if can_quantize:
            words = f"train an adapter on a base in 4 bits (model.adapter.type: lora, model.quantization: int4){first}"
            found.append(_Rescue(words, _LORA | _INT4, int4))
    elif needs.adapter and needs.quantization is None and can_quantize:
        found.append(_Rescue(f"load the frozen base in 4 bits (model.quantization: int4){first}", _INT4, int4))
    return found


def _planned(
    needs: TrainingNeeds,
    plan: Plan,
    devices: Devices,
    model: ModelFacts,
    budget: float,
    calibration: MemoryCalibration | None,
) -> Plan:
    setting = plan.setting
    return choose_plan(
        devices,
        needs,
        model,
        None,
        world=setting.world,
        precision=setting.precision,
        max_length=setting.max_length,
        packing=True,
        budget=budget,
        calibration=calibration,
    )
