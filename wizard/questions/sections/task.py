"""What kind of training it is."""

from __future__ import annotations

from engine.contract.preset import TRAINABLE_TASKS
from wizard.questions.context import Context
from wizard.questions.question import Answer, Choice, Question

_WORDS = {
    "llm-pretrain": ("Language modelling", "learn from plain text, from scratch or going on from a model"),
    "llm-sft": ("Instruction tuning", "teach a pretrained model to answer, from conversations"),
    "text-classification": ("Text classification", "tell classes of texts apart, from texts with labels"),
    "script": ("My own script", "a training script you have: launched, watched and stopped like the rest"),
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
    help="Language modelling needs only text, tuning (SFT) a pretrained model and examples of good answers, classification "
         "texts with labels. A script of yours runs as it is.",
    default=_default, choices=_choices,
)

SCRIPT = Question(
    key="script.path", section="Task", kind="path",
    title="Which script trains?",
    help="A Python file that joins its ranks by itself, with accelerate or torch.distributed. Steps are read off its lines, "
         "or told with `from engine.report import step`. It runs in the folder of the preset.",
    default=lambda c: c.given("script.path", starter=False) or Answer(None, "default"),
    when=lambda c: c.values.get("task") == "script", placeholder="./train.py",
)
