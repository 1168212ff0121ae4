"""What the training data is: columns, rows, kind and lengths, from a look at its beginning."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from engine.contract.preset import Preset
from engine.contract.problems import nearest_key
from wizard.errors import InvalidError
from wizard.facts.locate import is_path, resolve
from wizard.facts.sampling import Sample, format_of, sample_file

Kind = Literal["text", "chat", "prompt-completion", "unknown"]
BUILTIN = "builtin:python-docs"

#: Columns by what they usually hold, most telling first.
_CHAT = ("messages", "conversations", "conversation", "dialog", "dialogue", "chat")
_PAIRS = (
    ("prompt", "completion"),
    ("prompt", "response"),
    ("instruction", "output"),
    ("instruction", "response"),
    ("question", "answer"),
    ("input", "output"),
    ("query", "response"),
    ("context", "response"),
)
_TEXT = ("text", "content", "document", "body", "article")
#: For labelled texts, as in `engine.data.columns`.
_LABELS = ("label", "labels", "class", "category", "target", "sentiment", "intent", "topic", "emotion")
_SHORT_TEXTS = ("sentence", "sentence1", "premise", "review", "comment", "tweet", "message", "utterance", "query", "question",
                "title")
_TEXT_PAIRS = (("sentence1", "sentence2"), ("premise", "hypothesis"), ("question1", "question2"), ("text1", "text2"),
               ("text_a", "text_b"), ("question", "sentence"), ("text", "text_pair"))
#: Files sampled in a folder; their number beyond this changes nothing about columns and lengths.
_MOST_SAMPLED = 8
_SIDE_FILES = {"dataset_info.json", "dataset_infos.json", "dataset_dict.json", "state.json", "metadata.json"}
_HELD_OUT = re.compile(r"(^|[-_./])(valid|validation|val|dev|test|eval)([-_./]|$)", re.I)


class Lengths(BaseModel):
    """Characters in one row (all text of a conversation together), over `rows` sampled rows."""

    rows: int
    mean: float
    p50: float
    p95: float
    longest: float


class DataFacts(BaseModel):
    """Facts of one data set. `rows` is None where counting would mean reading or downloading it whole."""

    model_config = ConfigDict(extra="ignore")

    source: str
    found: bool = Field(description="it was read; False for a hub id that is not on this machine")
    format: str | None = None
    kind: Kind = "unknown"
    columns: list[str] = Field(default_factory=list)
    roles: dict[str, str] = Field(
        default_factory=dict, description="role (text, messages, prompt, completion): column found for it"
    )
    label_roles: dict[str, str] = Field(
        default_factory=dict, description="role (text, text_pair, label) to column, seen as labelled texts"
    )
    rows: int | None = None
    files: int | None = None
    bytes: int | None = None
    lengths: Lengths | None = None
    bad_rows: int = Field(0, description="rows among the sampled ones that could not be read")
    unknown: dict[str, str] = Field(default_factory=dict)


def read_data_facts(source: str, base: Path) -> DataFacts:
    """Facts of `data.train` or `data.valid`, seen from the folder `base`.

    Raises InvalidError when a local path is not there, holds no data, or cannot be read.
    """
    if source.startswith("builtin:"):
        if source != BUILTIN:
            raise InvalidError(
                f"data: there is no built-in data {source}", f"{BUILTIN} is there; or give a file, folder or hub id"
            )
        return DataFacts(
            source=source, found=True, format="builtin", kind="text", columns=["text"], roles={"text": "text"}
        )
    if not is_path(source, base, data=True):
        return DataFacts(
            source=source,
            found=False,
            format="hub",
            unknown={"data": f"{source} is a hub data set; its rows and columns are known once it is downloaded"},
        )
    path = resolve(source, base)
    if not path.exists():
        raise InvalidError(f"data: {path} does not exist", _instead(path))
    if path.is_dir() and ((path / "state.json").exists() or (path / "dataset_dict.json").exists()):
        return DataFacts(
            source=source,
            found=True,
            format="saved data set",
            unknown={"data": "a folder saved by the datasets library; its rows are read when the training starts"},
        )
    files = _files(path)
    samples = [sample_file(file) for file in files[:_MOST_SAMPLED]]
    rows = [row for sample in samples for row in sample.rows]
    total = (
        sum(sample.total for sample in samples)
        if len(files) <= _MOST_SAMPLED and all(s.total is not None for s in samples)
        else None
    )
    size = sum(file.stat().st_size for file in files)
    if not rows:
        bad = sum(sample.bad for sample in samples)
        raise InvalidError(
            f"data: {path} " + (f"has no usable row ({bad} could not be read)" if bad else "is empty"),
            "give data with at least one row",
        )
    return _describe(source, format_of(files[0]) or "", rows, samples, total, len(files), size)


def _describe(
    source: str,
    kind_of_file: str,
    rows: list[dict[str, Any]],
    samples: list[Sample],
    total: int | None,
    files: int,
    size: int,
) -> DataFacts:
    columns = list(dict.fromkeys(name for sample in samples for name in sample.columns))
    text_file = kind_of_file == "text"
    kind, roles = ("text", {"text": "text"}) if text_file else recognise(columns, rows)
    labelled = {} if text_file else recognise_labels(columns, rows)
    unknown = {} if total is not None or text_file else {"rows": "the file is large; rows are counted when it is read"}
    # a text file has no rows of its own: the engine cuts it at paragraphs
    return DataFacts(
        source=source,
        found=True,
        format=kind_of_file,
        kind=kind,
        columns=columns,
        roles=roles,
        label_roles=labelled,
        rows=None if text_file else total,
        files=files,
        bytes=size,
        lengths=None if text_file else lengths_of(rows, roles or {k: v for k, v in labelled.items() if k != "label"}),
        bad_rows=sum(sample.bad for sample in samples),
        unknown=unknown,
    )


def recognise(columns: list[str], rows: list[dict[str, Any]]) -> tuple[Kind, dict[str, str]]:
    """The kind of the rows and the column of each role, from names and values."""
    lower = {name.lower(): name for name in reversed(columns)}
    for name in _CHAT:
        if name in lower and _is_conversation(rows, lower[name]):
            return "chat", {"messages": lower[name]}
    for name in columns:
        if _is_conversation(rows, name):
            return "chat", {"messages": name}
    for prompt, completion in _PAIRS:
        if prompt in lower and completion in lower:
            return "prompt-completion", {"prompt": lower[prompt], "completion": lower[completion]}
    for name in _TEXT:
        if name in lower and _is_text(rows, lower[name]):
            return "text", {"text": lower[name]}
    texts = [name for name in columns if _is_text(rows, name)]
    return ("text", {"text": texts[0]}) if len(texts) == 1 else ("unknown", {})


def recognise_labels(columns: list[str], rows: list[dict[str, Any]]) -> dict[str, str]:
    """The columns of labelled texts, as the engine finds them: text, text_pair where there is one, label."""
    lower = {name.lower(): name for name in reversed(columns)}
    label = next((lower[name] for name in _LABELS if name in lower), None)
    text, pair = next(((lower[one], lower[other]) for one, other in _TEXT_PAIRS if one in lower and other in lower),
                      (None, None))
    text = text or next((lower[name] for name in (*_TEXT, "passage", *_SHORT_TEXTS) if name in lower and lower[name] != label), None)
    if len(columns) == 2 and (text is None) != (label is None):
        rest = next(name for name in columns if name not in (text, label))
        text, label = text or rest, label or rest
    if text and not _is_text(rows, text):
        text = None
    return {role: name for role, name in (("text", text), ("text_pair", pair), ("label", label)) if name}


def check_columns(preset: Preset, facts: DataFacts) -> None:
    """Raises InvalidError when `data.columns` names a column that the data does not have."""
    if not facts.columns or not facts.found:
        return
    wrong = {role: name for role, name in preset.data.columns.items() if name not in facts.columns}
    if not wrong:
        return
    words = []
    for role, name in wrong.items():
        near = nearest_key(name, facts.columns)
        words.append(
            f"data.columns.{role}: there is no column {name!r} in {facts.source}"
            + (f" (did you mean {near!r}?)" if near else "")
        )
    raise InvalidError("\n".join(words), f"the columns are: {', '.join(facts.columns)}")


def lengths_of(rows: list[dict[str, Any]], roles: dict[str, str]) -> Lengths | None:
    """Characters a row would train on; None when no role is known."""
    if not roles:
        return None
    sizes = sorted(sum(_characters(row.get(name)) for name in roles.values()) for row in rows)
    return Lengths(
        rows=len(sizes),
        mean=round(sum(sizes) / len(sizes), 1),
        p50=sizes[len(sizes) // 2],
        p95=sizes[min(len(sizes) - 1, len(sizes) * 95 // 100)],
        longest=sizes[-1],
    )


def _characters(value: Any) -> int:
    if isinstance(value, str):
        return len(value)
    if isinstance(value, list):
        return sum(_characters(item) for item in value)
    if isinstance(value, dict):  # a message: what was said, not who said it
        return sum(_characters(value[key]) for key in ("content", "value", "text") if key in value)
    return 0


def _is_conversation(rows: list[dict[str, Any]], name: str) -> bool:
    values = [row.get(name) for row in rows[:50] if row.get(name)]
    return bool(values) and all(
        isinstance(value, list)
        and value
        and all(isinstance(turn, dict) and {"role", "from"} & turn.keys() for turn in value)
        for value in values
    )


def _is_text(rows: list[dict[str, Any]], name: str) -> bool:
    values = [row.get(name) for row in rows[:50] if row.get(name) is not None]
    return bool(values) and all(isinstance(value, str) for value in values)


def _files(path: Path) -> list[Path]:
    """The data files of a path, as the engine picks them: tables before texts, held-out splits left aside."""
    if path.is_file():
        if format_of(path) is None:
            raise InvalidError(
                f"data: the format of {path} is not known by its name",
                "text (.txt, .md), .jsonl, .json, .csv, .tsv and .parquet can be read, with .gz or .zst after it",
            )
        return [path]
    found: list[Path] = []
    for where, folders, names in os.walk(path):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        found += [
            Path(where, name)
            for name in sorted(names)
            if not name.startswith(".") and name not in _SIDE_FILES and format_of(Path(name))
        ]
    if not found:
        raise InvalidError(
            f"data: no data files in the folder {path}",
            "it needs files ending in .txt, .jsonl, .json, .csv, .tsv or .parquet",
        )
    tables = [file for file in found if format_of(file) != "text"]
    chosen = tables or found
    return [file for file in chosen if not _HELD_OUT.search(file.relative_to(path).as_posix())] or chosen


def _instead(path: Path) -> str:
    parent = path.parent
    while not parent.exists() and parent != parent.parent:
        parent = parent.parent
    try:
        names = sorted(item.name for item in parent.iterdir() if not item.name.startswith("."))
    except OSError:
        names = []
    near = nearest_key(path.name, names)
    shown = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
    return (f"did you mean {near}? " if near else "") + (
        f"{parent} holds: {shown}" if names else f"{parent} is empty or cannot be read"
    )
