"""All questions in the order in which they are asked."""

from __future__ import annotations

from wizard.questions.question import Question
from wizard.questions.sections import data, machine, model, network, review, task, training

QUESTIONS: list[Question] = [
    machine.GPUS, machine.PROCESSES,
    task.TASK,
    model.SOURCE, model.PATH, model.CONFIG, model.ADAPTER,
    data.TRAIN, data.COLUMN, data.VALID, data.MAX_LENGTH,
    training.LENGTH, training.BATCH, training.RATE, training.PRECISION,
    network.NODES, network.ADDRESS, network.INTERFACE, network.STRATEGY, network.BACKEND,
    review.NAME,
]
