"""The shortest honest training loop in torch: batches lie ready in memory, nothing is told, nothing is checked."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as functional


class PlainLoop:
    """`batches` is a list of optimizer steps, each a dict of input_ids, position_ids and labels (int64 [B, L])."""

    def __init__(self, model: Any, optimizer: torch.optim.Optimizer, batches: list[dict[str, torch.Tensor]], max_norm: float):
        self.model, self.optimizer, self.batches, self.max_norm = model, optimizer, batches, max_norm
        self.step = 0
        self.losses: list[torch.Tensor] = []
        model.train()

    def run(self, steps: int) -> None:
        for batch in self.batches[self.step: self.step + steps]:
            logits = self.model(input_ids=batch["input_ids"], position_ids=batch["position_ids"], use_cache=False).logits
            loss = functional.cross_entropy(logits.view(-1, logits.size(-1)), batch["labels"].view(-1), ignore_index=-100)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.max_norm)
            self.optimizer.step()
            self.optimizer.zero_grad()
            self.losses.append(loss.detach())
        self.step += steps
