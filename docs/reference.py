"""Writes `preset.md`, the reference of the preset's keys, from the schema itself: `python docs/reference.py`.

`python docs/reference.py --check` writes nothing and ends with 1 when the file is out of date.
"""

from __future__ import annotations

import sys
import types
import typing
from pathlib import Path
from typing import Any, Literal

TARGET = Path(__file__).with_name("preset.md")

#: Keys the schema reserves and this version does nothing with; each is said, so that nobody waits for an effect.
RESERVED = {
    "data.kind": "for tasks that this version does not train",
    "distributed.min_nodes": "",
    "distributed.max_nodes": "",
    "distributed.deepspeed": "for a strategy that this version refuses",
    "hardware": "a note for people",
    "why": "a note for people",
}
#: What the schema's one line has no room for.
MORE = {
    "data.columns": "roles: `text`, `messages`, `prompt`, `completion`; for `text-classification` `text`, `text_pair`, "
                    "`label`; see the [guide](guide.md#columns)",
    "data.valid": "without it nothing is evaluated",
    "training.eval_every": "a number, or the word; the last step is evaluated too, unless `never`",
    "training.max_grad_norm": "`null`: not clipped",
    "distributed.env": "variables that the launch decides itself (ranks, addresses, accelerate's, `OMP_NUM_THREADS`) and "
                       "secrets are refused",
    "distributed.main_port": "`auto`: any free port on one machine, 29500 for several",
    "distributed.network_interface": "without it, the one that the route to `main_address` takes",
    "script.path": "see the [guide](guide.md#a-script-of-your-own)",
    "distributed.strategy": "`deepspeed` is understood and refused; `fsdp` shards the same things",
    "distributed.fsdp.offload_params": "never run",
    "distributed.max_restarts": "each goes on from the newest checkpoint",
    "checkpoints.every_minutes": "without either only at the end, and when the run is stopped",
}

HEAD = """\
# The preset: every key

<!-- Written by docs/reference.py from the schema; change engine/contract/preset.py and run it again. -->

A preset is one YAML file that says everything about a training. `name`, `task`, a model and the training data are all
it needs (a script of your own needs neither of the two); every other key has a default, and a key that may be `auto` is
decided on the machine that runs it. What was decided is in the run's folder (`attempts/0001/resolved.yaml`), and
`autotrain-wizard run PRESET --dry-run` shows it without starting anything.

```yaml
version: 1
name: my-dialogues
task: llm-sft
model: {path: ./models/my-model}
data: {train: ./dialogues.jsonl}
```

How it is read:

- An unknown key, a key written twice and a value of the wrong type are errors. All problems are reported at once, with
  their lines: `autotrain-wizard presets check PRESET`.
- Scalars are those of YAML 1.2: `3e-5` is a number, `no` is text, `12:30` is text. Only `true` and `false` are truth
  values.
- Relative paths start from the preset's own folder; those of a shipped preset from the current folder.
- A preset does not read the environment and holds no secrets: `${NAME}` is an error everywhere but in EXPANDED, where
  it names a variable. What ranks need of tokens they inherit from the shell.
- On the command line every key is written with dots: `--set training.max_steps=20`. A key of a pair of which only one
  may be given (`epochs` and `max_steps`, `warmup_ratio` and `warmup_steps`, `every_steps` and `every_minutes`,
  `model.path` and `model.from_config`) then replaces the other.
- Of `global_batch`, `micro_batch` and `gradient_accumulation` give up to two; the rest follows. `global_batch` =
  `micro_batch` x `gradient_accumulation` x number of ranks.

"auto" in the column "default" means: decided by the machine. "or auto" in the column "values": may be left to it.
"""


def reference() -> str:
    """The whole text of `preset.md`."""
    from engine.contract.load import EXPANDED_KEYS
    from engine.contract.preset import TRAINABLE_TASKS, Preset

    parts = [HEAD.replace("EXPANDED", ", ".join(f"`{key}`" for key in EXPANDED_KEYS))]
    top = [(name, field) for name, field in Preset.model_fields.items() if not _section(field.annotation)]
    parts.append(_table("At the top", "", top))
    parts.append(f"This version trains {', '.join(f'`{task}`' for task in TRAINABLE_TASKS)}. The other task names are "
                 "reserved: a preset that uses one is understood and refused.\n")
    for name, field in Preset.model_fields.items():
        section = _section(field.annotation)
        if section is not None:
            parts += _sections(name, section)
    return "\n".join(parts)


