"""What differs between tasks: the data, the model, the loss, the metrics, the look at the result. Nothing else does."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from engine.contract.preset import Preset

if TYPE_CHECKING:
    import numpy
    import torch

Report = Callable[[str, float | None], None]
#: The module of each task that the loop trains. `script` is none of them: its loop is its own.
_MODULES = {"llm-pretrain": "llm", "llm-sft": "llm", "text-classification": "text_classification"}


class Examples(Protocol):
    """One split. An example is what a batch counts: a sequence, or a text with its label.

    `rows`: rows of the data they came from; `tokens` and `targets`: non-padding inputs, and what the loss is averaged
    over (target tokens, or 1 for a labelled text), of each example (int64).
    """

    rows: int
    tokens: numpy.ndarray
    targets: numpy.ndarray

    def __len__(self) -> int: ...

    def collate(self, indices: Iterable[int]) -> dict[str, torch.Tensor]:
        """A batch of these examples; `labels` has them along its first dimension, and -100 where there is no target."""
        ...

    def step_indices(self, seed: int, step: int, global_batch: int) -> numpy.ndarray:
        """The examples (int64) of optimizer step `step`, from 0: a function of these numbers alone.

        Consecutive ones are computed together, `micro_batch` on a rank.
        """
        ...


class TaskData(Protocol):
    """Prepared data. `summary` has at least `warnings` and `fingerprint` (hexadecimal)."""

    train: Examples
    valid: Examples | None
    packing: bool
    max_length: int
    summary: dict[str, Any]


class Task(Protocol):
    """A task is a module with these functions."""

    def prepare_data(self, preset: Preset, folder: Path, progress: Report) -> None:
        """Read the data of `preset` into `folder`, whole or not at all; called by one rank of each folder.

        Writes the tokenizer to `folder/tokenizer`. Raises DataError, ModelError, DiskError.
        """

    def open_data(self, folder: Path) -> TaskData:
        """What `prepare_data` wrote."""

    def describe_data(self, data: TaskData) -> str:
        """One line for a person who wants to know what was read."""

    def build_model(self, preset: Preset, tokenizer: Any, data: TaskData) -> Any:
        """The model to train, not wrapped yet. Raises ModelError."""

    def loss_sum(self, model: torch.nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        """Sum of the losses over the batch's targets, in fp32; a scalar with its graph."""

    def evaluate(self, model: torch.nn.Module, batch: dict[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        """(loss sum, counts) of one batch. The counts, a vector of fixed length, are added up over batches and ranks;
        what stands at label -100 must not be in them."""

    def metrics(self, mean_loss: float, counts: list[float]) -> dict[str, float | None]:
        """What evaluation reports beside the loss, from the counts over all ranks."""

    def finish_model(self, model: Any, data: TaskData) -> None:
        """Last changes to the model's configuration before it is saved."""

    def look(self, training: Any, tokenizer: Any) -> None:
        """Write `generation` events: what the trained model does with a held-out example. Rank 0 alone enters."""


def find_task(name: str) -> Task:
    """The module of a task of the preset. Raises KeyError for one that the loop does not train."""
    return importlib.import_module(f"engine.tasks.{_MODULES[name]}")
