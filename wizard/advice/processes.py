"""How many ranks each node runs, and with how many threads."""

from __future__ import annotations

from engine.contract.findings import Decision
from wizard.advice.devices import Devices
from wizard.advice.reasons import asked, count_of, kept, other
from wizard.hardware.inventory import HardwareInventory
from wizard.questions.needs import TrainingNeeds

#: Fewer cores than this on a socket are not worth a process of their own.
_CORES_WORTH_A_PROCESS = 8


def decide_processes(devices: Devices, inventory: HardwareInventory, needs: TrainingNeeds) -> Decision:
    """Ranks per node: one for each GPU; on a CPU one, unless several were asked for or sockets make it worth."""
    wanted = needs.num_processes_per_node
    if asked(wanted):
        if devices.count:
            return kept(int(wanted), f"{count_of(devices.count, 'GPU')} are used, and each wants exactly one process")
        return kept(
            int(wanted), _shared_cores(int(wanted), inventory) if int(wanted) > 1 else "one process uses all cores"
        )
    if devices.count:
        return (
            Decision(
                value=devices.count,
                confidence="high",
                reason="one process for each GPU: NCCL fails with two on one device",
                facts=[f"{count_of(devices.count, 'GPU')} in use"],
            )
            if devices.count > 1
            else Decision(value=1, confidence="high", reason="one GPU, one process")
        )
    single = needs.strategy == "single" or needs.backend == "none"
    distributed = (asked(needs.backend) or asked(needs.strategy)) and not single
    cores, sockets = inventory.cpu.usable_cores, inventory.cpu.sockets or 1
    if needs.num_nodes > 1:
        return Decision(
            value=1,
            confidence="high",
            reason=f"one process on each machine: it computes with all {f'{cores} ' if cores_known(inventory) else ''}cores, "
            "and only machines have to talk to each other",
        )
    if distributed:
        return Decision(
            value=2,
            confidence="high",
            reason=f"{needs.strategy if asked(needs.strategy) else needs.backend} was asked for, which takes at "
            f"least two; {_shared_cores(2, inventory)}",
            alternative=other(1, "speed is what counts"),
        )
    if not cores_known(inventory):
        return Decision(
            value=sockets,
            confidence="low",
            reason=f"{count_of(sockets, 'socket')}: a process on each works in its own memory"
            if sockets > 1
            else "one process computes with all cores; two on one machine would share the same ones",
            alternative=other(2, "the machine has two sockets or NUMA nodes") if sockets == 1 else other(1, "memory is short"),
        )
    if sockets > 1 and cores >= sockets * _CORES_WORTH_A_PROCESS and not single:
        return Decision(
            value=sockets,
            confidence="fair",
            reason=f"{sockets} sockets of {cores // sockets} cores: a process on each works in its own "
            "memory instead of reaching across",
            facts=[f"{len(inventory.cpu.numa) or sockets} NUMA nodes"],
            alternative=other(1, "the model is too large to be held once per socket"),
        )
    return Decision(
        value=1,
        confidence="high",
        reason=f"one process computes with all {count_of(cores, 'core')}; two on one machine "
        "would share the same cores and only add communication",
        alternative=other(2, "you want to try out distributed training here"),
    )


def decide_threads(processes: int, inventory: HardwareInventory, needs: TrainingNeeds) -> Decision:
    """CPU threads of each rank: the usable cores shared out."""
    cores = inventory.cpu.usable_cores
    if not cores_known(inventory) and not asked(needs.threads_per_process):
        return Decision(
            value=None,
            confidence="low",
            reason="physical cores / ranks on the machine; the text does not say how many cores there are",
        )
    fair_share = max(1, cores // processes)
    facts = [f"usable cores: {cores}", f"ranks on this machine: {processes}"]
    if inventory.cpu.quota_cores:
        facts.append(f"the control group allows {inventory.cpu.quota_cores:g} cores")
    if asked(needs.threads_per_process):
        wanted = int(needs.threads_per_process)
        return kept(wanted, f"{count_of(cores, 'core')} / {processes} = {fair_share}", facts)
    shared = f"{count_of(cores, 'usable core')} / {count_of(processes, 'rank')} = {fair_share}"
    reason = f"{shared}; without a number each rank would get 1"
    if processes > cores:
        reason = f"{processes} ranks share {count_of(cores, 'core')}, so each gets 1"
    return Decision(value=fair_share, reason=reason, confidence="high", facts=facts)


def cores_known(inventory: HardwareInventory) -> bool:
    """Pasted text often names the GPUs and not the processor."""
    return not inventory.from_text or bool(inventory.cpu.physical_cores or inventory.cpu.logical_cores)


def _shared_cores(processes: int, inventory: HardwareInventory) -> str:
    cores = inventory.cpu.usable_cores
    if not cores_known(inventory):
        return f"{processes} processes share the machine's cores; each gets its part of them"
    return (
        f"{processes} processes share the same {count_of(cores, 'core')}, "
        "so they show how several machines work together "
        "but are not faster than one"
    )