def _sections(path: str, model: type[Any]) -> list[str]:
    """The table of a section, then those of the sections in it."""
    if not model.model_fields:
        return [f"## {path}\n\nEmpty in this version; a key in it is an error.\n"]
    parts = [_table(path, f"{path}.", list(model.model_fields.items()))]
    for name, field in model.model_fields.items():
        inner = _section(field.annotation)
        if inner is not None:
            parts += _sections(f"{path}.{name}", inner)
    return parts


def _table(title: str, prefix: str, fields: list[tuple[str, Any]]) -> str:
    lines = [f"## {title}\n", "| key | values | default | meaning |", "| --- | --- | --- | --- |"]
    for name, field in fields:
        key = f"{prefix}{name}"
        meaning = ". ".join(filter(None, (field.description, _capital(MORE.get(key, "")))))
        if key in RESERVED:
            meaning += f". *No effect in this version{': ' + RESERVED[key] if RESERVED[key] else ''}.*"
        cells = (f"`{key}`", _values(field.annotation, field.metadata), _default(field), meaning)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _default(field: Any) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if value is None:
        return "-"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if _section(type(value)) is not None or value in ({}, []):
        return "-"
    return f"`{value}`"


def _values(annotation: Any, metadata: typing.Sequence[Any] = ()) -> str:
    """A type in words, `auto` last."""
    words = []
    for part in _members(annotation):
        word = _words(part, metadata)
        if word and word not in words:
            words.append(word)
    auto = "`auto`" in words
    words = [word for word in words if word != "`auto`"]
    return " or ".join(words) + (" or auto" if auto else "")


def _members(annotation: Any) -> list[Any]:
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return [part for inner in typing.get_args(annotation) for part in _members(inner)]
    return [annotation]


def _words(part: Any, metadata: typing.Sequence[Any] = ()) -> str:
    origin, arguments = typing.get_origin(part), typing.get_args(part)
    if origin is typing.Annotated:
        return _words(arguments[0], [*part.__metadata__, *metadata])
    if origin is Literal:
        return ", ".join(f"`{str(value).lower() if isinstance(value, bool) else value}`" for value in arguments)
    if origin is list:
        return "list" if arguments[0] is Any else f"list of {_words(arguments[0])}"
    if origin is dict:
        return f"`key: {_words(arguments[1])}`" if arguments[1] is not Any else "`key: value`"
    if _section(part) is not None:
        return "section"
    names = {int: "whole number", float: "number", bool: "`true`, `false`", str: "text", type(None): ""}
    return names[part] + _bounds(part, metadata)


def _bounds(part: type, metadata: typing.Sequence[Any]) -> str:
    """Limits as pydantic keeps them: ge, gt, le, lt of a FieldInfo's or a constraint's metadata."""
    limits: dict[str, Any] = {}
    for item in metadata:
        for inner in [item, *getattr(item, "metadata", [])]:
            for name in ("ge", "gt", "le", "lt"):
                if getattr(inner, name, None) is not None:
                    limits[name] = getattr(inner, name)
    if part not in (int, float) or not limits:
        return ""
    signs = {"ge": ">=", "gt": ">", "le": "<=", "lt": "<"}
    return " " + ", ".join(f"{signs[name]} {limits[name]:g}" for name in signs if name in limits)


def _section(annotation: Any) -> type[Any] | None:
    from engine.contract.load import section_type

    return section_type(annotation)


def main(words: list[str]) -> int:
    text = reference()
    if "--check" in words:
        return int(not TARGET.exists() or TARGET.read_text(encoding="utf-8") != text)
    TARGET.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.path.insert(0, str(TARGET.parent.parent))  # this checkout's schema, not that of an installed wizard
    sys.exit(main(sys.argv[1:]))
