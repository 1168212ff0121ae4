"""From a machine and what the person wants to every decision, each with its reason. Pure, and well under 10 ms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict

from engine.contract.findings import Decision, Finding
from wizard.advice.backend import decide_backend
from wizard.advice.batch import batch_findings, decide_batch
from wizard.advice.calibration import MemoryCalibration
from wizard.advice.choices import choice_findings
from wizard.advice.citing import cited
from wizard.advice.comparison import Comparison, compare
from wizard.advice.concerns import machine_findings
from wizard.advice.conflicts import conflict_findings
from wizard.advice.devices import Devices, decide_devices
from wizard.advice.environment import decide_env
from wizard.advice.memory import SHARE_GPU, Setting, budget_bytes, decide_memory, estimate, holds
from wizard.advice.network import decide_bucket, decide_network
from wizard.advice.nodes import compared
from wizard.advice.open_count import without_count
from wizard.advice.optimizer import decide_learning_rate
from wizard.advice.precision import SAFE, UNKNOWN, decide_precision
from wizard.advice.processes import decide_processes, decide_threads
from wizard.advice.script import script_decisions, script_settings, script_unknown
from wizard.advice.sequence import decide_max_length, decide_packing
from wizard.advice.short_of_memory import memory_findings
from wizard.advice.speed import decide_speed
from wizard.advice.strategy import choose_plan, decide_gradient_checkpointing, decide_strategy
from wizard.advice.words import shareable, summary_lines
from wizard.facts.data import DataFacts
from wizard.facts.model import ModelFacts
from wizard.hardware.inventory import HardwareInventory
from wizard.questions.needs import TrainingNeeds


class Recommendation(BaseModel):
    """All decisions by name, what to be warned of, what could not be known, and the preset's values."""

    model_config = ConfigDict(extra="forbid")

    decisions: dict[str, Decision]
    findings: list[Finding]
    unknown: list[str]
    settings: dict[str, Any]
    num_nodes: int = 1
    comparison: Comparison | None = None

    def summary(self) -> tuple[str, str]:
        """The two lines of advice: what, and because of what."""
        return summary_lines(self.decisions, self.num_nodes)

    def why(self) -> list[dict[str, Any]]:
        """For a preset: {decision, value, reason} without host names, addresses or identifiers."""
        return shareable(self.decisions)

    def public(self) -> dict[str, Any]:
        """What `recommend --json` prints."""
        return self.model_dump(include={"decisions", "findings", "unknown", "comparison"}, exclude_none=False)


def recommend(
    inventory: HardwareInventory,
    needs: TrainingNeeds,
    model: ModelFacts | None = None,
    data: DataFacts | None = None,
    others: Sequence[HardwareInventory] = (),
    calibration: MemoryCalibration | None = None,
) -> Recommendation:
    """Decide everything that was left open. What the person fixed is kept, and questioned in `findings`.

    `others`: the further machines of a job on several, whose differences from the first are named; every machine then
    takes as many devices as the one with the fewest. `calibration`: what a real step taught about memory; it is left
    aside where it was measured on another kind of device or with another torch.
    """
    inventory, needs, differences = compared(inventory, others, needs)

    def fits_alone(memory_bytes: int) -> bool | None:
        setting = Setting("single", True, 1, 512, "bf16", 1)
        return holds(estimate(model, needs, setting, "nvidia") if model else None, memory_bytes * SHARE_GPU or None)

    devices, device_choice, findings = decide_devices(inventory, needs, fits_alone)
    processes = decide_processes(devices, inventory, needs)
    world = processes.value * needs.num_nodes
    precision = decide_precision(devices, inventory, needs, model)
    number_format = SAFE if precision.value == UNKNOWN else precision.value
    max_length = decide_max_length(devices, needs, model, data)
    packing = decide_packing(needs, model, data, max_length.value)
    budget = budget_bytes(devices, inventory, processes.value)
    if calibration is not None and not calibration.fits(devices.kind, inventory.software.packages.get("torch")):
        calibration = None
    plan = choose_plan(
        devices,
        needs,
        model,
        data,
        world=world,
        precision=number_format,
        max_length=max_length.value,
        packing=packing.value,
        budget=budget,
        calibration=calibration,
    )
    backend = decide_backend(devices, world, inventory, needs)
    network, network_findings = decide_network(inventory, needs)
    threads = decide_threads(processes.value, inventory, needs)
    bucket = decide_bucket(backend.value, network, inventory, needs)
    size = _device_bytes(devices, inventory, processes.value)
    whole = (
        estimate(
            model, needs, Setting("ddp", True, 1, max_length.value, number_format, world), devices.kind, calibration
        )
        if model
        else None
    )
    decisions = {
        "devices": device_choice,
        "backend": backend,
        "strategy": decide_strategy(plan, devices, needs, world, size, whole.total if whole else None),
        "processes": processes,
        "precision": precision,
        "batch": decide_batch(plan.batch, plan.batch_reason, world, max_length.value, plan.fits),
        "memory": decide_memory(model, needs, plan.setting, devices, budget, size, calibration),
        "speed": decide_speed(
            devices, inventory, needs, model, plan.setting, plan.batch[2], backend.value, network.value, plan.fits
        ),
        "gradient_checkpointing": decide_gradient_checkpointing(plan, needs),
        "max_length": max_length,
        "packing": packing,
        "learning_rate": decide_learning_rate(needs, model),
        "threads": threads,
        "network": network,
        "bucket": bucket,
        "env": decide_env(
            devices, inventory, needs, processes.value, threads.value, backend.value, network.value
        ),
    }
    open_precision = decide_precision(devices, inventory, needs.model_copy(update={"precision": "auto"}), model).value
    findings += differences + network_findings + machine_findings(devices, inventory, needs, processes.value)
    findings += conflict_findings(devices, inventory, needs)
    findings += choice_findings(
        devices,
        inventory,
        needs,
        backend=backend.value,
        strategy=decisions["strategy"].value,
        precision=precision.value,
        processes=processes.value,
        best_precision=open_precision,
    )
    findings += batch_findings(needs, plan.batch, world) + memory_findings(
        plan, devices, inventory, needs, model, budget, calibration
    )
    comparison = compare(
        devices,
        inventory,
        needs,
        model,
        plan.setting,
        backend=backend.value,
        interface=network.value,
        fits=plan.fits,
        findings=findings,
    )
    settings, unknown = _settings(decisions, devices, needs), _unknown(inventory, model, data)
    if needs.task == "script":
        decisions, settings = script_decisions(decisions, needs), script_settings(settings, needs)
        unknown = script_unknown(unknown)
    if devices.unknown:
        decisions, settings = without_count(decisions, settings)
    return Recommendation(
        decisions=decisions,
        findings=cited(_by_weight(findings), inventory),
        unknown=unknown,
        settings=settings,
        num_nodes=needs.num_nodes,
        comparison=None if needs.task == "script" or devices.unknown else comparison,
    )


