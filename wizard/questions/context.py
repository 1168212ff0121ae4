"""What a default, a condition or a check may look at. Facts come from outside; nothing here reads anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from wizard.questions.question import Answer

if TYPE_CHECKING:
    from wizard.advice.recommend import Recommendation
    from wizard.facts.data import DataFacts
    from wizard.facts.model import ModelFacts
    from wizard.hardware.inventory import HardwareInventory


@dataclass(frozen=True)
class Context:
    """The state of the questions seen from one of them: `values` holds the answers to those before it.

    `starter` and `preset` are flat (dotted key: value). The starter is the training an empty machine can do at once;
    `preset` is what the person began from: a preset that was `opened`, values given with `--set`, or both.
    """

    inventory: HardwareInventory
    starter: Mapping[str, Any]
    preset: Mapping[str, Any] = field(default_factory=dict)
    opened: bool = False
    values: Mapping[str, Any] = field(default_factory=dict)
    model: ModelFacts | None = None
    data: DataFacts | None = None
    recommendation: Recommendation | None = None

    @property
    def gpus(self) -> int:
        """Accelerators of this machine that a rank can have to itself."""
        return sum(1 for device in self.inventory.accelerators if device.visible)

    @property
    def cores(self) -> int:
        return self.inventory.cpu.usable_cores

    @property
    def interfaces(self) -> list[str]:
        """Network interfaces that could lead to other machines."""
        return [item.name for item in self.inventory.network.interfaces if item.up and item.kind != "loopback"]

    @property
    def uses_starter(self) -> bool:
        """The small model from scratch of the starter is what is trained, and no preset was opened."""
        return not self.opened and self.values.get("model.source") == "written"

    @property
    def on_cpu(self) -> bool:
        """The training is to run on the CPU: nothing else is here, or it was chosen."""
        return self.gpus == 0 or self.values.get("distributed.num_gpus_per_node") == 0

    @property
    def ranks(self) -> int | None:
        """Ranks over all machines as answered or recommended; None while that is open."""
        nodes = self.values.get("distributed.num_nodes") or 1
        if self.on_cpu:
            local = self.values.get("distributed.num_processes_per_node")
        else:
            local = self.values.get("distributed.num_gpus_per_node")
        return local * nodes if isinstance(local, int) else None

    @property
    def written_config(self) -> Any:
        """The configuration of a model from scratch that the opened preset, or else the starter, has."""
        return self.preset.get("model.from_config") or self.starter.get("model.from_config")

    def setting(self, key: str) -> Any:
        """What the recommendation puts for a preset key; None when it has no opinion or knows too little."""
        value = self.recommendation.settings.get(key) if self.recommendation else None
        return None if value == "auto" else value

    def reason(self, decision: str) -> str:
        """Why the recommendation decided so; empty when it did not."""
        found = self.recommendation.decisions.get(decision) if self.recommendation else None
        return found.reason if found else ""

    def given(self, key: str, starter: bool = True) -> Answer | None:
        """The answer that the opened preset, or the starter where it applies, already gives."""
        if self.preset.get(key) not in (None, "auto"):
            return self.from_preset(self.preset[key])
        if starter and self.uses_starter and self.starter.get(key) not in (None, "auto"):
            return Answer(self.starter[key], "default", "as in the quickstart")
        return None

    def from_preset(self, value: Any) -> Answer:
        """An answer that stands in what the person began from."""
        return Answer(value, "preset", "as in the preset you opened") if self.opened else Answer(value, "yours", "as you set it")

    def recommended(self, key: str, decision: str, otherwise: Any = None) -> Answer:
        """The recommendation's value with its reason, or else a plain default.

        Before there is a recommendation the value is None: what the advice will say must not be a wish it has to obey.
        """
        if self.recommendation is None:
            return Answer(None, "recommended")
        value = self.setting(key)
        if value is None:
            return Answer(otherwise, "default")
        return Answer(value, "recommended", self.reason(decision))
