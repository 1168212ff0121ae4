"""The last word before the review."""

from __future__ import annotations

import re

from engine.contract.preset import Preset
from wizard.questions.context import Context
from wizard.questions.question import Answer, Invalid, Question


def slug(text: str) -> str:
    """`text` as a name of a run: letters, digits, dot, dash, underscore; never empty."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-._")
    return re.sub(r"\.{2,}", ".", plain)[:64] or "training"


def _default(context: Context) -> Answer:
    if context.preset.get("name"):
        return context.from_preset(context.preset["name"])
    if context.values.get("script.path"):
        return Answer(slug(re.sub(r"\.py$", "", _last(str(context.values["script.path"])))), "default", "from the script")
    data = str(context.values.get("data.train") or "")
    if context.uses_starter and data == context.starter.get("data.train"):
        return Answer(context.starter.get("name", "quickstart"), "default", "the folder of its runs")
    model = context.values.get("model.path") or ("scratch" if context.values.get("model.source") else "")
    parts = [_last(str(model)), _last(data)]
    return Answer(slug("-".join(part for part in parts if part)), "default", "from model and data")


def _last(path: str) -> str:
    name = path.rstrip("/").split("/")[-1].split(":")[-1]
    return re.sub(r"\.(jsonl?|csv|parquet|txt|md|zst|gz)$", "", name)


def _name(text: str) -> str:
    try:
        Preset(name=text, task="script", script={"path": "any"})
    except ValueError:
        raise Invalid(f"{text!r} cannot name a folder; use letters, digits, dots, dashes, at most 64 "
                      f"(for example {slug(text)}).") from None
    return text


NAME = Question(
    key="name", section="Review", kind="text",
    title="What shall it be called?",
    help="The name of the preset and of the folder its runs are kept in. Every run gets a folder of its own below it, named "
         "by date and time, so nothing is ever overwritten.",
    default=_default, parse=_name, placeholder="my-first-training",
)
