"""Text to tokens and targets, many rows at a time on all cores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from engine.data.chat import Sample

NO_TARGET = -100


class Encoder:
    """Tokenizes batches with one tokenizer; a fast tokenizer spreads a batch over the cores by itself."""

    def __init__(self, tokenizer: Any):
        self._tokenizer = tokenizer
        self._backend = tokenizer.backend_tokenizer if tokenizer.is_fast else None
        if self._backend is not None:  # a saved tokenizer may bring limits of its former use
            self._backend.no_truncation()
            self._backend.no_padding()
        self._first = self._start_tokens()
        self._eos = int(tokenizer.eos_token_id)

    def _start_tokens(self) -> list[int]:
        """What the tokenizer puts before every text (a begin-of-text token, or nothing)."""
        probe = "a"
        plain = self._tokenizer.encode(probe, add_special_tokens=False)
        full = self._tokenizer.encode(probe, add_special_tokens=True)
        at = next((at for at in range(len(full)) if full[at: at + len(plain)] == plain), 0)
        return full[:at]

    def documents(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Each text as int32 tokens with the end-of-text token at its end; a text without tokens is empty."""
        if self._backend is not None:
            lists = [encoding.ids for encoding in self._backend.encode_batch_fast(list(texts), add_special_tokens=False)]
        else:
            lists = [self._tokenizer.encode(text, add_special_tokens=False) for text in texts]
        return [np.array(self._first + ids + [self._eos] if ids else [], dtype=np.int32) for ids in lists]

    def samples(self, samples: Sequence[Sample]) -> list[tuple[np.ndarray, np.ndarray]]:
        """For each sample its int32 tokens, and which of them are targets (bool)."""
        if self._backend is not None:
            encodings = self._backend.encode_batch([sample.text for sample in samples], add_special_tokens=False)
            pairs = [(encoding.ids, _inside(encoding.offsets, sample.spans))
                     for sample, encoding in zip(samples, encodings, strict=True)]
        else:
            pairs = [self._slow(sample) for sample in samples]
        return [self._with_marks(sample, ids, wanted) for sample, (ids, wanted) in zip(samples, pairs, strict=True)]

    def _with_marks(self, sample: Sample, ids: list[int], wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if sample.plain:
            ids = [*self._first, *ids, self._eos]
            wanted = np.concatenate([np.zeros(len(self._first), dtype=bool), wanted, [True]])
        return np.array(ids, dtype=np.int32), wanted

    def _slow(self, sample: Sample) -> tuple[list[int], np.ndarray]:
        """A tokenizer in Python knows no offsets: the text up to each edge of a span is tokenized by itself."""
        ids = self._tokenizer.encode(sample.text, add_special_tokens=False)
        wanted = np.zeros(len(ids), dtype=bool)
        for span in sample.spans:
            first, last = (_common(ids, self._tokenizer.encode(sample.text[:edge], add_special_tokens=False))
                           for edge in span)
            wanted[first:last] = True
        return ids, wanted


def _inside(offsets: Sequence[tuple[int, int]], spans: Sequence[tuple[int, int]]) -> np.ndarray:
    """Which tokens hold a character of a span (bool), those on its edges included: where a template ends its prompt with
    a space, the first word of the answer is one token with it, and must be learned.

    Some tokenizers trim white space from offsets, so that a token of nothing else has none left: it then reaches from
    the end of the token before it.
    """
    wanted = np.zeros(len(offsets), dtype=bool)
    if len(offsets):
        table = np.array(offsets, dtype=np.int64)
        ends = np.maximum.accumulate(table[:, 1])
        starts = np.where(table[:, 0] < table[:, 1], table[:, 0], np.concatenate([[0], ends[:-1]]))
        starts = np.maximum.accumulate(starts)
        for start, end in spans:
            wanted[np.searchsorted(ends, start, side="right"): np.searchsorted(starts, end)] = True
    return wanted


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    """How many tokens two lists begin with in common."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def shifted(ids: np.ndarray, wanted: np.ndarray | None = None) -> np.ndarray:
    """Labels of one document: at each position the token that follows, where that token is a target; else -100."""
    labels = np.full(len(ids), NO_TARGET, dtype=np.int32)
    labels[:-1] = ids[1:] if wanted is None else np.where(wanted[1:], ids[1:], NO_TARGET)
    return labels


def trimmed(ids: np.ndarray, wanted: np.ndarray, max_length: int) -> tuple[np.ndarray, np.ndarray, bool]:
    """(inputs, labels, whether targets were cut off) of one sample, at most `max_length` long; empty without a target.

    Inputs after the last target would be computed for nothing, so they are left out; the last target itself, such as
    an end-of-turn token, is a label only.
    """
    labels = shifted(ids, wanted)
    targets = np.flatnonzero(labels != NO_TARGET)
    kept = targets[targets < max_length]
    length = int(kept[-1]) + 1 if len(kept) else 0
    return ids[:length], labels[:length], len(kept) < len(targets)
