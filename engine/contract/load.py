"""From YAML text to a Preset, with every problem reported at once; and back."""

from __future__ import annotations

import re
import typing
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from engine.contract import yaml_text
from engine.contract.preset import VERSION, Preset
from engine.contract.problems import PresetError, Problem, nearest_key, shown

#: Nothing else may hold `${VAR}`: a stranger's preset must not read the environment.
EXPANDED_KEYS = ("hub.token",)
_VARIABLE = re.compile(r"\$\{[^}]*\}")


def load_preset(path: str | Path, overrides: dict[str, Any] | None = None) -> Preset:
    """Read a preset file. `overrides` (dotted key: value) win over the file.

    Raises PresetError with all problems; a file that cannot be read is one of them.
    """
    return parse_preset(read_preset_text(path), file=str(path), overrides=overrides)


def read_preset_text(path: str | Path) -> str:
    """The text of a preset file. Raises PresetError naming the file when it cannot be read."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        found = error.strerror or str(error)
    except UnicodeDecodeError:
        found = "bytes that are not UTF-8 text"
    raise PresetError([Problem(key="(file)", found=found, expected="a preset file that can be read", file=str(path))])


def parse_preset(text: str, file: str | None = None, overrides: dict[str, Any] | None = None) -> Preset:
    """YAML text to Preset. Raises PresetError with all problems at once."""
    data, lines = yaml_text.load(text, file)
    return preset_from_data(data, lines, file, overrides)


def preset_from_data(data: Any, lines: dict[yaml_text.Path, int] | None = None, file: str | None = None,
                     overrides: dict[str, Any] | None = None) -> Preset:
    """Plain values (as read from YAML or answered in the wizard) to Preset. Raises PresetError."""
    lines = lines or {}
    if not isinstance(data, dict):
        raise PresetError([Problem(key="(file)", found=shown(data), expected="a preset: `version: 1`, `name: ...`, `task: ...`",
                                   file=file)])
    # an empty section (`tracking:`) reads as null; a person means "nothing special here"
    data = {key: {} if value is None and key in _SECTIONS else value for key, value in data.items()}
    version = data.get("version", VERSION)
    if isinstance(version, int) and version > VERSION:
        raise PresetError([Problem(key="version", found=str(version), file=file, line=lines.get(("version",)),
                                   expected=f"at most {VERSION}; this preset was written by a newer autotrain-wizard, upgrade to use it")])
    problems: list[Problem] = []
    set_paths: set[yaml_text.Path] = set()
    for key, value in (overrides or {}).items():
        problem = _override(data, key, value)
        if problem:
            problems.append(problem)
        else:
            set_paths.add(tuple(key.split(".")))
    _find_variables(data, (), lines, file, problems)
    try:
        preset = Preset.model_validate(data)
    except ValidationError as error:
        problems += _explain(error, data, lines, file, set_paths)
    if problems:
        raise PresetError(problems)
    return preset


_SECTIONS = {key for key, field in Preset.model_fields.items()
             if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)} | {"hardware"}


def dump_preset(preset: Preset, full: bool = False) -> str:
    """A Preset as YAML; only what differs from the defaults, or everything with `full`."""
    data = preset.model_dump(exclude_defaults=not full)
    head = {"version": preset.version, "name": preset.name, "task": preset.task}
    return yaml_text.dump({**head, **{key: value for key, value in data.items() if key not in head}})


def json_schema() -> dict[str, Any]:
    """JSON Schema of the preset, for editors; keys that accept `auto` have it among their values."""
    return Preset.model_json_schema()


def known_keys(prefix: str = "") -> list[str]:
    """All dotted keys of the preset below `prefix`."""
    found: list[str] = []

    def walk(model: type[BaseModel], path: str) -> None:
        for key, field in model.model_fields.items():
            full = f"{path}.{key}" if path else key
            found.append(full)
            inner = section_type(field.annotation)
            if inner:
                walk(inner, full)

    walk(Preset, "")
    return [key for key in found if key.startswith(prefix)]


def section_type(annotation: Any) -> type[BaseModel] | None:
    """The section a field holds, seen through `| None`; None for plain values."""
    for part in (annotation, *typing.get_args(annotation)):
        if isinstance(part, type) and issubclass(part, BaseModel):
            return part
    return None


def _override(data: dict[str, Any], key: str, value: Any) -> Problem | None:
    parts, here = key.split("."), data
    for depth, part in enumerate(parts[:-1]):
        if here.get(part) is None:
            here[part] = {}
        elif not isinstance(here[part], dict):
            return Problem(key=key, found=f"{'.'.join(parts[: depth + 1])} is a value, not a section",
                           expected="a key of the preset", file="--set")
        else:
            here[part] = dict(here[part])
        here = here[part]
    for one, other in _INSTEAD:
        if parts[-1] == one:  # asking for steps on the command line replaces the file's epochs, and so on
            here.pop(other, None)
    here[parts[-1]] = value
    return None


_EXCLUSIVE = (("epochs", "max_steps"), ("warmup_ratio", "warmup_steps"), ("every_steps", "every_minutes"),
              ("path", "from_config"))
_INSTEAD = _EXCLUSIVE + tuple((b, a) for a, b in _EXCLUSIVE)


def _find_variables(value: Any, path: yaml_text.Path, lines: dict, file: str | None, problems: list[Problem]) -> None:
    if isinstance(value, dict):
        for key, inner in value.items():
            _find_variables(inner, path + (key,), lines, file, problems)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            _find_variables(inner, path + (index,), lines, file, problems)
    elif isinstance(value, str) and _VARIABLE.search(value) and yaml_text.dotted(path) not in EXPANDED_KEYS:
        problems.append(Problem(key=yaml_text.dotted(path), found=shown(value), line=_line(lines, path), file=file,
                                expected="the value itself; ${...} is read only in " + ", ".join(EXPANDED_KEYS)))


def _line(lines: dict, path: yaml_text.Path) -> int | None:
    while path:
        if path in lines:
            return lines[path]
        path = path[:-1]
    return None


def _real_path(data: Any, location: tuple[Any, ...]) -> yaml_text.Path:
    """pydantic adds the names of union members to a location; keep what is really a key of the data."""
    path: list[str | int] = []
    for part in location:
        if isinstance(data, dict) and part in data or isinstance(data, list) and isinstance(part, int) and part < len(data):
            data = data[part]
        else:
            # a missing key is named by pydantic's last part
            if part == location[-1] and isinstance(data, dict):
                path.append(part)
            break
        path.append(part)
    return tuple(path)


def _explain(error: ValidationError, data: dict, lines: dict, file: str | None, set_paths: set) -> list[Problem]:
    merged: dict[yaml_text.Path, tuple[list[str], str, str | None]] = {}
    for item in error.errors():
        path = _real_path(data, item["loc"])
        expected, found, nearest = _words(item, path)
        wanted, first_found, first_nearest = merged.get(path, ([], found, nearest))
        if expected not in wanted:
            wanted.append(expected)
        merged[path] = (wanted, first_found, first_nearest or nearest)
    problems = []
    for path, (wanted, found, nearest) in merged.items():
        from_set = any(path[: len(chosen)] == chosen for chosen in set_paths)
        problems.append(Problem(key=yaml_text.dotted(path), found=found, expected=" or ".join(wanted), nearest=nearest,
                                line=None if from_set else _line(lines, path), file="--set" if from_set else file))
    return problems


def _words(item: dict, path: yaml_text.Path) -> tuple[str, str, str | None]:
    """(expected, found, nearest key) of one pydantic error in words a person can act on."""
    kind, context, value = item["type"], item.get("ctx", {}), item.get("input")
    if kind == "extra_forbidden":
        siblings = _siblings(path)
        nearest = nearest_key(str(path[-1]), siblings)
        parent = f"`{yaml_text.dotted(path[:-1])}`" if path[:-1] else "a preset"
        nearest = nearest_key(str(path[-1]), siblings)
        if nearest is None:  # right key, wrong section: `max_steps` at the top
            nearest = next((key for key in known_keys() if key.split(".")[-1] == path[-1]), None)
        if nearest:
            return f"a key of {parent}", "an unknown key", nearest
        if not siblings:
            return f"nothing ({parent} has no settings in this version)", "an unknown key", None
        return f"a key of {parent}: {', '.join(siblings)}", "an unknown key", None
    if kind == "missing":
        return "a value (it is required)", "nothing", None
    if kind == "value_error":
        found, _, expected = str(context.get("error", item["msg"])).partition("|")
        return expected or "another value", found, None
    if kind == "literal_error":
        options = context["expected"].replace("'", "")
        nearest = nearest_key(str(value), re.split(r", | or ", options))
        return options, shown(value), nearest if nearest != value else None
    simple = {"int_type": "a whole number", "int_from_float": "a whole number", "float_type": "a number",
              "bool_type": "true or false", "string_type": "text", "dict_type": "a section (key: value)",
              "model_type": "a section (key: value)", "list_type": "a list", "finite_number": "a finite number"}
    limits = {"greater_than_equal": ("at least", "ge"), "greater_than": ("more than", "gt"),
              "less_than_equal": ("at most", "le"), "less_than": ("less than", "lt")}
    if kind in limits:
        word, key = limits[kind]
        return f"{word} {context[key]}", shown(value), None
    if kind == "string_pattern_mismatch":
        return "letters, digits, dot, dash and underscore, at most 64, starting with a letter or digit", shown(value), None
    return simple.get(kind, item["msg"]), shown(value), None


def _siblings(path: yaml_text.Path) -> list[str]:
    model: type[BaseModel] | None = Preset
    for part in path[:-1]:
        field = model.model_fields.get(str(part)) if model else None
        model = section_type(field.annotation) if field else None
    return list(model.model_fields) if model else []
