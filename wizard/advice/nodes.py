"""Several machines of one job, each with its own inventory: what they share, and where they differ."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from engine.contract.findings import Evidence, Finding
from wizard.advice.reasons import asked
from wizard.advice.versions import nccl_version
from wizard.hardware.inventory import HardwareInventory
from wizard.questions.needs import TrainingNeeds

#: What is compared: (category, confidence, what it is, how to read it, what to do).
_COMPARED: list[tuple[str, str, str, Callable[[HardwareInventory], Any], str]] = [
    ("mixed-gpus", "certain", "GPU models", lambda one: _gpu_names(one), "every step waits for the slowest machine: use machines of one kind"),
    ("nodes-differ", "certain", "numbers of GPUs", lambda one: _gpu_count(one), "each machine takes as many as the one with the fewest"),
    ("nccl-env-differs-between-nodes", "likely", "NCCL versions", lambda one: nccl_version(one), "install the same torch on all machines"),
    ("nodes-differ", "likely", "builds of torch", lambda one: _torch(one), "install the same torch on all machines"),
    ("nodes-differ", "possible", "drivers", lambda one: one.software.drivers.get("nvidia") or one.software.drivers.get("rocm"), "install one driver version on all machines"),
    ("nccl-env-differs-between-nodes", "likely", "NCCL variables", lambda one: _variables(one), "set the same variables on all machines (distributed.env does)"),
    ("nodes-differ", "possible", "speeds of the network", lambda one: _speed(one), "the slowest link sets the pace; check its port and cable"),
]  # fmt: skip


def compared(
    first: HardwareInventory, others: Sequence[HardwareInventory], needs: TrainingNeeds
) -> tuple[HardwareInventory, TrainingNeeds, list[Finding]]:
    """(the machine to decide for, needs with the number of machines and of devices that all have, the differences).

    Machines without a GPU are left out where others have one, unless the person asked for Gloo or for CPUs.
    """
    if not others:
        sign = first.sign("mixed-cpu-gpu")
        return first, needs, [_left_out("text", sign.text)] if sign else []
    everyone, found = [first, *others], []
    on_cpus = needs.backend == "gloo" or needs.num_gpus_per_node == 0
    with_gpus = [one for one in everyone if _gpu_count(one)]
    if with_gpus and len(with_gpus) < len(everyone) and not on_cpus:
        names = [one.host or f"machine {at}" for at, one in enumerate(everyone) if not _gpu_count(one)]
        found.append(_left_out("inventories", f"no GPU: {_names(names)}"))
        everyone = with_gpus
    update: dict[str, Any] = {}
    if needs.num_nodes == 1 or len(with_gpus) == len(everyone) < len(others) + 1:
        update["num_nodes"] = len(everyone)
    counts = [_gpu_count(one) for one in everyone]
    if not asked(needs.num_gpus_per_node) and len(set(counts)) > 1:
        update["num_gpus_per_node"] = min(counts)
    return everyone[0], needs.model_copy(update=update), found + _differences(everyone) + _same_names(everyone)


def _left_out(source: str, text: str) -> Finding:
    return Finding(
        category="mixed-cpu-gpu",
        confidence="certain",
        summary="machines without a GPU are left out: every step would wait for their processors",
        evidence=[Evidence(source=source, text=text)],
        fix=[
            "train on the machines with GPUs alone",
            "distributed.backend: gloo with num_gpus_per_node: 0 joins all of them on their processors, far slower",
        ],
    )


def _differences(everyone: Sequence[HardwareInventory]) -> list[Finding]:
    found = []
    for category, confidence, what, read, fix in _COMPARED:
        groups: dict[Any, list[str]] = {}
        for at, one in enumerate(everyone):
            value = read(one)
            if value is not None:
                groups.setdefault(value, []).append(one.host or f"machine {at}")
        if len(groups) < 2:
            continue
        largest = max(groups.values(), key=len)
        odd = [name for names in groups.values() if names is not largest for name in names]
        found.append(
            Finding(
                category=category,
                confidence=confidence,
                summary=f"the machines have different {what}: {_names(odd)} unlike {_names(largest)}",
                evidence=[
                    Evidence(source="inventories", text=f"{_names(names)}: {_text(value)}")
                    for value, names in list(groups.items())[:6]
                ],
                fix=[fix],
            )
        )
    return found


def _same_names(everyone: Sequence[HardwareInventory]) -> list[Finding]:
    """NCCL takes ranks of equal host names for ranks of one machine and picks transports that cannot work."""
    seen: dict[str, int] = {}
    for one in everyone:
        if one.host:
            seen[one.host] = seen.get(one.host, 0) + 1
    twice = [f"{name}: {count} machines" for name, count in seen.items() if count > 1]
    if not twice:
        return []
    return [
        Finding(
            category="same-hostname-on-two-nodes",
            confidence="likely",
            summary="two machines have the same host name, so NCCL takes their ranks for one machine",
            evidence=[Evidence(source="inventories", text=", ".join(twice[:6]))],
            fix=["give each its own name (hostnamectl set-hostname), or set NCCL_HOSTID differently on each"],
        )
    ]


def _gpu_names(one: HardwareInventory) -> tuple[str, ...]:
    return tuple(sorted({device.name or device.vendor for device in one.accelerators if device.visible}))


def _gpu_count(one: HardwareInventory) -> int:
    return sum(device.visible and not device.mig for device in one.accelerators)


def _torch(one: HardwareInventory) -> str | None:
    return one.software.torch.version if one.software.torch else one.software.packages.get("torch")


def _variables(one: HardwareInventory) -> tuple[str, ...]:
    """What both ends must agree on; names of interfaces may differ from machine to machine."""
    local = ("NCCL_SOCKET_IFNAME", "NCCL_IB_HCA", "NCCL_DEBUG", "NCCL_DEBUG_FILE", "NCCL_TOPO_FILE", "NCCL_HOSTID")
    return tuple(f"{key}={value}" for key, value in sorted(one.environment.items()) if key.startswith("NCCL_") and key not in local)


def _speed(one: HardwareInventory) -> int | None:
    interface = one.network.interface(one.network.default_interface) if one.network.default_interface else None
    return interface.speed_mbit if interface else one.network.peer_speed_mbit


def _names(names: list[str]) -> str:
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def _text(value: Any) -> str:
    if isinstance(value, tuple):
        return (".".join if value and isinstance(value[0], int) else ", ".join)(map(str, value)) or "none"
    return str(value)
