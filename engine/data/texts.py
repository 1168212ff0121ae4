"""Whole texts as examples: tokenized with their marks, cut at a length, padded by the batch."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.data.order import grouped_step_indices
from engine.data.store import SUMMARY
from engine.errors import DataError, ModelError

if TYPE_CHECKING:
    import torch

_MULTIPLE = 8


class TextEncoder:
    """Tokenizes texts, or pairs of texts, as the tokenizer's own model wants them: with its special tokens, and of two
    texts with which token belongs to which (`has_types`)."""

    def __init__(self, tokenizer: Any, max_length: int):
        """Raises ModelError when there is no token to pad with."""
        self._tokenizer, self._max_length = tokenizer, max_length
        self.has_types = "token_type_ids" in tokenizer.model_input_names
        pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id
        if pad is None:
            raise ModelError("the tokenizer has neither a padding nor an end-of-text token, so texts of different length "
                             "cannot make a batch. Set pad_token in its tokenizer_config.json.")
        self.pad_id = int(pad)
        self._backend = tokenizer.backend_tokenizer if tokenizer.is_fast else None
        if self._backend is not None:
            self._backend.no_padding()
            self._backend.enable_truncation(max_length, strategy="longest_first")

    def encode(self, texts: Sequence[tuple[str, str | None]]) -> list[tuple[np.ndarray, np.ndarray, bool]]:
        """For each (text, second text or None): its int32 tokens, int8 types, and whether it was cut."""
        if self._backend is None:
            return [self._slow(*pair) for pair in texts]
        inputs = [text if pair is None else (text, pair) for text, pair in texts]
        return [(np.array(found.ids, dtype=np.int32), np.array(found.type_ids, dtype=np.int8), bool(found.overflowing))
                for found in self._backend.encode_batch(inputs)]

    def _slow(self, text: str, pair: str | None) -> tuple[np.ndarray, np.ndarray, bool]:
        whole = self._tokenizer(text, pair, truncation=False, verbose=False)["input_ids"]
        found = self._tokenizer(text, pair, truncation="longest_first" if pair else True, max_length=self._max_length,
                                return_token_type_ids=True)
        return (np.array(found["input_ids"], dtype=np.int32), np.array(found["token_type_ids"], dtype=np.int8),
                len(whole) > self._max_length)


def write_texts(folder: Path, tokens: Path, types: Path | None, lengths: np.ndarray, labels: np.ndarray) -> None:
    """Write the arrays of tokenized texts from their raw files. Raises OSError when the disk is full."""
    folder.mkdir(exist_ok=True)
    np.save(folder / "tokens.npy", np.memmap(tokens, dtype=np.int32, mode="r"))
    if types is not None:
        np.save(folder / "types.npy", np.memmap(types, dtype=np.int8, mode="r"))
    np.save(folder / "edges.npy", np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64))
    np.save(folder / "labels.npy", labels)


class TextSet:
    """The labelled texts of one split: rows `rows.npy` of the arrays in `texts`.

    `tokens` counts the non-padding inputs of each text, `targets` is 1 for each: the loss is the mean over texts.
    """

    def __init__(self, texts: Path, rows: Path, max_length: int, pad_id: int):
        self.max_length, self.pad_id = max_length, pad_id
        self._rows = np.load(rows)
        self._tokens = np.load(texts / "tokens.npy", mmap_mode="r")
        types = texts / "types.npy"
        self._types = np.load(types, mmap_mode="r") if types.exists() else None
        self._edges = np.load(texts / "edges.npy")
        self.labels = np.load(texts / "labels.npy")[self._rows]
        self.rows = len(self._rows)
        self.tokens = np.diff(self._edges)[self._rows]
        self.targets = np.ones(self.rows, dtype=np.int64)

    def __len__(self) -> int:
        return self.rows

    def step_indices(self, seed: int, step: int, global_batch: int) -> np.ndarray:
        """See `engine.data.order.grouped_step_indices`."""
        return grouped_step_indices(self.tokens, seed, step, global_batch)

    def collate(self, indices: Iterable[int]) -> dict[str, torch.Tensor]:
        """A batch: `input_ids`, `attention_mask` and, where the model tells texts of a pair apart, `token_type_ids`, each
        int64 [B, L], and `labels` int64 [B]. L is the longest of the batch, rounded up to a multiple of 8 but not beyond
        the longest text allowed; padding is on the right.
        """
        import torch

        chosen = np.fromiter(indices, dtype=np.int64)
        longest = int(self.tokens[chosen].max())
        length = max(longest, min(-(-longest // _MULTIPLE) * _MULTIPLE, self.max_length))
        inputs = np.full((len(chosen), length), self.pad_id, dtype=np.int64)
        mask, types = np.zeros_like(inputs), np.zeros_like(inputs)
        for at, row in enumerate(self._rows[chosen]):
            start, end = int(self._edges[row]), int(self._edges[row + 1])
            inputs[at, : end - start] = self._tokens[start:end]
            mask[at, : end - start] = 1
            if self._types is not None:
                types[at, : end - start] = self._types[start:end]
        batch = {"input_ids": inputs, "attention_mask": mask, "labels": self.labels[chosen]}
        if self._types is not None:
            batch["token_type_ids"] = types
        return {name: torch.from_numpy(values) for name, values in batch.items()}


@dataclass(frozen=True)
class TextData:
    """Prepared labelled texts. `classes` are the names of the class numbers."""

    train: TextSet
    valid: TextSet | None
    max_length: int
    classes: list[str]
    summary: dict[str, Any]
    packing: bool = False


def open_text_data(folder: Path) -> TextData:
    """What `prepare_classification_data` wrote to `folder`. Raises DataError when it is not there or not whole."""
    try:
        summary = json.loads((folder / SUMMARY).read_text(encoding="utf-8"))
        size, pad = summary["max_length"], summary["pad_id"]
        train = TextSet(folder / "train", folder / "train" / "rows.npy", size, pad)
        held = summary["valid_of"]
        valid = TextSet(folder / held, folder / "valid" / "rows.npy", size, pad) if held else None
        return TextData(train, valid, size, summary["classes"], summary)
    except (OSError, ValueError, KeyError) as error:
        raise DataError(f"the prepared data in {folder} cannot be read: {' '.join(str(error).split())}. Remove the folder "
                        "to prepare it anew.") from None
