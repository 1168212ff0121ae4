"""Against Hugging Face Trainer: the same weights, batches, optimizer, schedule and clipping give the same losses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engine.contract.load import dump_preset, parse_preset
from engine.contract.preset import Preset
from tests.engine.labelled import labelled_preset, write_labelled
from tests.engine.trainings import losses, new_run, tiny_preset, train_on_rank, write_text

#: Unevenly filled micro-batches, four of them a step: where wrong normalisation shows.
PLAN = {"training__micro_batch": 2, "training__gradient_accumulation": 4, "training__weight_decay": 0.1, "training__warmup_steps": 0,
        "training__max_grad_norm": 0.5, "training__scheduler": "linear", "training__learning_rate": 5e-3}


@pytest.fixture(scope="module")
def base(ranks, tmp_path_factory) -> str:
    """A tiny model with its tokenizer, hardly trained."""
    folder = tmp_path_factory.mktemp("base")
    run = new_run(folder, tiny_preset(write_text(folder / "text.jsonl"), 1, training__max_steps=1, data__max_length=64))
    assert ranks(1).run(train_on_rank, str(run.root))[0][0] == "finished"
    return str(run.model)


def pretraining(folder: Path, base: str) -> Preset:
    data = write_text(folder / "text.jsonl")
    return tiny_preset(data, 1, model={"path": base}, data__max_length=64, **PLAN)


def instructions(folder: Path, base: str) -> Preset:
    rows = [{"prompt": f"what is {i} and {i + 1}" + " and more" * (i % 4), "completion": " it is" + f" {i}" * (1 + i * 7 % 13)} for i in range(60)]
    data = folder / "rows.jsonl"
    data.write_text("\n".join(map(json.dumps, rows)) + "\n")
    return tiny_preset(data, 1, task="llm-sft", model={"path": base}, data__max_length=96, data__packing=False, **PLAN)


def classification(folder: Path, _base: str) -> Preset:
    return labelled_preset(write_labelled(folder / "texts.jsonl"), 1, **PLAN)


@pytest.mark.parametrize("task", [pretraining, instructions, classification])
def test_the_same_losses_as_trainer_and_as_one_big_batch(ranks, tmp_path, base, task):
    preset = task(tmp_path, base)
    run = new_run(tmp_path, preset)
    assert ranks(1).run(train_on_rank, str(run.root))[0][0] == "finished"
    ours = list(losses(run).values())
    theirs, big, averaged = ranks(1).run(other_losses, dump_preset(preset, full=True), str(tmp_path))[0]
    assert len(ours) == len(theirs) == len(big) == 6 and ours[-1] < ours[0] - 0.05
    assert ours == pytest.approx(big, rel=1e-5)
    if task is classification:
        # Trainer believes that a classifier divides by `num_items_in_batch`, as language models do. It does not, and so the
        # loss and its gradient are as many times too large as there are micro-batches, unless it is told otherwise.
        assert ours == pytest.approx(averaged, rel=1e-5)
        return
    assert ours == pytest.approx(theirs, rel=1e-5)
    if task is instructions:  # packed sequences are nearly all of one length
        # the mean of the micro-batches' means is not the loss of the batch
        assert max(abs(a - b) / b for a, b in zip(averaged, big, strict=True)) > 1e-3


def other_losses(_rank: int, text: str, folder: str) -> tuple[list[float], list[float], list[float]]:
    """(Trainer's, one big batch's, Trainer's when it averages the micro-batches itself) loss of each step."""
    from transformers import AutoTokenizer

    from engine.tasks.base import find_task

    preset = parse_preset(text)
    task = find_task(preset.task)
    task.prepare_data(preset, Path(folder, "data"), lambda *_: None)
    data, tokenizer = task.open_data(Path(folder, "data")), AutoTokenizer.from_pretrained(Path(folder, "data", "tokenizer"))
    train = data.train

    def model() -> Any:
        return task.build_model(preset, tokenizer, data)  # the same weights each time

    steps = [train.step_indices(preset.training.seed, step, preset.training.global_batch) for step in range(preset.training.max_steps)]
    if preset.task == "llm-sft":
        targets = [[int(train.targets[micro].sum()) for micro in indices.reshape(4, 2)] for indices in steps]
        assert max(max(step) / min(step) for step in targets) > 2, targets
    return (trainer(preset, model(), train, steps, folder), one_big_batch(preset, model(), train, steps),
            trainer(preset, model(), train, steps, folder, counted=False))


def trainer(preset: Preset, model: Any, train: Any, steps: list[Any], folder: str, counted: bool = True) -> list[float]:
    import torch
    from accelerate.state import AcceleratorState, GradientState, PartialState
    from transformers import Trainer, TrainingArguments

    for state in (AcceleratorState, GradientState, PartialState):
        state._reset_state()
    plan, order = preset.training, [int(index) for indices in steps for index in indices]
    found: list[float] = []

    class InOrder(Trainer):
        def _get_train_sampler(self, *_: Any) -> Any:
            return torch.utils.data.SequentialSampler(order)

        def training_step(self, *args: Any, **kwargs: Any) -> Any:
            loss = super().training_step(*args, **kwargs)
            found.append(float(loss))
            return loss

    def collate(indices: list[int]) -> dict[str, torch.Tensor]:
        batch = train.collate(indices)
        if preset.task == "text-classification":
            return batch
        # transformers shifts the labels itself, so the target of the last position becomes an input of its own
        last = batch["labels"][:, -1:]
        labels = torch.cat([torch.full_like(last, -100), batch["labels"]], dim=1)
        inputs = torch.cat([batch["input_ids"], last.clamp(min=0)], dim=1)
        if preset.data.packing:
            positions = torch.cat([batch["position_ids"], batch["position_ids"][:, -1:] + 1], dim=1)
            return {"input_ids": inputs, "labels": labels, "position_ids": positions}
        real = torch.arange(labels.size(1)) < torch.from_numpy(train.tokens[indices])[:, None]
        return {"input_ids": inputs, "labels": labels, "attention_mask": real.long()}

    arguments = TrainingArguments(
        folder + "/trainer", max_steps=plan.max_steps, per_device_train_batch_size=plan.micro_batch,
        gradient_accumulation_steps=plan.gradient_accumulation, learning_rate=plan.learning_rate, lr_scheduler_type=plan.scheduler,
        weight_decay=plan.weight_decay, max_grad_norm=plan.max_grad_norm, adam_beta2=beta2(preset), optim="adamw_torch", use_cpu=True, report_to="none",
        save_strategy="no", disable_tqdm=True, remove_unused_columns=False)
    made = InOrder(model, arguments, data_collator=collate, train_dataset=order)
    if not counted:
        made.model_accepts_loss_kwargs = False
    made.train()
    count = plan.gradient_accumulation
    return [sum(found[first: first + count]) for first in range(0, len(found), count)]


def beta2(preset: Preset) -> float:
    return 0.999 if preset.model.path else 0.95


def one_big_batch(preset: Preset, model: Any, train: Any, steps: list[Any]) -> list[float]:
    import torch

    plan = preset.training
    matrices, vectors = ([weight for weight in model.parameters() if (weight.ndim >= 2) is big] for big in (True, False))
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": plan.weight_decay}, {"params": vectors, "weight_decay": 0.0}],
                                  lr=plan.learning_rate, betas=(0.9, beta2(preset)))
    found = []
    for step, indices in enumerate(steps):
        for group in optimizer.param_groups:
            group["lr"] = plan.learning_rate * (1 - step / len(steps))
        batch = train.collate(indices)
        labels = batch.pop("labels")
        logits = model(**batch, **({} if preset.task == "text-classification" else {"use_cache": False})).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, -2), labels.flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), plan.max_grad_norm)
        optimizer.step()
        optimizer.zero_grad()
        found.append(float(loss))
    return found
