"""How long, how much at a time, how fast."""

from __future__ import annotations

import math
import re
from typing import Any

from wizard.questions.context import Context
from wizard.questions.question import Answer, Choice, Invalid, Question, auto_or, number_text, positive, whole

_UNITS = (("training.max_steps", "steps"), ("training.epochs", "epochs"))
_LENGTH = re.compile(r"([0-9][0-9_,]*(?:\.[0-9]+)?)\s*(steps?|epochs?|passes|pass)?", re.IGNORECASE)


def _parse_length(text: str) -> tuple[str, int | float]:
    match = _LENGTH.fullmatch(text)
    if not match or not match[2]:
        raise Invalid(f"{text!r} could be steps or epochs; give for example `200 steps` or `3 epochs`.")
    number = float(match[1].replace(",", "").replace("_", ""))
    if number <= 0:
        raise Invalid("Nothing would be trained; give at least `1 step`.")
    if match[2].lower().startswith("step"):
        if number != int(number):
            raise Invalid("Steps are whole; give for example `200 steps`.")
        return "steps", int(number)
    return "epochs", number


def _length_text(value: tuple[str, int | float]) -> str:
    unit, number = value
    return f"{number:,g} {unit if number != 1 else unit[:-1]}" if number < 1e6 else f"{int(number):,} {unit}"


def _length_default(context: Context) -> Answer:
    for key, unit in _UNITS:
        if context.preset.get(key):
            return context.from_preset((unit, context.preset[key]))
    for key, unit in _UNITS if context.uses_starter else ():
        if context.starter.get(key):
            return Answer((unit, context.starter[key]), "default", "as in the quickstart: a few minutes")
    return Answer(("epochs", 1.0), "default", "one pass over the data")


def _length_note(context: Context) -> str:
    rows = context.data.rows if context.data else None
    batch = context.values.get("training.global_batch")
    if not rows or not isinstance(batch, int) or context.values.get("task") == "llm-pretrain":
        return ""  # how many sequences packed text makes is known only once it is tokenized
    return f"{rows:,} rows at {batch} a step: at most {math.ceil(rows / batch):,} steps an epoch, fewer when rows are packed."


def _batch_default(context: Context) -> Answer:
    given = context.given("training.global_batch", starter=context.on_cpu)
    return given or context.recommended("training.global_batch", "batch", otherwise="auto")


def _batch_check(value: Any, context: Context) -> str | None:
    ranks = context.ranks
    if not isinstance(value, int) or not ranks or value % ranks == 0:
        return None
    near = sorted({max(1, value // ranks) * ranks, (value // ranks + 1) * ranks})
    return f"{value} cannot be shared evenly by {ranks} ranks; {' or '.join(map(str, near))} can."


def _batch_note(context: Context) -> str:
    ranks, batch = context.ranks, context.values.get("training.global_batch")
    micro = context.setting("training.micro_batch")
    if not isinstance(ranks, int) or not isinstance(batch, int) or not isinstance(micro, int) or batch % (ranks * micro):
        return ""
    return f"{micro} at once x {batch // (ranks * micro)} accumulated x {ranks} {'ranks' if ranks > 1 else 'rank'} = {batch} a step."


def _rate_check(value: Any, context: Context) -> str | None:
    return "A rate above 1 diverges at once; usual ones lie between 1e-6 and 1e-2." if isinstance(value, float) and value > 1 else None


def _rate_default(context: Context) -> Answer:
    given = context.given("training.learning_rate")
    return given or context.recommended("training.learning_rate", "learning_rate", otherwise="auto")


def _precision_default(context: Context) -> Answer:
    given = context.given("training.precision", starter=False)
    return given or context.recommended("training.precision", "precision", otherwise="auto")


LENGTH = Question(
    key="training.length", section="Training", kind="text",
    title="How long shall it train?",
    help="In steps (one update of the weights each) or in epochs (passes over all data). Fine-tuning usually takes 1 to 3 "
         "epochs; more of them on little data is memorizing.",
    default=_length_default, note=_length_note, parse=_parse_length, show=_length_text, placeholder="3 epochs",
    keys=("training.max_steps", "training.epochs"),
    preset=lambda value, c: {"training.max_steps": value[1] if value[0] == "steps" else None,
                             "training.epochs": float(value[1]) if value[0] == "epochs" else None},
)

def _batch_preset(value: Any, context: Context) -> dict[str, Any]:
    """A new batch makes the opened preset's accumulation wrong: of the three numbers it is the one that follows."""
    changed = context.preset.get("training.global_batch") != value
    return {"training.global_batch": value} | ({"training.gradient_accumulation": None} if changed else {})


BATCH = Question(
    key="training.global_batch", section="Training", kind="number",
    title="How many sequences make one step?",
    help="The batch over all ranks together. It is what the learning rate belongs to; how it is split into what fits into "
         "memory at once is worked out for you. Larger is steadier and hides communication, smaller learns in fewer tokens.",
    default=_batch_default, check=_batch_check, note=_batch_note, parse=auto_or(whole(1)), placeholder="16",
    preset=_batch_preset,
)

RATE = Question(
    key="training.learning_rate", section="Training", kind="number",
    title="Which learning rate, at its peak?",
    help="The size of each update. Too high and the loss explodes, too low and nothing is learned in time. Usual: 1e-3 and "
         "above from scratch on small models, 1e-4 to 2e-4 for LoRA, 1e-5 to 5e-5 for all weights of a pretrained one.",
    default=_rate_default, check=_rate_check, parse=auto_or(positive), placeholder="2e-4",
    show=lambda value: "auto" if value == "auto" else number_text(value),
)

PRECISION = Question(
    key="training.precision", section="Training", kind="choice",
    title="In which number format does it compute?",
    help="Half the bits are twice as fast or better on GPUs made for it, and halve the memory of activations. bf16 keeps "
         "the range of fp32 and needs no care; fp16 needs loss scaling (done for you) and can overflow.",
    default=_precision_default, when=lambda c: not c.on_cpu, keep_unasked=True,
    choices=lambda c: [
        *([Choice("auto", "decided at the launch", "by what the GPU can do")] if c.setting("training.precision") is None else []),
        Choice("bf16", "bf16", "16 bits, the range of fp32; Ampere (A100, RTX 30) and newer"),
        Choice("fp16", "fp16", "16 bits with loss scaling; for older GPUs"),
        Choice("fp32", "fp32", "32 bits; the reference, slowest"),
    ],
)
