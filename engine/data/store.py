"""Prepared sequences on disk, and batches from them.

A folder holds `summary.json`, the tokenizer, and for `train` (and `valid`) flat arrays: all tokens and all labels one
sequence after the other (int32), where sequences and documents begin (int64), and the targets of each sequence. The
arrays are memory-mapped, so the ranks of a machine share one copy, and a batch is a few slices.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.contract.atomic import write_text_atomic
from engine.data.order import step_indices
from engine.data.packing import Layout
from engine.data.tokenize import NO_TARGET
from engine.errors import DataError

if TYPE_CHECKING:
    import torch

SUMMARY = "summary.json"
#: Matrix kernels like lengths that divide by this.
_MULTIPLE = 8
#: Tokens moved at once while sequences are written.
_CHUNK = 4_000_000


class SequenceSet:
    """The sequences of one split.

    `rows` counts the rows of the data they came from; `tokens` and `targets` are the inputs and the target tokens of
    each sequence (int64).
    """

    def __init__(self, folder: Path, rows: int, max_length: int, pad_id: int):
        self.rows, self.max_length, self.pad_id = rows, max_length, pad_id
        self._tokens = np.load(folder / "tokens.npy", mmap_mode="r")
        self._labels = np.load(folder / "labels.npy", mmap_mode="r")
        self._edges = np.load(folder / "sequences.npy")
        self._documents = np.load(folder / "documents.npy", mmap_mode="r")
        self.tokens = np.diff(self._edges)
        self.targets = np.load(folder / "targets.npy")

    def __len__(self) -> int:
        return len(self.tokens)

    def step_indices(self, seed: int, step: int, global_batch: int) -> np.ndarray:
        """See `engine.data.order.step_indices`."""
        return step_indices(len(self), seed, step, global_batch)

    def collate(self, indices: Iterable[int]) -> dict[str, torch.Tensor]:
        """A batch: `input_ids`, `position_ids`, `labels`, each int64 [B, L].

        L is the longest of the batch, rounded up to a multiple of 8 but not beyond the longest sequence allowed.
        Padding is on the right, with label -100 and positions that go on counting, so that it looks like the end of
        the last document: causal attention makes it harmless, and a batch without packed documents needs no mask.
        `position_ids` start at 0 in each packed document. `labels[t]` is the target of position t (already shifted,
        never across documents). There is no attention mask: transformers tells packed documents apart by
        `position_ids`, provided that the model is called with `use_cache=False`.
        """
        import torch

        chosen = np.fromiter(indices, dtype=np.int64)
        longest = int(self.tokens[chosen].max())
        length = max(longest, min(-(-longest // _MULTIPLE) * _MULTIPLE, self.max_length))
        batch = np.empty((3, len(chosen), length), dtype=np.int64)
        counting = np.arange(length, dtype=np.int64)
        for row, index in enumerate(chosen):
            start, end = int(self._edges[index]), int(self._edges[index + 1])
            size = end - start
            batch[0, row, :size] = self._tokens[start:end]
            batch[0, row, size:] = self.pad_id
            batch[2, row, :size] = self._labels[start:end]
            batch[2, row, size:] = NO_TARGET
            batch[1, row] = counting
            first, last = np.searchsorted(self._documents, (start + 1, end))
            for begin in (self._documents[first:last] - start).tolist():
                batch[1, row, begin:] = counting[: length - begin]
        inputs, positions, labels = torch.from_numpy(batch)
        return {"input_ids": inputs, "position_ids": positions, "labels": labels}


@dataclass(frozen=True)
class LlmData:
    """Prepared data of a causal language model. `summary` is what a person may want to know about it."""

    train: SequenceSet
    valid: SequenceSet | None
    packing: bool
    max_length: int
    summary: dict[str, Any]


def open_llm_data(folder: Path) -> LlmData:
    """What `prepare_llm_data` wrote to `folder`. Raises DataError when it is not there or not whole."""
    try:
        summary = json.loads((folder / SUMMARY).read_text(encoding="utf-8"))
        sets = {split: SequenceSet(folder / split, summary[f"{split}_rows"], summary["max_length"], summary["pad_id"])
                for split in ("train", "valid") if (folder / split).is_dir()}
        return LlmData(sets["train"], sets.get("valid"), summary["packing"], summary["max_length"], summary)
    except (OSError, ValueError, KeyError) as error:
        raise DataError(f"the prepared data in {folder} cannot be read: {' '.join(str(error).split())}. Remove the folder "
                        "to prepare it anew.") from None


def write_sequences(folder: Path, tokens: np.ndarray, labels: np.ndarray, layout: Layout) -> np.ndarray:
    """Write the sequences of `layout` from flat documents, and return the number of targets of each (int64).

    Raises OSError when the disk is full.
    """
    folder.mkdir()
    total = int(layout.edges[-1])
    ends = np.cumsum(layout.lengths)
    begins = ends - layout.lengths
    counts = np.zeros(total + 1, dtype=np.int64)
    # written, not memory-mapped: on a full disk a write fails, where a mapped page would kill the process
    with open(folder / "tokens.npy", "wb") as tokens_file, open(folder / "labels.npy", "wb") as labels_file:
        for file in (tokens_file, labels_file):
            np.lib.format.write_array_header_1_0(file, {"descr": "<i4", "fortran_order": False, "shape": (total,)})
        first = 0
        while first < len(ends):
            last = max(first + 1, int(np.searchsorted(ends, begins[first] + _CHUNK, side="right")))
            low, high = int(begins[first]), int(ends[last - 1])
            source = np.repeat(layout.starts[first:last] - begins[first:last], layout.lengths[first:last])
            source += np.arange(low, high)
            found = labels[source]
            tokens_file.write(tokens[source].tobytes())
            labels_file.write(found.tobytes())
            np.cumsum(found != NO_TARGET, out=counts[low + 1: high + 1])
            counts[low + 1: high + 1] += counts[low]
            first = last
    targets = np.diff(counts[layout.edges])
    np.save(folder / "sequences.npy", layout.edges)
    np.save(folder / "documents.npy", begins)
    np.save(folder / "targets.npy", targets)
    return targets


def write_summary(folder: Path, summary: dict[str, Any]) -> None:
    write_text_atomic(folder / SUMMARY, json.dumps(summary, ensure_ascii=False, indent=1))
