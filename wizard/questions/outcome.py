"""From answers to the preset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

from pydantic import BaseModel

from engine.contract import yaml_text
from engine.contract.load import known_keys, section_type
from engine.contract.preset import VERSION, Preset
from wizard.questions.context import Context
from wizard.questions.needs import flatten, nest
from wizard.questions.question import Answer, Question


def _auto_keys(model: type[BaseModel] = Preset, prefix: str = "") -> set[str]:
    found: set[str] = set()
    for name, spec in model.model_fields.items():
        inner = section_type(spec.annotation)
        if inner:
            found |= _auto_keys(inner, f"{prefix}{name}.")
        elif any(part == Literal["auto"] for part in (spec.annotation, *get_args(spec.annotation))):
            found.add(prefix + name)
    return found


#: The preset keys that may be left to the machine that runs the preset.
AUTO_KEYS = frozenset(_auto_keys())
#: Pairs of which a preset may have one; a value of the person's own displaces the starter's.
_INSTEAD = (("training.warmup_ratio", "training.warmup_steps"), ("training.warmup_steps", "training.warmup_ratio"),
            ("checkpoints.every_minutes", "checkpoints.every_steps"))
_ORDER = {key: index for index, key in enumerate(known_keys())}


def flat_preset(questions: Sequence[Question], asked: Sequence[Question], current: Mapping[str, Answer],
                seen: Mapping[str, Context], context: Context) -> dict[str, Any]:
    """The preset as dotted keys: what was opened or started from, and over it the answers.

    A recommendation that was accepted is left out where the preset allows `auto`: the machine that runs it decides
    again, so the preset can be carried to another one.
    """
    flat = dict(context.starter) if context.uses_starter else {}
    for one, other in _INSTEAD:
        if one in context.preset:
            flat.pop(other, None)
    flat |= context.preset
    for question in questions:
        if question in asked or not question.keep_unasked:
            for key in question.decides:
                _remove(flat, key, below=question.key == "data.column")
    for question in asked:
        answer = current[question.key]
        meant = question.values(answer.value, seen[question.key])
        if answer.origin == "recommended" and set(meant) <= AUTO_KEYS:
            # of several keys behind one answer, what was opened with the same value stays said
            flat |= {key: value for key, value in meant.items() if value is not None and context.preset.get(key) == value}
            continue
        for key, value in meant.items():
            if value is None or value == "auto":
                _remove(flat, key, below=True)
            else:
                flat[key] = value
    return {key: value for key, value in flat.items() if value is not None}


def nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Nested sections in the order of the format, version first."""
    ordered = sorted(flat, key=lambda key: _ORDER.get(key, len(_ORDER)))
    return {"version": VERSION, **nest({key: flat[key] for key in ordered})}


def yaml_of(flat: Mapping[str, Any], text: str | None) -> str:
    """The preset as YAML. The text it was opened from is changed in place unless keys have to go."""
    if text is not None:
        written = flatten(yaml_text.load(text)[0])
        written.pop("version", None)
        if all(key in flat for key, value in written.items() if value not in (None, "auto", {})):
            return yaml_text.patch(text, {key: value for key, value in flat.items() if written.get(key) != value})
    head = "# What is not written here is decided on the machine that runs it.\n"
    return head + yaml_text.dump(nested(flat))


def _remove(flat: dict[str, Any], key: str, below: bool) -> None:
    for name in [name for name in flat if name == key or (below and name.startswith(key + "."))]:
        del flat[name]
