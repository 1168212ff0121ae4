"""Two ways to join the ranks, predicted side by side: NCCL against Gloo, or one process against several."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pydantic import BaseModel, ConfigDict, Field

from engine.contract.findings import Finding
from wizard.advice.backend import NAMES, NATIVE
from wizard.advice.devices import Devices
from wizard.advice.memory import Setting
from wizard.advice.reasons import count_of, two_figures
from wizard.advice.speed import step, why_unknown
from wizard.facts.model import ModelFacts
from wizard.hardware.inventory import HardwareInventory
from wizard.questions.needs import TrainingNeeds

#: Findings that speak of the native library's own troubles, by how their category begins.
_NATIVE_TROUBLES = ("nccl", "rccl", "p2p", "nvlink", "fabric", "wsl2", "windows-no-nccl", "cross-numa", "rdma", "ib-")


class Way(BaseModel):
    """One way. Ranges are [low, high] with two significant figures; None with the reason in `unknown`."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(description="backend, or `1 process`")
    chosen: bool = Field(description="what is recommended, or was set")
    step_s: list[float] | None = None
    waiting_share: list[float] | None = Field(None, description="of a step, waiting for gradients")
    unknown: str | None = None
    can_go_wrong: list[str] = Field(default_factory=list)


class Comparison(BaseModel):
    """`why`: what is compared, and where NCCL and Gloo are not, why there is nothing to compare."""

    model_config = ConfigDict(extra="forbid")

    title: str
    why: str
    ways: list[Way]
    source: str = "from: tables"


def compare(
    devices: Devices,
    inventory: HardwareInventory,
    needs: TrainingNeeds,
    model: ModelFacts | None,
    setting: Setting,
    *,
    backend: str,
    interface: str | None,
    fits: bool | None,
    findings: list[Finding],
) -> Comparison:
    """`setting` and `backend` are what was decided."""
    link = inventory.network.interface(interface) if interface else None

    def way(name: str, over: str, this: Setting, chosen: bool, troubles: list[str]) -> Way:
        why = why_unknown(devices, inventory, needs, model, this, over, link, fits)
        if why is None and over == "gloo" and devices.kind != "cpu" and this.strategy != "ddp":
            why = f"{this.strategy} on GPUs shares its work in ways that Gloo does not offer"
        if why is not None or model is None:
            return Way(name=name, chosen=chosen, unknown=why, can_go_wrong=troubles)
        slow, fast = (step(devices, inventory, needs, model, this, this.accumulation, over, link, end) for end in (0, 1))
        return Way(
            name=name,
            chosen=chosen,
            step_s=[two_figures(fast.total_s), two_figures(slow.total_s)],
            waiting_share=[two_figures(share) for share in sorted((slow.waiting, fast.waiting))],
            can_go_wrong=troubles,
        )

    native = NATIVE.get(devices.kind, "gloo")
    if native != "gloo" and setting.world > 1:
        name = "RCCL" if devices.kind == "amd" else NAMES[native]
        return Comparison(
            title=f"{name} against Gloo",
            why=f"{_ranks(setting, needs)} on {devices.words()}, the same model and batch over either",
            ways=[
                way(name, native, setting, backend == native, _native_troubles(name, needs, findings)),
                way("Gloo", "gloo", setting, backend == "gloo", _gloo_troubles(needs, findings, gpus=True)),
            ],
        )
    if devices.kind != "cpu":
        return Comparison(
            title="nothing to compare",
            why=f"one process on {devices.words()}: nothing travels, so NCCL and Gloo do not differ",
            ways=[way("1 process", "none", setting, True, [])],
        )
    one = _spread(setting, 1)
    several = setting if setting.world > 1 else _spread(setting, 2)
    alone = setting.world == 1
    shared = needs.num_nodes == 1
    return Comparison(
        title=f"1 process against {_ranks(several, needs)}",
        why="no GPU is used, and NCCL carries only GPU memory: between processes it is Gloo, and one process needs neither",
        ways=[
            _alone(way, one, inventory, needs, alone),
            way(
                f"{count_of(several.world, 'process')}, Gloo",
                "gloo",
                several,
                not alone,
                (["they share the cores and the memory of one machine"] if shared else [])
                + _gloo_troubles(needs, findings, gpus=False),
            ),
        ],
    )


def _alone(way: Callable[..., Way], one: Setting, inventory: HardwareInventory, needs: TrainingNeeds, chosen: bool) -> Way:
    if needs.num_nodes > 1:  # its own machine alone: as many cores as each of the several has
        return Way(name="1 process", chosen=chosen, unknown="one machine alone is another plan: set num_nodes to 1 to see it")
    sockets = inventory.cpu.sockets or 1
    across = [f"it reaches across {sockets} sockets for its memory, which slows it down in ways no table here counts"]
    return way("1 process", "none", one, chosen, across if sockets > 1 else [])


def _spread(setting: Setting, world: int) -> Setting:
    """The same sequences a step on `world` ranks, as near as whole numbers come."""
    share = max(1, round(setting.micro_batch * setting.accumulation * setting.world / world))
    micro = min(setting.micro_batch, share)
    while share % micro:
        micro -= 1
    strategy = "single" if world == 1 else "ddp"
    return replace(setting, strategy=strategy, world=world, micro_batch=micro, accumulation=share // micro)


def _ranks(setting: Setting, needs: TrainingNeeds) -> str:
    ranks = count_of(setting.world, "process")
    return ranks if needs.num_nodes == 1 else f"{ranks} on {needs.num_nodes} machines"


def _native_troubles(name: str, needs: TrainingNeeds, findings: list[Finding]) -> list[str]:
    seen = [item.summary for item in findings if item.category.startswith(_NATIVE_TROUBLES)]
    if needs.num_nodes > 1:
        seen.append("a closed port or a wrong interface shows as a hang, not as an error")
    return seen or [f"nothing on this machine speaks against it; a rank that dies leaves the others waiting in {name}"]


def _gloo_troubles(needs: TrainingNeeds, findings: list[Finding], gpus: bool) -> list[str]:
    seen = [item.summary for item in findings if item.category.startswith("gloo") and item.category != "gloo-on-gpu"]
    if gpus:
        seen.insert(0, "every gradient goes through host memory and is added up by the CPU; fsdp does not work over it")
    if needs.num_nodes > 1:
        seen.append("it offers the address that the machine's own name resolves to, unless an interface is set")
    return seen
