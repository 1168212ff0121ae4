"""What a text says beside the machine: how many of them, how many ranks, that no GPU is to be used."""

from __future__ import annotations

from typing import Any

from wizard.advice.reasons import asked
from wizard.hardware.reading.read import TextReading
from wizard.questions.needs import TrainingNeeds

#: Nobody joins more machines by hand; a larger number in a text is something else.
MOST_NODES = 4096


def needs_of(reading: TextReading, needs: TrainingNeeds) -> TrainingNeeds:
    """`needs` with what the text adds; what was set stays."""
    update: dict[str, Any] = {}
    nodes = needs.num_nodes
    if nodes == 1 and reading.nodes and 1 < reading.nodes <= MOST_NODES:
        nodes = update["num_nodes"] = reading.nodes
    if reading.main_address and needs.main_address is None:
        update["main_address"] = reading.main_address
    ranks_of_a_cpu = reading.cpu_only and not asked(needs.num_processes_per_node)
    if ranks_of_a_cpu and reading.ranks and reading.ranks >= nodes:
        update["num_processes_per_node"] = reading.ranks // nodes
    return needs.model_copy(update=update)
