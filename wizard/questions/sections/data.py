"""What it learns from."""

from __future__ import annotations

from typing import Any

from wizard import formatting
from wizard.questions import wording
from wizard.questions.context import Context
from wizard.questions.question import Answer, Choice, Invalid, Question, auto_or, whole

_ROLE = {"llm-pretrain": "text", "llm-sft": "messages"}


def _train_default(context: Context) -> Answer:
    given = context.given("data.train", starter=False)
    if given:
        return given
    if context.values.get("task") == "llm-pretrain" and context.starter.get("data.train"):
        return Answer(context.starter["data.train"], "default", "the documentation every Python carries: real text, no download")
    return Answer(None, "default")


def _train_note(context: Context) -> str:
    facts = context.data
    if facts is not None and facts.unknown:
        return " ".join(f"{why[:1].upper()}{why[1:]}." for why in facts.unknown.values())
    return wording.found(wording.data(facts))


def column_role(context: Context) -> str:
    """The role (key of `data.columns`) of the column that is learned from."""
    return _ROLE.get(context.values.get("task", ""), "text")


def _asks_column(context: Context) -> bool:
    """Only where it was not found by itself."""
    facts = context.data
    if facts is None or not facts.columns:
        return False
    if context.preset.get("data.columns"):
        return any(name not in facts.columns for name in context.preset["data.columns"].values())
    if context.values.get("task") == "text-classification":
        return "text" not in facts.label_roles
    roles = set(facts.roles)
    return not (column_role(context) in roles or (column_role(context) == "messages" and {"prompt", "completion"} <= roles))


def _column_default(context: Context) -> Answer:
    given = context.preset.get("data.columns", {}).get(column_role(context))
    columns = context.data.columns if context.data else []
    if given in columns:
        return context.from_preset(given)
    likely = [name for name in columns if column_role(context).rstrip("s") in name.lower()]
    if likely:
        return Answer(likely[0], "detected", "the likeliest by its name")
    return Answer(columns[0] if columns else None, "default", "the first column")


def _asks_label(context: Context) -> bool:
    facts = context.data
    return (context.values.get("task") == "text-classification" and facts is not None and bool(facts.columns)
            and "label" not in facts.label_roles and context.preset.get("data.columns", {}).get("label") not in facts.columns)


def _label_default(context: Context) -> Answer:
    rest = [name for name in (context.data.columns if context.data else []) if name != context.values.get("data.column")]
    return Answer(rest[-1] if rest else None, "default", "the last column")


def _label_preset(value: Any, context: Context) -> dict[str, Any]:
    text = context.values.get("data.column")
    return {"data.columns": {**context.preset.get("data.columns", {}), **({"text": text} if text else {}), "label": value}}


def _valid(text: str) -> float | str | None:
    if text.lower() in ("none", "no", "0", "0 %", "0%"):
        return None
    share = text.removesuffix("%").strip()
    try:
        value = float(share) / (100 if text.endswith("%") else 1)
    except ValueError:
        return text
    if not 0 < value < 1:
        raise Invalid(f"{text} is not a share; give one like 2 % (or 0.02), a file, or `none`.")
    return value


def _valid_text(value: Any) -> str:
    return f"{value * 100:g} %" if isinstance(value, float) else ("none" if value is None else str(value))


def _valid_default(context: Context) -> Answer:
    if context.opened:
        return context.from_preset(context.preset.get("data.valid"))
    return context.given("data.valid") or Answer(0.05, "default", "enough to see whether it learns or only memorizes")


def _length_default(context: Context) -> Answer:
    given = context.given("data.max_length")
    return given or context.recommended("data.max_length", "max_length", otherwise="auto")


def _length_check(value: Any, context: Context) -> str | None:
    limit = context.model.max_positions if context.model else None
    if isinstance(value, int) and limit and value > limit:
        return f"The model can see {limit:,} tokens at once; give at most that."
    return None


TRAIN = Question(
    key="data.train", section="Data", kind="path",
    title="Where is the training data?",
    help="A file (text, JSONL, JSON, CSV, Parquet), a folder of such files, or a Hugging Face dataset id. It stays where it "
         "is. `builtin:python-docs` is the documentation that comes with Python: about two megabytes of English.",
    default=_train_default, note=_train_note, reads="data", placeholder="./data/dialogues.jsonl",
)

COLUMN = Question(
    key="data.column", section="Data", kind="choice",
    title="Which column holds what it should learn?",
    help="Plain text is learned as it is. A column of conversations holds, in each row, a list of {role, content}; only "
         "the assistant's turns are learned.",
    default=_column_default, when=_asks_column, keep_unasked=True, keys=("data.columns",),
    choices=lambda c: [Choice(name, name) for name in c.data.columns] if c.data else [],
    preset=lambda value, c: {"data.columns": {**c.preset.get("data.columns", {}), column_role(c): value}},
)

LABEL = Question(
    key="data.label", section="Data", kind="choice",
    title="Which column holds the label?",
    help="The class that each text belongs to: a name, or a whole number. Every class that is to be told apart must occur in "
         "the training data.",
    default=_label_default, when=_asks_label, keep_unasked=True, keys=("data.columns",), preset=_label_preset,
    choices=lambda c: [Choice(name, name) for name in c.data.columns] if c.data else [],
)

VALID = Question(
    key="data.valid", section="Data", kind="text",
    title="How is it checked while it trains?",
    help="A share of the rows is held out: never trained on, only measured. When the loss on it rises while the training "
         "loss falls, the model memorizes. Give a share (2 %), a file of its own, or `none`.",
    default=_valid_default, parse=_valid, show=_valid_text, required=False, placeholder="none",
)

MAX_LENGTH = Question(
    key="data.max_length", section="Data", kind="number",
    title="How long may a sequence be, in tokens?",
    help="Longer rows are cut, shorter ones are packed together, so nothing is wasted on padding. Memory grows with it, and "
         "attention grows with its square. A token is about three quarters of an English word.",
    default=_length_default, check=_length_check, parse=auto_or(whole(8, unit="tokens")),
    show=lambda value: "auto" if value == "auto" else formatting.count(value), placeholder="1024",
)
