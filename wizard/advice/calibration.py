"""What one real step on this machine taught about memory: kept as a value, and used by every later estimate.

Weights, gradients and optimizer follow from the number of parameters alone. What tables know less well is what the
process takes before there is a model, and how much more than the tensors themselves the allocator holds on to; one
measured step gives both.
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict, Field, ValidationError

#: Terms that the allocator's ways act on: what comes and goes within a step.
TRANSIENT = ("activations", "logits", "heap")
#: Bytes the process grows by in its first step whatever the model is: threads, kernels' workspaces, lazy imports.
_GROWS = {"cpu": 30e6}
#: What the allocator keeps differs between trainings on one machine (by 0.08 of the estimate, one standard deviation
#: over 20 trainings), so that one step tells of the machine only what lies beyond half of that.
_NOISE = 0.04
#: A factor beyond these means that something else was measured than the step that was estimated.
_LEAST, _MOST = 0.3, 3.0


class MemoryCalibration(BaseModel):
    """Valid for one kind of device with one version of torch; `date` and `torch` are said with every estimate."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: str = Field(description="cpu, nvidia, amd, ...: what it was measured on")
    date: str = Field(description="YYYY-MM-DD")
    torch: str | None = Field(None, description="torch's version")
    overhead_bytes: float = Field(gt=0, description="the process with its libraries and data, whatever the model is")
    transient: float = Field(gt=0, description="what comes and goes within a step, measured over estimated")

    def applied(self, terms: Mapping[str, float]) -> dict[str, float]:
        """The terms of an estimate, corrected."""
        corrected = {name: size * self.transient if name in TRANSIENT else size for name, size in terms.items()}
        return corrected | {"overhead": self.overhead_bytes}

    def fits(self, kind: str, torch: str | None) -> bool:
        """Whether it was measured on such a device with this torch; an unknown version is taken to be the same."""
        return self.kind == kind and (self.torch is None or torch is None or self.torch == torch)

    @property
    def source(self) -> str:
        return f"from: measured on {self.date}" + (f" with torch {self.torch}" if self.torch else "")


def calibrate(
    terms: Mapping[str, float], peak_bytes: float, before_bytes: float, *, kind: str, date: str, torch: str | None = None
) -> MemoryCalibration:
    """From the terms estimated for a step without calibration, and what the step really took.

    `peak_bytes`: the highest a rank took from loading the model to the end of a step after the first (the optimizer's
    state is made in the first); on a GPU of its allocator and context, on a CPU resident. `before_bytes`: what it took
    just before the model was loaded. Raises ValueError when the two cannot belong to that step.
    """
    lasting = sum(size for name, size in terms.items() if name not in TRANSIENT and name != "overhead")
    transient = sum(terms.get(name, 0.0) for name in TRANSIENT)
    if transient <= 0 or before_bytes <= 0:
        raise ValueError("nothing of the step's own was estimated, so nothing can be learned from it")
    overhead = before_bytes + _GROWS.get(kind, 0.0)
    factor = (peak_bytes - overhead - lasting) / transient
    if not _LEAST <= factor <= _MOST:
        raise ValueError(
            f"{peak_bytes:,.0f} bytes at the highest and {before_bytes:,.0f} before do not belong to this step: "
            f"what comes and goes in it would be {factor:.2f} of the estimate"
        )
    learned = factor - max(-_NOISE, min(_NOISE, factor - 1.0))
    return MemoryCalibration(kind=kind, date=date, torch=torch, overhead_bytes=overhead, transient=learned)


def dump_calibration(calibration: MemoryCalibration) -> str:
    return calibration.model_dump_json(indent=2) + "\n"


def parse_calibration(text: str) -> MemoryCalibration:
    """Raises ValueError naming what is wrong with the text."""
    try:
        return MemoryCalibration.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        raise ValueError(f"calibration: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None
