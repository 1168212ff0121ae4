"""`prepare_llm_data`: from what `data` names in the preset to sequences on disk that ranks can share."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from engine.contract.preset import Preset
from engine.data import packing
from engine.data.architecture import keeps_documents_apart
from engine.data.collect import Collector, Documents, row_texts
from engine.data.order import permutation
from engine.data.rejects import Rejects
from engine.data.sources import Source, open_source
from engine.data.store import write_sequences, write_summary
from engine.data.tokenize import NO_TARGET
from engine.data.tokenizer import (
    TRAINING_CHARACTERS,
    config_value,
    load_tokenizer,
    needs_training,
    train_tokenizer,
)
from engine.data.workspace import (
    VALID_STREAM,
    Report,
    building,
    fail_empty,
    fingerprint,
    number,
    part,
    skipped_warning,
    throttled,
)
from engine.errors import DataError, DiskError


def prepare_llm_data(preset: Preset, folder: Path, progress: Report) -> None:
    """Read, tokenize and lay out the data of `preset` into `folder`, which appears only when it is complete.

    `progress(what is being done, share done or None)` is called a few times a second. The result depends on the
    preset and the data alone. Raises DataError or ModelError for what a person can mend, DiskError when `folder`
    cannot be written. One process of each machine calls this; the others wait and then `open_llm_data`.
    """
    if not isinstance(preset.data.max_length, int):
        raise DataError("data.max_length is still auto: the preset must be resolved first.")
    with building(folder) as temporary:
        _Preparation(preset, temporary, throttled(progress)).run()


class _Preparation:
    def __init__(self, preset: Preset, folder: Path, report: Report):
        self.preset, self.folder, self.report = preset, folder, report
        self.rejects = Rejects(preset.data.on_bad_row)
        self.warnings: list[str] = []
        self.max_length = int(preset.data.max_length)

    def run(self) -> None:
        data = self.preset.data
        source = open_source(data.train or "", "train", data.subset)
        valid_source = open_source(data.valid, "valid", data.subset) if isinstance(data.valid, str) else None
        tokenizer, done = self._tokenizer(source)
        self._save(tokenizer)
        collector = Collector(self.preset, tokenizer, self.rejects, self.max_length)
        train = self._collect(collector, source, "train", done, 0.85 if valid_source else 0.9)
        valid = self._collect(collector, valid_source, "valid", 0.85, 0.9) if valid_source else None
        held = np.zeros(len(train.lengths), dtype=bool)
        if isinstance(data.valid, float):
            held = self._held_out(train, data.valid)
            valid = train
        self.report("arranging sequences", 0.9)
        pack, reason = self._packing(train.lengths[~held])
        summary: dict[str, Any] = {"packing": pack, "packing_reason": reason, "max_length": self.max_length}
        summary |= self._write("train", train, ~held, pack)
        self._check_enough(summary["train_sequences"], summary["train_rows"], pack)
        if valid is not None:
            self.report("arranging sequences", 0.95)
            summary |= self._write("valid", valid, held if valid is train else np.ones(len(valid.lengths), bool), pack)
        summary |= self._account(tokenizer, train, valid)
        write_summary(self.folder, summary)
        self.report("data ready", 1.0)

    def _tokenizer(self, source: Source) -> tuple[Any, float]:
        """The tokenizer, and the share of the whole work that is done with it."""
        if not needs_training(self.preset):
            self.report("loading the tokenizer", 0.0)
            return load_tokenizer(self.preset), 0.02
        rejects = Rejects(self.preset.data.on_bad_row)  # of this first reading; the second one counts
        texts = row_texts(self.preset, source, rejects, lambda share: self.report(
            "reading text for the tokenizer", part(share, 0.0, 0.25)))
        first = next(texts, None)
        if first is None:
            fail_empty(source.name, "train", 0, rejects.count, rejects)
        return train_tokenizer(self.preset, self._read_out(itertools.chain([first], texts))), 0.35

    def _save(self, tokenizer: Any) -> None:
        try:
            tokenizer.save_pretrained(self.folder / "tokenizer")
        except OSError:
            raise
        except Exception as error:  # the tokenizers library has one kind of error for everything
            raise DiskError(f"the tokenizer cannot be saved: {' '.join(str(error).split())}") from None

    def _read_out(self, texts: Iterator[str]) -> Iterator[str]:
        """The texts, up to as many as matter; learning from them starts when the last one is out."""
        left = TRAINING_CHARACTERS
        for text in texts:
            yield text
            left -= len(text)
            if left <= 0:
                break
        self.report("training the tokenizer", 0.25)

    def _collect(self, collector: Collector, source: Source, split: str, low: float, high: float) -> Documents:
        rejected = self.rejects.count
        self.report(f"opening {source.name}", low)
        work = self.folder / "work" / split
        work.mkdir()
        documents = collector.collect(source, work, lambda share: self.report(
            f"tokenizing {split} rows" if split == "valid" else "tokenizing rows", part(share, low, high)))
        self.warnings += source.notes
        if not len(documents.lengths):
            fail_empty(source.name, split, documents.empty_rows, self.rejects.count - rejected, self.rejects)
        return documents

    def _held_out(self, train: Documents, share: float) -> np.ndarray:
        """Which documents belong to held-out rows; rows are chosen before anything is cut or packed."""
        rows = train.row_count
        if rows < 2:
            raise DataError(f"data.valid: {share:g} of {rows} row cannot be held out; at least 2 rows are needed. Leave "
                            "data.valid out, or give a file of its own.")
        count = min(max(1, round(share * rows)), rows - 1)
        chosen = np.zeros(rows, dtype=bool)
        chosen[permutation(rows, self.preset.training.seed, VALID_STREAM)[:count]] = True
        return chosen[train.rows]

    def _packing(self, lengths: np.ndarray) -> tuple[bool, str]:
        data, training = self.preset.data, self.preset.training
        model_type = config_value(self.preset, "model_type")
        apart = keeps_documents_apart(model_type)
        if data.packing is True and not apart and model_type:
            self.warnings.append(f"packing: it is not known whether a {model_type} keeps packed "
                                 "documents apart; if not, each also sees those before it. data.packing: false is safe")
        if isinstance(data.packing, bool):
            return data.packing, "as the preset says"
        if not apart:
            return False, f"a {model_type or 'model of unknown type'} is not known to keep packed documents apart"
        pieces = packing.split(np.zeros_like(lengths), lengths, self.max_length).lengths \
            if self.preset.task == "llm-pretrain" else lengths
        return packing.decide(pieces, self.max_length, number(training.micro_batch, 8), number(training.global_batch, 8),
                              training.seed)

    def _write(self, split: str, documents: Documents, chosen: np.ndarray, pack: bool) -> dict[str, Any]:
        starts, lengths = documents.starts[chosen], documents.lengths[chosen]
        if self.preset.task == "llm-pretrain":
            layout = (packing.cut if pack else packing.split)(starts, lengths, self.max_length)
        elif pack:
            layout = packing.best_fit(starts, lengths, self.max_length)
        else:
            layout = packing.each(starts, lengths)
        targets = write_sequences(self.folder / split, documents.tokens, documents.labels, layout)
        total = int(layout.edges[-1])
        return {f"{split}_rows": len(np.unique(documents.rows[chosen])), f"{split}_documents": len(lengths),
                f"{split}_sequences": len(targets), f"{split}_tokens": total, f"{split}_targets": int(targets.sum()),
                f"{split}_fill": round(total / (len(targets) * self.max_length), 4),
                f"{split}_lengths": {name: int(value) for name, value in zip(
                    ("shortest", "median", "p90", "longest"), np.quantile(lengths, (0, 0.5, 0.9, 1)), strict=True)}}

    def _check_enough(self, sequences: int, rows: int, pack: bool) -> None:
        wanted = number(self.preset.training.global_batch, 1)
        if sequences >= wanted:
            return
        packed = f" of up to {self.max_length:,} tokens, packed" if pack else ""
        raise DataError(f"data.train: {rows:,} rows give {sequences:,} sequences{packed}, but one step takes "
                        f"training.global_batch {wanted:,}. Give more data, or a smaller training.global_batch"
                        f"{', a smaller data.max_length, or data.packing: false' if pack else ''}.")

    def _account(self, tokenizer: Any, train: Documents, valid: Documents | None) -> dict[str, Any]:
        """What was done to the rows, and what the loop and a person need to know of the tokens."""
        parts = [train] if valid is None or valid is train else [train, valid]
        truncated, divided = sum(one.truncated_rows for one in parts), sum(one.divided_rows for one in parts)
        self.warnings += skipped_warning(self.rejects)
        if truncated:
            self.warnings.append(f"{truncated:,} rows are longer than data.max_length {self.max_length:,} tokens and were "
                                 "cut there")
        if divided:
            self.warnings.append(f"{divided:,} conversations became one sample a turn, since the chat template shows "
                                 "earlier turns differently once later ones are there")
        eos = int(tokenizer.eos_token_id)
        pad = tokenizer.pad_token_id
        return {
            "task": self.preset.task, "format": train.columns.kind if train.columns else None,
            "columns": train.columns.named() if train.columns else {},
            "skipped_rows": self.rejects.count, "skipped_examples": self.rejects.examples,
            "empty_rows": sum(one.empty_rows for one in parts), "truncated_rows": truncated, "divided_rows": divided,
            "vocab_size": len(tokenizer), "eos_id": eos, "pad_id": eos if pad is None else int(pad),
            "stop_ids": sorted({eos} | _closing_marks(tokenizer, train)) if self.preset.task != "llm-pretrain" else [eos],
            "warnings": self.warnings, "fingerprint": fingerprint(self.folder),
        }


def _closing_marks(tokenizer: Any, documents: Documents) -> set[int]:
    """The special token that most samples end with: generation must stop there, also where it is not the end-of-text."""
    last = documents.labels[(documents.starts + documents.lengths - 1)[:10_000]]
    values, counts = np.unique(last[last != NO_TARGET], return_counts=True)
    mark = int(values[counts.argmax()]) if len(values) else -1
    return {mark} & set(tokenizer.added_tokens_decoder)
