"""How the work is shared between ranks, from what fits into memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from engine.contract.findings import Decision
from wizard.advice.batch import plan_batch
from wizard.advice.calibration import MemoryCalibration
from wizard.advice.devices import Devices
from wizard.advice.memory import Estimate, Setting, estimate, holds
from wizard.advice.reasons import asked, count_of, gib, kept, other
from wizard.facts.data import DataFacts
from wizard.facts.model import ModelFacts
from wizard.questions.needs import TrainingNeeds

#: Tokens in a forward pass below which a GPU idles; fewer than these are worth recomputing activations for.
_WORTHWHILE_TOKENS = 2048


@dataclass(frozen=True)
class Plan:
    """One complete way to run. `fits` (and `safe`: with a tenth to spare) is None where memory or model are unknown."""

    strategy: str
    gradient_checkpointing: bool
    batch: tuple[int, int, int]
    batch_reason: str
    setting: Setting
    fits: bool | None
    safe: bool | None
    need: float | None


def choose_plan(
    devices: Devices,
    needs: TrainingNeeds,
    model: ModelFacts | None,
    data: DataFacts | None,
    *,
    world: int,
    precision: str,
    max_length: int,
    packing: object,
    budget: float | None,
    calibration: MemoryCalibration | None = None,
) -> Plan:
    """The simplest plan that fits: no sharding before sharding, no recomputing before recomputing.

    Where none fits, the one that needs least.
    """
    cpu = devices.kind == "cpu"

    def make(strategy: str, recompute: bool) -> Plan:
        def needed(setting: Setting) -> Estimate | None:
            return estimate(model, needs, setting, devices.kind, calibration) if model else None

        def setting(micro: int, accumulation: int) -> Setting:
            return Setting(strategy, recompute, micro, max_length, precision, world, accumulation)

        def safe(micro: int) -> bool | None:
            # how many passes make a step is not settled yet; with several, gradients stay in between
            return holds(needed(setting(micro, 2)), budget)

        batch, reason = plan_batch(needs, world, cpu, max_length, data, packing, safe)
        chosen = setting(batch[1], batch[2])
        need = needed(chosen)
        fits = None if need is None or budget is None else need.total <= budget
        return Plan(strategy, recompute, batch, reason, chosen, fits, holds(need, budget), need.total if need else None)

    plans = [
        make(strategy, recompute) for strategy in _strategies(needs, world, cpu) for recompute in _recompute(needs)
    ]
    if all(plan.fits is None for plan in plans):
        return plans[0]
    return (
        _first(plans, lambda plan: plan.safe and _busy(plan, cpu))
        or _first(plans, lambda plan: plan.safe)
        or min(plans, key=lambda plan: plan.need or 0)
    )


def _strategies(needs: TrainingNeeds, world: int, cpu: bool) -> list[str]:
    if asked(needs.strategy):
        return [needs.strategy]
    if world == 1 and needs.backend in ("auto", "none"):
        return ["single"]
    # sharding is left to those who ask for it on a CPU, where each gather takes time from the same cores, and for
    # adapters, for which an int4 base is the better way to make room
    return ["ddp"] if cpu or needs.adapter or needs.quantization else ["ddp", "fsdp"]


def _recompute(needs: TrainingNeeds) -> list[bool]:
    return [bool(needs.gradient_checkpointing)] if asked(needs.gradient_checkpointing) else [False, True]


def _busy(plan: Plan, cpu: bool) -> bool:
    total, micro, steps = plan.batch
    return cpu or steps == 1 or micro * plan.setting.max_length >= _WORTHWHILE_TOKENS


def _first(plans: list[Plan], good: Callable[[Plan], bool | None]) -> Plan | None:
    return next((plan for plan in plans if good(plan)), None)


def decide_strategy(
    plan: Plan, devices: Devices, needs: TrainingNeeds, world: int, device_bytes: float | None, whole: float | None
) -> Decision:
    """`whole`: bytes one rank would need without sharding, None where unknown."""
    room = (
        f"needs {gib(plan.need)} of {gib(device_bytes)} GiB on each {thing(devices)}"
        if plan.need and device_bytes
        else None
    )
    if asked(needs.strategy):
        return kept(needs.strategy, room or "memory is not known")
    if plan.strategy == "single":
        return Decision(
            value="single",
            confidence="high",
            reason="one process" + (f" {room}" if room else ": nothing to share"),
            alternative=other("ddp", "more GPUs or machines join"),
        )
    if plan.strategy == "fsdp":
        size = (
            f"a whole copy needs {gib(whole)} of {gib(device_bytes)} GiB"
            if whole and device_bytes
            else "a whole copy does not fit"
        )
        return Decision(
            value="fsdp",
            confidence="fair",
            reason=f"{size}, so weights, gradients and optimizer are sharded over {count_of(world, 'GPU')}"
            + (f": {room}" if room and plan.fits else ""),
            alternative=other(
                "ddp", "an adapter, on an int4 base if need be, makes a whole copy fit: far less to communicate"
            ),
        )
    if plan.fits is None:
        return Decision(
            value="ddp",
            confidence="low",
            reason="every rank holds the whole model; whether it fits is not known yet",
            alternative=other("fsdp", "a whole copy does not fit on one GPU") if devices.kind != "cpu" else None,
        )
    if plan.fits is False:
        return Decision(
            value="ddp", confidence="low", reason=f"nothing that was tried fits; {room or 'memory is short'}"
        )
    return Decision(
        value="ddp",
        confidence="high",
        reason=f"{room}: every rank holds the whole model and only gradients travel"
        if room
        else "every rank holds the whole model",
        alternative=other("fsdp", "a larger model or longer sequences no longer fit")
        if devices.kind != "cpu"
        else None,
    )


def decide_gradient_checkpointing(plan: Plan, needs: TrainingNeeds) -> Decision:
    if asked(needs.gradient_checkpointing):
        return kept(
            plan.gradient_checkpointing,
            "activations are computed twice" if plan.gradient_checkpointing else "activations stay in memory",
        )
    if plan.gradient_checkpointing:
        return Decision(
            value=True,
            confidence="fair",
            reason="activations do not fit otherwise; computing them twice costs about a third more time",
        )
    if plan.fits is None:
        return Decision(
            value=False,
            confidence="low",
            reason="costs about a third more time; turn it on if memory runs out",
            alternative=other(True, "memory runs out"),
        )
    return Decision(
        value=False,
        confidence="high",
        reason="activations fit into memory; recomputing them would cost a third more time",
    )


def thing(devices: Devices) -> str:
    """What has a memory of its own."""
    return "process" if devices.kind == "cpu" else "GPU"
