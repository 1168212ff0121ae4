"""What kind of training it is."""

from __future__ import annotations

from engine.contract.preset import TRAINABLE_TASKS
from wizard.questions.context import Context
from wizard.questions.question import Answer, Choice, Question

_WORDS = {
    "llm-pretrain": ("Language modelling", "learn from plain text, from scratch or going on from a model"),
    "llm-sft": ("Instruction tuning", "teach a pretrained model to answer, from conversations"),
}


def _default(context: Context) -> Answer:
    given = context.preset.get("task")
    if given:
        return context.from_preset(given)
    return Answer(context.starter.get("task", "llm-pretrain"), "default", "as in the quickstart")


def _choices(context: Context) -> list[Choice]:
    found = [Choice(task, *_WORDS.get(task, (task, ""))) for task in TRAINABLE_TASKS]
    given = context.preset.get("task")
    if given and given not in TRAINABLE_TASKS:
        found.append(Choice(given, given, impossible="this version cannot train it yet"))
    return found


TASK = Question(
    key="task", section="Task", kind="choice",
    title="What shall the model learn?",
    help="Language modelling predicts the next token of plain text; it needs only text, and can begin with an empty "
         "model. Instruction tuning (SFT) needs a pretrained model and examples of the answers it should give.",
    default=_default, choices=_choices,
)
