"""All questions in the order in which they are asked."""

from __future__ import annotations

from dataclasses import replace

from wizard.questions.question import Question
from wizard.questions.sections import data, machine, model, network, review, task, training


def _ours(question: Question) -> Question:
    """A question about what a script of the person's own decides by itself."""
    return replace(question, when=lambda context: context.values.get("task") != "script" and question.when(context))


QUESTIONS: list[Question] = [
    machine.GPUS, machine.PROCESSES,
    task.TASK, task.SCRIPT,
    *map(_ours, (
        model.SOURCE, model.PATH, model.CONFIG, model.ADAPTER,
        data.TRAIN, data.COLUMN, data.LABEL, data.VALID, data.MAX_LENGTH,
        training.LENGTH, training.BATCH, training.RATE, training.PRECISION)),
    network.NODES, network.ADDRESS, network.INTERFACE, network.STRATEGY, network.BACKEND,
    review.NAME,
]
