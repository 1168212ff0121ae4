"""How many devices a text means, which model they are, and how they are joined."""

from __future__ import annotations

import re
from itertools import combinations
from typing import TYPE_CHECKING

from wizard.hardware.inventory import Accelerator, Link
from wizard.hardware.models import Model, known_model
from wizard.hardware.reading.lines import Fact, Group

if TYPE_CHECKING:
    from wizard.hardware.reading.merge import Facts

#: Nobody has more in one machine; a larger number in a text is something else.
MOST = 64


def groups_of(facts: Facts) -> list[tuple[Group, Fact]]:
    """Groups a text describes, the same one said twice counted once (the larger number stands)."""
    found: dict[str, tuple[Group, Fact]] = {}
    nodes = facts.value("nodes") or 1
    for fact in facts.all:
        if fact.place != ("group",):
            continue
        group: Group = fact.value
        count = group.count
        if count and not group.per_node and nodes > 1 and not _is_a_board(group.name, count):
            count = count // nodes if count % nodes == 0 else count
        group = Group(group.name, count, group.memory_bytes)
        before = found.get(group.name)
        if before is None or (group.count or 0) > (before[0].count or 0):
            memory = group.memory_bytes or (before[0].memory_bytes if before else None)
            found[group.name] = (Group(group.name, group.count, memory), fact)
    return _without_vaguer(list(found.values()))


def _is_a_board(name: str, count: int) -> bool:
    """Boards with soldered GPUs hold four or eight (a few sixteen): that many are what each node has, not the sum."""
    model = known_model(name)
    return model is not None and model.joined_by == "switch" and count in (4, 8, 16)


def _without_vaguer(groups: list[tuple[Group, Fact]]) -> list[tuple[Group, Fact]]:
    """`H100` beside `H100 SXM5` is the same card said with fewer words."""
    kept = []
    for group, fact in groups:
        twins = [other for other, _ in groups if other is not group and other.name.startswith(group.name)]
        if not (twins and (group.count is None or any(t.count in (group.count, None) for t in twins))):
            twin = next((o for o, _ in groups if o is not group and group.name.startswith(o.name) and group.count is None), None)
            kept.append((Group(group.name, twin.count if twin else group.count, group.memory_bytes or (twin.memory_bytes if twin else None)), fact))
    return kept


def is_cpu_only(facts: Facts) -> bool:
    """A configuration's word is final; `CPU-only` in a sentence that names GPUs as well is about another machine."""
    fact = facts.first.get(("cpu_only",))
    if fact is None:
        return False
    return fact.source != "description" or not (groups_of(facts) or any(place[0] == "gpu" for place in facts.first))


def count_devices(facts: Facts, devices: dict[int, Accelerator], unknown: dict[str, str]) -> None:
    """Add the devices that a text counts but does not list."""
    if is_cpu_only(facts):
        devices.clear()
        return
    groups = groups_of(facts)
    if differing_machines(facts):
        fewest = min(group.count or 1 for group, _ in groups)
        first, line = groups[0]
        groups = [(Group(first.name, fewest, first.memory_bytes), line)]
        unknown["accelerators.machines"] = "the machines differ; the first is described here, with as many GPUs as all have"
    for group, fact in groups:
        model = known_model(group.name)
        assert model is not None  # groups are made from models
        mine = [device for device in devices.values() if _same(device, model)]
        nameless = [device for device in devices.values() if device.name is None]
        have = len(mine) + (len(nameless) if len(groups) == 1 else 0)
        wanted = _wanted(group, model, have, fact, facts, unknown)
        said: Group = fact.value
        if not said.per_node and (facts.value("nodes") or 1) > 1:
            unknown["accelerators.per_node"] = f"`{fact.line}` does not say whether on each; {wanted} on each are planned for"
        if wanted > MOST:
            continue
        for _ in range(wanted - have):
            index = max(devices, default=-1) + 1
            devices[index] = Accelerator(index=index, vendor=model.vendor, name=group.name, memory_bytes=group.memory_bytes)
    counted = facts.value("gpu_count")
    if counted and not groups and len(devices) < counted <= MOST:
        vendor = next((device.vendor for device in devices.values()), "nvidia")
        for index in range(counted):
            devices.setdefault(index, Accelerator(index=index, vendor=vendor))


