"""Which columns hold what: by the preset's `data.columns`, else by the names that are common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from engine.contract.problems import nearest_key
from engine.errors import DataError

Kind = Literal["text", "messages", "pair"]
ROLES = ("text", "messages", "prompt", "completion")

_TEXT = ("text", "content", "document", "body", "article", "passage")
_MESSAGES = ("messages", "conversations", "conversation", "dialogue", "dialog", "chat")
_PROMPT = ("prompt", "instruction", "question", "query", "problem")
_COMPLETION = ("completion", "response", "output", "answer", "solution")
LABEL_ROLES = ("text", "text_pair", "label")
_LABEL = ("label", "labels", "class", "category", "target", "sentiment", "intent", "topic", "emotion")
_SHORT_TEXT = ("sentence", "sentence1", "premise", "review", "comment", "tweet", "message", "utterance", "query", "question",
               "title")
_TEXT_PAIRS = (("sentence1", "sentence2"), ("premise", "hypothesis"), ("question1", "question2"), ("text1", "text2"),
               ("text_a", "text_b"), ("question", "sentence"), ("text", "text_pair"))
#: What an Alpaca-style row adds to its instruction.
_CONTEXT = "input"


@dataclass(frozen=True)
class Columns:
    """`kind` says how a row is read; the other fields name its columns.

    `natural` is True for a pair that is a question to an assistant (instruction and output, question and answer)
    rather than a text and its continuation, which a column that is itself named `prompt` begins.
    """

    kind: Kind
    text: str | None = None
    messages: str | None = None
    prompt: str | None = None
    completion: str | None = None
    context: str | None = None
    natural: bool = False

    def named(self) -> dict[str, str]:
        """Role to column name, for a report."""
        return {role: name for role in (*ROLES, "context") if (name := getattr(self, role)) is not None}


@dataclass(frozen=True)
class LabelColumns:
    """The columns of labelled texts; `pair` is the second text, where a label belongs to two."""

    text: str
    pair: str | None
    label: str

    def named(self) -> dict[str, str]:
        """Role to column name, for a report."""
        return {"text": self.text, **({"text_pair": self.pair} if self.pair else {}), "label": self.label}


def find_columns(task: str, columns: Sequence[str], given: Mapping[str, str], source: str) -> Columns:
    """The columns of `source` for `task`; `given` is the preset's `data.columns`.

    Raises DataError naming the columns that exist when a given one does not, or when none is recognised.
    """
    _check_given(task, ROLES, columns, given, source)
    found = _text_columns(columns, given) if task == "llm-pretrain" else _sft_columns(columns, given)
    if found is None:
        wanted = "a text column" if task == "llm-pretrain" else \
            "messages, a prompt with its completion, or a text column"
        example = "{text: NAME}" if task == "llm-pretrain" else "{messages: NAME}, {prompt: NAME, completion: NAME} or {text: NAME}"
        raise DataError(f"{source}: {wanted} was not found for {task}; the columns are {_listed(columns)}. Say which to "
                        f"use with data.columns: {example}.")
    return found


def find_label_columns(columns: Sequence[str], given: Mapping[str, str], source: str) -> LabelColumns:
    """The columns of `source` for text-classification. Raises DataError as `find_columns` does."""
    _check_given("text-classification", LABEL_ROLES, columns, given, source)
    label = given.get("label") or _first(columns, _LABEL)
    text, pair = given.get("text"), given.get("text_pair")
    if text is None and pair is None:
        by_lower = {column.lower(): column for column in reversed(columns)}
        text, pair = next(((by_lower[one], by_lower[other]) for one, other in _TEXT_PAIRS
                           if one in by_lower and other in by_lower), (None, None))
    text = text or _first([column for column in columns if column not in (label, pair)], (*_TEXT, *_SHORT_TEXT))
    if len(columns) == 2 and (text is None) != (label is None):
        other = next(column for column in columns if column not in (text, label))
        text, label = text or other, label or other
    if text is None or label is None:
        raise DataError(f"{source}: {'the text' if text is None else 'the label'} was not found for text-classification; "
                        f"the columns are {_listed(columns)}. Say which to use with data.columns: {{text: NAME, label: NAME}} "
                        "(and text_pair: NAME for a second text).")
    return LabelColumns(text, pair, label)


def _check_given(task: str, roles: Sequence[str], columns: Sequence[str], given: Mapping[str, str], source: str) -> None:
    for role, name in given.items():
        if role not in roles:
            near = nearest_key(role, roles)
            raise DataError(f"data.columns: no role {role!r} for {task}; roles are {', '.join(roles)}"
                            f"{f' (did you mean {near}?)' if near else ''}.")
        if name not in columns:
            near = nearest_key(name, columns)
            raise DataError(f"data.columns.{role}: there is no column {name!r} in {source}; there are "
                            f"{_listed(columns)}{f' (did you mean {near}?)' if near else ''}.")


def _text_columns(columns: Sequence[str], given: Mapping[str, str]) -> Columns | None:
    name = given.get("text") or _first(columns, _TEXT)
    if name is None and not given and len(columns) == 1:
        name = columns[0]
        if name.lower() in _MESSAGES:
            return None
    return Columns("text", text=name) if name else None


def _sft_columns(columns: Sequence[str], given: Mapping[str, str]) -> Columns | None:
    if "messages" in given:
        return Columns("messages", messages=given["messages"])
    if "prompt" in given or "completion" in given:
        return _pair(given.get("prompt") or _first(columns, _PROMPT),
                     given.get("completion") or _first(columns, _COMPLETION), columns)
    if "text" in given:
        return Columns("text", text=given["text"])
    messages = _first(columns, _MESSAGES)
    if messages:
        return Columns("messages", messages=messages)
    completion = _first(columns, _COMPLETION)
    pair = _pair(_first(columns, _PROMPT) or (_first(columns, (_CONTEXT,)) if completion else None), completion, columns)
    return pair or _text_columns(columns, given)


def _pair(prompt: str | None, completion: str | None, columns: Sequence[str]) -> Columns | None:
    if prompt is None or completion is None:
        return None
    context = _first(columns, (_CONTEXT,)) if prompt.lower() == "instruction" else None
    return Columns("pair", prompt=prompt, completion=completion, context=context, natural=prompt.lower() != _PROMPT[0])


def _first(columns: Sequence[str], names: Sequence[str]) -> str | None:
    by_lower = {column.lower(): column for column in reversed(columns)}
    return next((by_lower[name] for name in names if name in by_lower), None)


def _listed(columns: Sequence[str]) -> str:
    shown = ", ".join(map(repr, columns[:20]))
    return f"{shown} and {len(columns) - 20} more" if len(columns) > 20 else shown or "none"
