"""Which of a node's GPUs to take: those of one speed, those that are joined best, not the one a screen hangs on."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

from engine.contract.findings import Alternative, Finding
from engine.contract.flops import peak_flops_per_s
from wizard.advice.reasons import finding, gib, other, short_name
from wizard.hardware.inventory import Accelerator, HardwareInventory, Link
from wizard.hardware.models import known_model

#: Paths from far to near, as `nvidia-smi topo -m` defines them.
_NEARNESS = {"SYS": 1, "NODE": 2, "PHB": 3, "PCI": 3, "PCIE": 3, "PXB": 4, "PIX": 5, "XGMI": 20}
#: A set of GPUs is looked at in every combination up to this many combinations; beyond it grows from the best pair.
_COMBINATIONS = 500
#: A card on which this share of the memory is taken by a screen is left out where others have it free.
_SHORT_OF_MEMORY = 0.8
#: A card with less of its memory free is in somebody else's use.
_TAKEN = 0.5


def nearness(link: Link | None) -> int:
    """Larger is better; NVLink before XGMI before any PCIe path, direct access before none."""
    if link is None:
        return 0
    if link.nvlinks:
        return 100 + link.nvlinks
    return _NEARNESS.get(link.path, 0) * 2 + (link.p2p is not False)


def best_connected(
    devices: list[Accelerator], wanted: int, inventory: HardwareInventory
) -> tuple[list[Accelerator], str]:
    """(devices in order, words on why) of `wanted` devices whose slowest link is fastest; the first where all tie."""
    if wanted >= len(devices) or wanted < 2:
        freest = sorted(devices, key=lambda device: (-_free_share(device), device.index))[:wanted]
        return sorted(freest, key=lambda device: device.index), ""
    ways = {frozenset((link.first, link.second)): nearness(link) for link in inventory.links}

    def score(chosen: tuple[Accelerator, ...]) -> tuple[int, int, float]:
        pairs = [ways.get(frozenset((a.index, b.index)), 0) for a, b in combinations(chosen, 2)]
        return min(pairs), sum(pairs), min(_free_share(device) for device in chosen)

    choices = _choices(devices, wanted, ways)
    best = max(choices, key=lambda chosen: (score(chosen), [-device.index for device in chosen]))
    first = tuple(devices[:wanted])
    link = inventory.link(best[0].index, best[1].index)
    why = ""
    if score(best) > score(first) and link is not None:
        names = " and ".join(f"GPU {device.index}" for device in best) if wanted == 2 else "these"
        why = f"; {names} are joined best ({link.path})"
    return list(best), why


def _choices(devices: list[Accelerator], wanted: int, ways: dict) -> list[tuple[Accelerator, ...]]:
    """All combinations where they are few; else what grows from each pair by the nearest next device."""
    count = 1
    for step in range(wanted):
        count = count * (len(devices) - step) // (step + 1)
    if count <= _COMBINATIONS:
        return list(combinations(devices, wanted))
    grown = []
    for start in devices:
        chosen = [start]
        while len(chosen) < wanted:
            rest = [device for device in devices if device not in chosen]
            chosen.append(
                max(rest, key=lambda device: min(ways.get(frozenset((device.index, c.index)), 0) for c in chosen))
            )
        grown.append(tuple(sorted(chosen, key=lambda device: device.index)))
    return grown


def _free_share(device: Accelerator) -> float:
    """Free memory in steps of a tenth, so that a few MiB decide nothing; 1 where it is not known."""
    if not device.memory_bytes or device.free_bytes is None:
        return 1.0
    return round(device.free_bytes / device.memory_bytes, 1)


def without_display(chosen: list[Accelerator], reason: str, alternative: Alternative | None):
    """Leave out the card a screen takes memory of, where at least two others have theirs free."""
    screens = [
        device
        for device in chosen
        if device.display and device.memory_bytes and (device.free_bytes or device.memory_bytes) < device.memory_bytes * _SHORT_OF_MEMORY
    ]
    rest = [device for device in chosen if device not in screens]
    if not screens or len(rest) < 2:
        return chosen, reason, alternative
    card = screens[0]
    return (
        rest,
        f"{len(rest)} x {short_name(rest[0])}; GPU {card.index} drives the screen and has only "
        f"{gib(card.free_bytes or 0)} of {gib(card.memory_bytes or 0)} GiB free, which would bind the others",
        other(len(chosen), "the desktop is stopped, or the micro-batch is small enough for that card"),
    )


def without_taken(chosen: list[Accelerator], reason: str, alternative: Alternative | None):
    """Leave out cards whose memory others hold, where the rest is free: the fullest card binds the micro-batch of all."""
    taken = [device for device in chosen if _free_share(device) < _TAKEN]
    rest = [device for device in chosen if device not in taken]
    if not taken or not rest or any(_free_share(device) < _SHORT_OF_MEMORY for device in rest):
        return chosen, reason, alternative
    names = ", ".join(f"GPU {device.index}" for device in taken)
    return (
        rest,
        f"{len(rest)} x {short_name(rest[0])}; {names} left out: other processes hold most of the memory there",
        other(len(chosen), "those processes end"),
    )


def same_kind(whole: list[Accelerator], fits: Callable[[int], bool | None], findings: list[Finding]):
    """(devices, reason, alternative): all of them, or the faster ones where slower ones would set the pace."""
    groups = _kinds(whole)
    memory = min((device.memory_bytes or 0) for device in whole)
    if len(groups) == 1:
        size = f" with {gib(memory)} GiB" + (" each" if len(whole) > 1 else "") if memory else ""
        return whole, f"{len(whole)} x {short_name(whole[0])}{size}", None
    rank = ranking(whole)
    best = max(groups, key=lambda group: (rank(group[0]), len(group)))
    slower = [device for device in whole if device not in best]
    findings.append(
        finding(
            "mixed-gpus",
            "certain",
            "different GPUs: every step waits for the slowest",
            "inventory",
            ", ".join(f"GPU {device.index}: {short_name(device)}" for device in whole),
            [
                "train on the faster kind alone where the model fits",
                "else give all the same micro-batch and accept the slower pace",
            ],
        )
    )
    enough = fits(best[0].memory_bytes or 0)
    names = ", ".join(sorted({short_name(device) for device in slower}))
    indices = [device.index for device in best]
    alone = enough is not False and _faster_alone(best, whole)
    if alone and (enough or len(best) > 1 or _holds_back(best, slower)):
        reason = f"{len(best)} x {short_name(best[0])} alone: with {names} beside it every step would wait for the slower card"
        reason += "" if enough else " (whether the model fits is not known)"
        return best, reason, other(len(whole), "the model does not fit on the faster kind alone")
    if alone:
        reason = f"all {len(whole)} until the model is known; {short_name(best[0])} alone is faster where the model fits on it"
        return whole, reason, other(indices, f"the model fits there: leave out {names}, which holds it back")
    reason = f"all {len(whole)}, though they differ: " + (
        "the model does not fit on the faster kind alone"
        if enough is False
        else "together they are faster than the best kind alone"
    )
    return whole, reason, other(indices, "the model fits there and the slower cards hold it back")


def _kinds(whole: list[Accelerator]) -> list[list[Accelerator]]:
    """Grouped by what they are: names that mean one model are one kind. A device without a name is no other kind."""
    groups: dict[object, list[Accelerator]] = {}
    for device in whole:
        model = known_model(device.name)
        size = round((device.memory_bytes or 0) / 2**32) if model and len(model.memory_gib) > 1 else 0
        groups.setdefault((model.name if model else device.name, size), []).append(device)
    nameless = groups.pop((None, 0), None)
    if nameless is not None:
        if len(groups) > 1:
            return [*groups.values(), nameless]
        same = [*next(iter(groups.values()), []), *nameless]
        return [sorted(same, key=lambda device: device.index)]
    return list(groups.values())


def _holds_back(best: list[Accelerator], slower: list[Accelerator]) -> bool:
    """Whether the slower cards have so little memory that even a sharded model gains next to nothing."""
    sizes = [device.memory_bytes for device in slower]
    most = best[0].memory_bytes
    return bool(most) and None not in sizes and min(sizes) * 2 <= most


def _faster_alone(best: list[Accelerator], everyone: list[Accelerator]) -> bool:
    """All together run at n times the slowest; unknown speeds count as: the newest kind alone."""
    speeds = [peak_flops_per_s(device.name, "bf16") or peak_flops_per_s(device.name, "fp16") for device in everyone]
    if None in speeds:
        return len(best) * 2 >= len(everyone)
    mine = peak_flops_per_s(best[0].name, "bf16") or peak_flops_per_s(best[0].name, "fp16")
    return len(best) * mine >= min(speeds) * len(everyone)


def ranking(devices: list[Accelerator]) -> Callable[[Accelerator], tuple]:
    """A sort key for strength: the makers' peaks where all are known, else the generation; then memory."""
    all_known = all(peak_flops_per_s(device.name, "fp16") for device in devices)

    def key(device: Accelerator) -> tuple:
        first = (peak_flops_per_s(device.name, "fp16"),) if all_known else device.capability or (0, 0)
        return (first, device.memory_bytes or 0, -device.index)

    return key
