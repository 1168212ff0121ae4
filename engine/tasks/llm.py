"""Causal language models: what a batch is, what its loss is, what its metrics are."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as functional

from engine.contract.preset import Preset
from engine.data.prepare import prepare_llm_data as prepare_data
from engine.data.store import LlmData
from engine.data.store import open_llm_data as open_data
from engine.model import build_model as build

__all__ = ["prepare_data", "open_data"]


def describe_data(data: LlmData) -> str:
    """Rows, tokens and sequences to train on."""
    train = data.train
    return f"{train.rows:,} rows, {int(train.tokens.sum()):,} tokens in {len(train):,} sequences"


def build_model(preset: Preset, tokenizer: Any, data: LlmData) -> Any:
    """A causal language model; see `engine.model.build_model`."""
    return build(preset, tokenizer)


def loss_sum(model: torch.nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    """Sum of the cross-entropies (nats) of the batch's target tokens, in fp32; a scalar with its graph.

    `batch`: input_ids, position_ids, labels, all int64 [B, L]; labels are shifted already and -100 where there is
    no target. Without an attention mask transformers keeps attention inside each packed document, which it knows by
    the restart of position_ids; padding stands to the right, where causal attention never looks.
    """
    logits = model(input_ids=batch["input_ids"], position_ids=batch["position_ids"], use_cache=False).logits
    return functional.cross_entropy(logits.view(-1, logits.size(-1)).float(), batch["labels"].view(-1),
                                    ignore_index=-100, reduction="sum")


def evaluate(model: torch.nn.Module, batch: dict[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    """The loss sum of one batch; a language model is judged by it alone."""
    loss = loss_sum(model, batch)
    return loss, loss.new_zeros(0)


def metrics(mean_loss: float, counts: list[float]) -> dict[str, float | None]:
    """What evaluation reports beside the loss: perplexity, None where it overflows."""
    return {"perplexity": math.exp(mean_loss) if mean_loss < 700 else None}


def finish_model(model: Any, data: LlmData) -> None:
    """A model trained on a chat template must stop at the end of its turn, whatever its configuration said before."""
    if model.generation_config is not None and data.summary["stop_ids"]:
        model.generation_config.eos_token_id = data.summary["stop_ids"]


@torch.no_grad()
def look(training: Any, tokenizer: Any, new_tokens: int = 48) -> None:
    """Let the trained model go on from the beginning of a sequence it was evaluated on (rank 0 alone)."""
    if training.checkpointer.sharded:  # no rank holds the whole model any more; the saved one is whole
        from transformers import AutoModelForCausalLM

        model = AutoModelForCausalLM.from_pretrained(training.life.run.model).to(training.accelerator.device)
    else:
        model = training.accelerator.unwrap_model(training.model, keep_fp32_wrapper=False)
    model.eval()
    sequences = training.data.valid if training.data.valid is not None else training.data.train
    prompt = prompt_of(sequences).to(training.accelerator.device)
    if training.preset.training.gradient_checkpointing:
        model.gradient_checkpointing_disable()
    written = model.generate(input_ids=prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=new_tokens,
                             do_sample=False, repetition_penalty=1.3, use_cache=True,
                             pad_token_id=tokenizer.pad_token_id or tokenizer.eos_token_id)
    training.life.events.write(
        "generation", step=training.progress.step, prompt=tokenizer.decode(prompt[0], skip_special_tokens=True),
        text=tokenizer.decode(written[0, prompt.size(1):], skip_special_tokens=True))


def prompt_of(sequences: Any, index: int = 0, free_tokens: int = 12) -> torch.Tensor:
    """The beginning of a sequence, to let the model go on from: up to its first target, or `free_tokens` tokens.

    Returns int64 [1, T].
    """
    batch = sequences.collate([index])
    first_target = int((batch["labels"][0] != -100).float().argmax())
    length = first_target + 1 if first_target > 0 else free_tokens
    return batch["input_ids"][:, : max(1, length)]