def hardware_summary(inventory: HardwareInventory) -> dict[str, Any]:
    """The kind of machine, for a preset's `hardware`: no names, addresses or identifiers."""
    shown = [device for device in inventory.accelerators if device.visible]
    names = list(dict.fromkeys(device.name or device.architecture or device.vendor for device in shown))
    counted = [f"{sum((d.name or d.architecture or d.vendor) == name for d in shown)} x {name}" for name in names]
    memory = inventory.memory.total_bytes
    summary = {
        "accelerator": ", ".join(counted) or "none",
        "cpu": inventory.cpu.model,
        "cpu_cores": inventory.cpu.usable_cores,
        "memory_gib": round(memory / 2**30) if memory else None,
        "system": inventory.platform.system,
    }
    return {key: value for key, value in summary.items() if value is not None}


def _settings(decisions: dict[str, Decision], devices: Devices, needs: TrainingNeeds) -> dict[str, Any]:
    batch = decisions["batch"].value
    settings = {
        "data.max_length": decisions["max_length"].value,
        "data.packing": decisions["packing"].value,
        **{f"training.{name}": batch[name] for name in ("global_batch", "micro_batch", "gradient_accumulation")},
        "training.learning_rate": decisions["learning_rate"].value,
        "training.precision": SAFE if decisions["precision"].value == UNKNOWN else decisions["precision"].value,
        "training.gradient_checkpointing": decisions["gradient_checkpointing"].value,
        "distributed.backend": decisions["backend"].value,
        "distributed.strategy": decisions["strategy"].value,
        "distributed.num_gpus_per_node": devices.count,
        "distributed.num_processes_per_node": decisions["processes"].value,
        "distributed.threads_per_process": decisions["threads"].value,
        "distributed.communication.bucket_mb": decisions["bucket"].value,
    }
    if decisions["threads"].value is None:  # the cores are not known: decided where it runs
        del settings["distributed.threads_per_process"]
    if needs.num_nodes > 1 and decisions["network"].value:
        settings["distributed.network_interface"] = decisions["network"].value
    return settings


def _device_bytes(devices: Devices, inventory: HardwareInventory, processes: int) -> float | None:
    if devices.kind == "cpu":
        usable = inventory.memory.usable_bytes
        return usable / processes if usable else None
    return devices.memory_bytes


def _by_weight(findings: list[Finding]) -> list[Finding]:
    """Surest first; the same said of several devices is said once, with all the evidence."""
    merged: dict[tuple[str, str], Finding] = {}
    for item in findings:
        key = (item.category, item.summary)
        if key in merged:
            item = merged[key].model_copy(update={"evidence": merged[key].evidence + item.evidence})
        merged[key] = item
    return sorted(merged.values(), key=lambda item: ("certain", "likely", "possible").index(item.confidence))


def _unknown(inventory: HardwareInventory, model: ModelFacts | None, data: DataFacts | None) -> list[str]:
    """What was not known when deciding, each with the reason."""
    said = [f"{name}: {reason}" for name, reason in inventory.unknown.items()]
    said += [
        f"model {name}: {reason}" for name, reason in (model.unknown if model else {"": "none chosen yet"}).items()
    ]
    said += [f"data {name}: {reason}" for name, reason in (data.unknown if data else {"": "none chosen yet"}).items()]
    return [text.replace(" :", ":") for text in said]
