"""Causal language models: what a batch is, what its loss is, what its metrics are."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as functional


def loss_sum(model: torch.nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    """Sum of the cross-entropies (nats) of the batch's target tokens, in fp32; a scalar with its graph.

    `batch`: input_ids, position_ids, labels, all int64 [B, L]; labels are shifted already and -100 where there is
    no target. Without an attention mask transformers keeps attention inside each packed document, which it knows by
    the restart of position_ids; padding stands to the right, where causal attention never looks.
    """
    logits = model(input_ids=batch["input_ids"], position_ids=batch["position_ids"], use_cache=False).logits
    return functional.cross_entropy(logits.view(-1, logits.size(-1)).float(), batch["labels"].view(-1),
                                    ignore_index=-100, reduction="sum")


def metrics(mean_loss: float) -> dict[str, float | None]:
    """What evaluation reports beside the loss: perplexity, None where it overflows."""
    return {"perplexity": math.exp(mean_loss) if mean_loss < 700 else None}


def prompt_of(sequences: Any, index: int = 0, free_tokens: int = 12) -> torch.Tensor:
    """The beginning of a sequence, to let the model go on from: up to its first target, or `free_tokens` tokens.

    Returns int64 [1, T].
    """
    batch = sequences.collate([index])
    first_target = int((batch["labels"][0] != -100).float().argmax())
    length = first_target + 1 if first_target > 0 else free_tokens
    return batch["input_ids"][:, : max(1, length)]
