"""What speed to expect, from tables: the makers' peaks, the share of them that trainings reach, and link speeds.

A prediction for choosing between ways, not a promise: two figures and a range, and nothing where no table knows the
device. Measurements of the running training replace it.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.contract.findings import Decision
from engine.contract.flops import peak_flops_per_s, train_flops_per_token
from wizard.advice.devices import Devices
from wizard.advice.memory import Setting
from wizard.advice.reasons import count_of, two_figures
from wizard.advice.speed_cpu import cpu_flops_per_s
from wizard.facts.model import ModelFacts
from wizard.facts.parameters import adapter_parameters
from wizard.hardware.inventory import HardwareInventory, Interface, Link
from wizard.questions.needs import TrainingNeeds

#: Share of the peak that dense decoders reach in training without hand-written kernels.
_REACHED = (0.25, 0.50)
#: Bytes a second an all-reduce moves per GPU (nccl-tests' bus bandwidth), low and high, by the way between two GPUs.
_NVLINK_ONE = (18e9, 22e9)  # of the 25 GB/s of one NVLink 2 to 4 in one direction
_PCIE_DIRECT, _PCIE_BY_HOST = (8e9, 20e9), (3e9, 9e9)
_XGMI = (40e9, 150e9)
#: Gloo copies GPU tensors to the host and adds them up there.
_GLOO_LOCAL = (0.5e9, 2.5e9)
#: Share of a network's nominal speed that an all-reduce reaches.
_WIRE = (0.5, 0.92)
#: Part of a forward and backward pass behind which gradients can travel: the backward two thirds.
_HIDDEN = 2 / 3


@dataclass(frozen=True)
class Step:
    """Seconds of one optimizer step of one rank: computing, and waiting for gradients that nothing hides."""

    compute_s: float
    wait_s: float

    @property
    def total_s(self) -> float:
        return self.compute_s + self.wait_s

    @property
    def waiting(self) -> float:
        return self.wait_s / self.total_s


def decide_speed(
    devices: Devices,
    inventory: HardwareInventory,
    needs: TrainingNeeds,
    model: ModelFacts | None,
    setting: Setting,
    accumulation: int,
    backend: str,
    interface: str | None,
    fits: bool | None,
) -> Decision:
    """{tokens_per_s: [low, high], step_s: [low, high], waiting_share: [low, high]}, or None with the reason."""
    link = inventory.network.interface(interface) if interface else None
    why = why_unknown(devices, inventory, needs, model, setting, backend, link, fits)
    if why:
        return Decision(value=None, reason=why, confidence="low", facts=["from: tables"])
    slow, fast = (step(devices, inventory, needs, model, setting, accumulation, backend, link, end) for end in (0, 1))
    tokens = setting.micro_batch * accumulation * setting.world * setting.max_length
    low, high = two_figures(tokens / slow.total_s), two_figures(tokens / fast.total_s)
    value = {"tokens_per_s": [low, high], "step_s": [two_figures(fast.total_s), two_figures(slow.total_s)]}
    reason = f"{low:,.0f} to {high:,.0f} tokens/s"
    facts = ["from: tables", f"{_REACHED[0] * 100:g} to {_REACHED[1] * 100:g} % of the peak of {devices.words()}"]
    if devices.kind == "cpu":
        facts[1] = f"{count_of(inventory.cpu.usable_cores, 'core')} by their vector units"
    if setting.world > 1:
        shares = sorted((slow.waiting, fast.waiting))
        value["waiting_share"] = [two_figures(share) for share in shares]
        reason += f"; {share_words(shares)} of a step waiting for gradients"
        if backend != "gloo" and needs.num_nodes == 1:
            over = sorted(
                step(devices, inventory, needs, model, setting, accumulation, "gloo", link, end).waiting
                for end in (0, 1)
            )
            value["waiting_share_gloo"] = [two_figures(share) for share in over]
            facts.append(f"over Gloo {share_words(over)} of a step would be waiting")
    return Decision(value=value, reason=reason, confidence="low", facts=facts)


def why_unknown(
    devices: Devices,
    inventory: HardwareInventory,
    needs: TrainingNeeds,
    model: ModelFacts | None,
    setting: Setting,
    backend: str,
    link: Interface | None,
    fits: bool | None,
) -> str | None:
    """Why no step can be predicted; None where one can."""
    if fits is False:
        return "it does not fit into memory"
    if (devices.kind != "cpu" and not devices.used) or _flops_per_s(devices, inventory, needs, setting, 0) is None:
        return (
            f"no table has the peak of {devices.words()} in {setting.precision}; it is measured from the first steps on"
        )
    if model is None or model.shape is None or (model.matrix_parameters or model.parameters) is None:
        return "not known before the model's size is"
    if setting.world > 1 and bandwidth(devices, inventory, needs, backend, link, 0) is None:
        return "the speed of the network between the machines is not known"
    return None


def _flops_per_s(
    devices: Devices, inventory: HardwareInventory, needs: TrainingNeeds, setting: Setting, end: int
) -> float | None:
    """What one rank reaches."""
    if devices.kind == "cpu":
        return cpu_flops_per_s(inventory, max(1, setting.world // needs.num_nodes), setting.precision, end)
    peaks = [peak_flops_per_s(device.name, setting.precision) for device in devices.used]
    return None if devices.slice is not None or None in peaks else min(peaks) * _REACHED[end]


def step(
    devices: Devices,
    inventory: HardwareInventory,
    needs: TrainingNeeds,
    model: ModelFacts,
    setting: Setting,
    accumulation: int,
    backend: str,
    link: Interface | None,
    end: int,
) -> Step:
    """One optimizer step; only where `why_unknown` is None. `end`: 0 for the slow end of every table, 1 for the fast."""
    shape, matrices = model.shape, model.matrix_parameters or model.parameters
    per_token = train_flops_per_token(
        matrices, shape.layers, shape.hidden, setting.max_length, setting.gradient_checkpointing
    )
    if needs.adapter:  # frozen weights need no gradients of their own: a third of the work less
        per_token *= 2 / 3
    flops_per_s = _flops_per_s(devices, inventory, needs, setting, end)
    micro_s = per_token * setting.micro_batch * setting.max_length / flops_per_s
    compute = micro_s * accumulation
    if setting.world == 1:
        return Step(compute, 0.0)
    speed = bandwidth(devices, inventory, needs, backend, link, end)
    ring = (setting.world - 1) / setting.world
    if setting.strategy == "ddp":
        trained = adapter_parameters(shape, needs.adapter_r or 16) if needs.adapter else model.parameters
        moved, rounds = 2 * ring * trained * 4.0, 1
    else:  # sharded: weights are gathered for forward and backward, gradients scattered, in every micro-batch
        moved, rounds = 3 * ring * model.parameters * 2.0, accumulation
    exposed = max(0.05 * moved / speed, moved / speed - _HIDDEN * micro_s)
    return Step(compute, exposed * rounds)


def bandwidth(
    devices: Devices, inventory: HardwareInventory, needs: TrainingNeeds, backend: str, link: Interface | None, end: int
) -> float | None:
    """Bytes a second per GPU of the slowest way on the ring; None where the network between machines is unknown."""
    indices = {device.index for device in devices.used}
    inside = [_between(item)[end] for item in inventory.links if item.first in indices and item.second in indices]
    local = _GLOO_LOCAL[end] if backend == "gloo" else min(inside, default=_PCIE_BY_HOST[end])
    if needs.num_nodes == 1:
        return local
    if link is None or not link.speed_mbit:
        return None
    wire = link.speed_mbit * 1e6 / 8 * _WIRE[end]  # a ring crosses it once, whatever the number of GPUs behind
    return min(wire, local) if devices.count > 1 else min(wire, _GLOO_LOCAL[end]) if backend == "gloo" else wire


def _between(link: Link) -> tuple[float, float]:
    if link.nvlinks:
        return link.nvlinks * _NVLINK_ONE[0], link.nvlinks * _NVLINK_ONE[1]
    if link.path == "XGMI":
        return _XGMI
    return _PCIE_BY_HOST if link.p2p is False or link.path == "SYS" else _PCIE_DIRECT


def share_words(shares: list[float]) -> str:
    if shares[1] < 0.01:
        return "under 1 %"
    low, high = (f"{share * 100:.2g}" if share >= 0.01 else "under 1" for share in shares)
    return f"{low} %" if low == high else f"{low} to {high} %"