def differing_machines(facts: Facts) -> bool:
    """`A has a 3090, B has a 3080`: as many kinds as machines, none of them said to be in each."""
    groups, nodes = groups_of(facts), facts.value("nodes") or 1
    each = re.search(r"\beach\b|\bper (?:node|machine)\b", " ".join(fact.line.text for _, fact in groups), re.I)
    listed = any(place[0] == "gpu" for place in facts.first)
    return nodes > 1 and len(groups) == nodes and not each and not listed


def _same(device: Accelerator, model: Model) -> bool:
    found = known_model(device.name)
    return found is not None and (found is model or found.name.startswith(model.name) or model.name.startswith(found.name))


def _wanted(group: Group, model: Model, have: int, fact: Fact, facts: Facts, unknown: dict[str, str]) -> int:
    """Devices of a group, as software counts them."""
    count = group.count if group.count is not None else facts.value("gpu_count")
    if count is None and (facts.value("ranks") or 0) > 1:  # a configuration beside it says how many were planned
        count = facts.value("ranks") // (facts.value("nodes") or 1)
    if count is None:
        if have:
            return have
        if model.dies == 2 and model.vendor == "amd":
            # these cards are sold in nodes of four; a text about topology that names no number means such a node
            unknown["accelerators.count"] = f"not in the text; a node of four {model.name} cards (eight devices) is assumed"
            return 8
        unknown["accelerators.count"] = f"not in the text ({fact.line}); one is assumed"
        return 1
    if model.dies == 2 and count <= 4 and have <= count:
        unknown["accelerators.count"] = f"{count} cards are taken to be {count * 2} devices, as each card has two"
        return count * 2
    return count


def name_devices(facts: Facts, devices: list[Accelerator], unknown: dict[str, str]) -> None:
    """Give listed devices without a name the one model that the text describes."""
    groups = groups_of(facts)
    nameless = [device for device in devices if device.name is None]
    if nameless and len(groups) == 1:
        for device in nameless:
            device.name, device.memory_bytes = groups[0][0].name, device.memory_bytes or groups[0][0].memory_bytes
    for device in devices:
        group = next((group for group, _ in groups if group.name == device.name), None)
        if group and device.memory_bytes is None:
            device.memory_bytes = group.memory_bytes
    if [device for device in devices if device.name is None]:
        unknown["accelerators.name"] = "the text does not name the model; `nvidia-smi -L` prints it"


def join_devices(facts: Facts, devices: list[Accelerator], unknown: dict[str, str]) -> list[Link]:
    """Links that a matrix lists; where the text only says NVLink or P2P, what follows from it for these cards."""
    here = {device.index for device in devices}
    links = {}
    for first, second in facts.keys("link", 2):
        if first in here and second in here:
            path = facts.value("link", first, second, "path")
            p2p = facts.value("link", first, second, "p2p")
            if path:
                links[first, second] = Link(first=first, second=second, path=path, p2p=p2p)
            elif p2p is not None:
                links[first, second] = Link(first=first, second=second, path="PCI", p2p=p2p)
    nvlink, models = facts.value("nvlink"), [known_model(device.name) for device in devices]
    if not links and len(devices) > 1 and devices[0].vendor == "nvidia":
        full = models[0].nvlinks if models[0] is not None and len(set(models)) == 1 else None
        switched = models[0] is not None and models[0].joined_by == "switch"
        if full and nvlink is not False and (switched or (nvlink and len(devices) == 2)):
            for first, second in combinations(sorted(here), 2):
                links[first, second] = Link(first=first, second=second, path=f"NV{full}")
            unknown["links"] = f"not listed; NV{full} between all is what these cards have. `nvidia-smi topo -m` prints it"
        else:
            unknown["links"] = "`nvidia-smi topo -m` prints them"
    peers = facts.value("p2p")
    for (first, second), link in links.items():
        chosen = [known_model(device.name) for device in devices if device.index in (first, second)]
        if link.p2p is None and not link.nvlinks:
            if peers is not None:
                link.p2p = peers
            elif any(model is not None and model.pcie_p2p is False for model in chosen):
                link.p2p = False
    return list(links.values())
