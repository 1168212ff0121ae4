"""Classification of texts: what a batch is, what its loss is, what its metrics are."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as functional

from engine.contract.preset import Preset
from engine.data.classification import prepare_classification_data as prepare_data
from engine.data.texts import TextData
from engine.data.texts import open_text_data as open_data
from engine.model import Family
from engine.model import build_model as build

__all__ = ["prepare_data", "open_data"]

#: A head for other classes than the model was made for is drawn anew.
_FAMILY = Family("AutoModelForSequenceClassification", "SEQ_CLS", {"ignore_mismatched_sizes": True})
_MOST_SHOWN = 6
_LOOKS = 3


def describe_data(data: TextData) -> str:
    """Rows, and of each class how many."""
    counts = sorted(data.summary["train_classes"].items(), key=lambda pair: -pair[1])
    shown = ", ".join(f"{name} {count:,}" for name, count in counts[:_MOST_SHOWN])
    more = f" and {len(counts) - _MOST_SHOWN} more classes" if len(counts) > _MOST_SHOWN else ""
    return f"{data.train.rows:,} rows, {int(data.train.tokens.sum()):,} tokens: {shown}{more}"


def build_model(preset: Preset, tokenizer: Any, data: TextData) -> Any:
    """A model with one output for each class, which carries their names. Raises ModelError."""
    names = dict(enumerate(data.classes))
    values = {"id2label": names, "label2id": {name: number for number, name in names.items()},
              "problem_type": "single_label_classification", "pad_token_id": data.summary["pad_id"]}
    return build(preset, tokenizer, _FAMILY, values)


def _logits(model: torch.nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    """float32 [B, classes]."""
    return model(**{name: value for name, value in batch.items() if name != "labels"}).logits.float()


def _loss(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(logits, labels, ignore_index=-100, reduction="sum")


def loss_sum(model: torch.nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    """Sum of the cross-entropies (nats) of the batch's texts, in fp32; a scalar with its graph.

    `batch`: as `TextSet.collate` makes it; a label of -100 does not count.
    """
    return _loss(_logits(model, batch), batch["labels"])


def evaluate(model: torch.nn.Module, batch: dict[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    """The loss sum of one batch, and for each class how often it was right, said, and true (float64 [3 x classes])."""
    logits, labels = _logits(model, batch), batch["labels"]
    real = labels != -100
    said, true = logits.argmax(-1)[real], labels[real]
    classes = logits.size(-1)
    counts = torch.cat([torch.bincount(which, minlength=classes) for which in (true[said == true], said, true)])
    return _loss(logits, labels), counts


def metrics(mean_loss: float, counts: list[float]) -> dict[str, float | None]:
    """Accuracy, and the mean of the classes' F1 over the classes that occur or are said (macro F1).

    F1 of a class = 2 x right / (said + true), the harmonic mean of precision and recall (van Rijsbergen,
    "Information Retrieval", 1979).
    """
    classes = len(counts) // 3
    right, said, true = counts[:classes], counts[classes: 2 * classes], counts[2 * classes:]
    rows = sum(true)
    f1 = [2 * r / (s + t) for r, s, t in zip(right, said, true, strict=True) if s + t]
    return {"accuracy": sum(right) / rows if rows else None, "macro_f1": sum(f1) / len(f1) if f1 else None}


def finish_model(model: Any, data: TextData) -> None:
    """Nothing: the names of the classes are in the configuration since the model was made."""


@torch.no_grad()
def look(training: Any, tokenizer: Any) -> None:
    """What the trained model says of a few held-out texts, and what is true (rank 0 alone)."""
    device = training.accelerator.device
    if training.checkpointer.sharded:  # no rank holds the whole model any more; the saved one is whole
        from transformers import AutoModelForSequenceClassification

        model = AutoModelForSequenceClassification.from_pretrained(training.life.run.model).to(device)
    else:
        model = training.accelerator.unwrap_model(training.model, keep_fp32_wrapper=False)
    model.eval()
    texts = training.data.valid if training.data.valid is not None else training.data.train
    picked = range(0, len(texts), max(1, len(texts) // _LOOKS))[:_LOOKS]
    batch = {name: value.to(device) for name, value in texts.collate(picked).items()}
    shares = _logits(model, batch).softmax(-1)
    classes = training.data.classes
    # the last one written is the one that is shown at the end
    for row in reversed(range(len(picked))):
        said, true = int(shares[row].argmax()), int(batch["labels"][row])
        sure = f"{classes[said]} ({float(shares[row, said]):.0%} sure)"
        verdict = "which is right" if said == true else f"but it is {classes[true]}"
        ids = batch["input_ids"][row][batch["attention_mask"][row].bool()]
        training.life.events.write("generation", step=training.progress.step, text=f"{sure}, {verdict}",
                                   prompt=tokenizer.decode(ids, skip_special_tokens=True))
