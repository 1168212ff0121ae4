"""Packed and unpacked batches are the same mathematics, in transformers' own attention."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from engine.data.architecture import keeps_documents_apart
from tests.unit.data.helpers import TINY, prepared, sentences, write_jsonl


def token_losses(model, data) -> dict[tuple, list[float]]:
    """For each document, by its tokens: the loss of each of its targets."""
    found = {}
    batch = data.collate(range(len(data)))
    # without use_cache=False transformers would not look at position_ids
    logits = model(input_ids=batch["input_ids"], position_ids=batch["position_ids"], use_cache=False).logits
    losses = torch.nn.functional.cross_entropy(logits.transpose(1, 2), batch["labels"], reduction="none")
    for ids, positions, labels, row, size in zip(batch["input_ids"], batch["position_ids"], batch["labels"], losses,
                                                 data.tokens, strict=True):
        starts = [*np.flatnonzero(positions[:size] == 0).tolist(), int(size)]
        for start, end in zip(starts, starts[1:], strict=False):
            kept = labels[start:end] != -100
            found[tuple(ids[start:end].tolist())] = row[start:end][kept].tolist()
    return found


@pytest.fixture(params=["sdpa", "eager"])
def model(request):
    torch.manual_seed(0)
    config = AutoConfig.for_model(**TINY)
    model = AutoModelForCausalLM.from_config(config, attn_implementation=request.param).eval()
    with torch.no_grad():
        for parameter in model.parameters():  # larger weights: a wrong mask must show
            parameter.mul_(8)
        yield model


def test_packed_and_unpacked_losses_agree(model, tmp_path):
    source = write_jsonl(tmp_path / "d.jsonl", sentences(40))
    packed, unpacked = (token_losses(model, prepared(tmp_path / f"p{packing}", source, "llm-sft", packing=packing).train)
                        for packing in (True, False))
    assert packed.keys() == unpacked.keys() and len(packed) == 40
    for document, losses in packed.items():
        assert losses == pytest.approx(unpacked[document], abs=2e-4)
    # the check itself must be able to fail: as one long document the losses are others
    joined = prepared(tmp_path / "j", source, "llm-sft").train
    batch = joined.collate(range(len(joined)))
    with_documents = model(input_ids=batch["input_ids"], position_ids=batch["position_ids"], use_cache=False).logits
    without = model(input_ids=batch["input_ids"], use_cache=False).logits
    assert (with_documents - without).abs().max() > 0.1


def test_padding_changes_nothing(model, tmp_path):
    data = prepared(tmp_path / "p", write_jsonl(tmp_path / "d.jsonl", sentences(12)), "llm-sft", packing=False).train
    alone = [token_losses(model, _Only(data, index)) for index in range(len(data))]
    together = token_losses(model, data)
    for one in alone:
        for document, losses in one.items():
            assert losses == pytest.approx(together[document], abs=2e-4)


class _Only:
    """A set of one sequence."""

    def __init__(self, data, index):
        self._data, self._index, self.tokens = data, index, data.tokens[index: index + 1]

    def __len__(self):
        return 1

    def collate(self, indices):
        return self._data.collate([self._index])


def test_gradient_checkpointing_in_training_keeps_documents_apart(tmp_path):
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**TINY), attn_implementation="sdpa").train()
    data = prepared(tmp_path / "p", write_jsonl(tmp_path / "d.jsonl", sentences(20)), "llm-sft").train
    batch = data.collate(range(len(data)))
    plain = model(input_ids=batch["input_ids"], position_ids=batch["position_ids"], use_cache=False).logits
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    again = model(input_ids=batch["input_ids"], position_ids=batch["position_ids"], use_cache=False).logits
    assert torch.allclose(plain, again, atol=1e-5)


@pytest.mark.parametrize(("model_type", "apart"), [
    ("llama", True), ("qwen3", True), ("gpt2", True), ("gemma3", True), ("gemma3_text", True), ("mamba", False), ("qwen3_next", False),
    ("somebodys-own", False), (None, False)])
def test_what_is_known_of_model_types(model_type, apart):
    assert keeps_documents_apart(model_type) is apart
