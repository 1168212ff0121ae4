"""YAML as people expect it: 1.2 scalars, no duplicate keys, line marks kept, text patched in place.

PyYAML's own defaults read `3e-5` as a string, `no` as False, `12:30` as 750 and let the last of two equal keys
win silently; each of these has spoiled somebody's training. The scalar rules here are the core schema of YAML 1.2.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

from engine.contract.problems import PresetError, Problem, shown

Path = tuple[str | int, ...]


class _Loader(yaml.SafeLoader):
    """SafeLoader whose plain scalars follow YAML 1.2 core."""


class _Dumper(yaml.SafeDumper):
    """SafeDumper whose plain scalars are read back unchanged by `_Loader`."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


_SCALARS = [
    ("tag:yaml.org,2002:bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("tag:yaml.org,2002:null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("tag:yaml.org,2002:int", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", "-+0123456789"),
    (
        "tag:yaml.org,2002:float",
        r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        "-+.0123456789",
    ),
    ("tag:yaml.org,2002:merge", r"<<", "<"),
]
for _class in (_Loader, _Dumper):
    _class.yaml_implicit_resolvers = {}
    for _tag, _pattern, _first in _SCALARS:
        _class.add_implicit_resolver(_tag, re.compile(f"^(?:{_pattern})$"), list(_first))


def _construct_int(loader: _Loader, node: yaml.ScalarNode) -> int:
    text = loader.construct_scalar(node)
    sign, digits = (-1, text[1:]) if text[0] == "-" else (1, text.lstrip("+"))
    base = {"0o": 8, "0x": 16}.get(digits[:2], 10)
    return sign * int(digits[2:] if base != 10 else digits, base)


def _construct_float(loader: _Loader, node: yaml.ScalarNode) -> float:
    return float(loader.construct_scalar(node).lower().replace(".inf", "inf").replace(".nan", "nan"))


def _represent_float(dumper: _Dumper, value: float) -> yaml.ScalarNode:
    if value != value:
        return dumper.represent_scalar("tag:yaml.org,2002:float", ".nan")
    if value in (float("inf"), float("-inf")):
        return dumper.represent_scalar("tag:yaml.org,2002:float", ".inf" if value > 0 else "-.inf")
    return dumper.represent_scalar("tag:yaml.org,2002:float", repr(value))


_Loader.add_constructor("tag:yaml.org,2002:int", _construct_int)
_Loader.add_constructor("tag:yaml.org,2002:float", _construct_float)
_Dumper.add_representer(float, _represent_float)


def load(text: str, file: str | None = None) -> tuple[Any, dict[Path, int]]:
    """Parse one YAML document.

    Returns the plain value and the line (from 1) of every key and list item by its path. Raises PresetError for
    broken YAML, several documents, an alias to itself, or duplicate keys (all of them at once).
    """
    try:
        node = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise PresetError([Problem(
            key="(file)", found=" ".join(filter(None, (error.context, error.problem))), expected="valid YAML",
            line=mark.line + 1 if mark else None, file=file)]) from None
    except yaml.YAMLError as error:  # characters that are not text
        raise PresetError([Problem(key="(file)", found=" ".join(str(error).split()), expected="a text file in YAML",
                                   file=file)]) from None
    if node is None:
        return None, {}
    lines: dict[Path, int] = {}
    problems: list[Problem] = []
    _walk(node, (), lines, problems, file, set())
    if problems:
        raise PresetError(problems)
    loader = _Loader("")
    try:
        return loader.construct_document(node), lines
    except (yaml.YAMLError, ValueError) as error:
        raise PresetError([Problem(key="(file)", found=" ".join(str(error).split()), expected="valid YAML",
                                   file=file)]) from None
    finally:
        loader.dispose()


def _walk(node: yaml.Node, path: Path, lines: dict[Path, int], problems: list[Problem], file: str | None,
          above: set[int]) -> None:
    if id(node) in above:
        problems.append(Problem(key=dotted(path), found="an alias to itself", expected="a plain value",
                                line=node.start_mark.line + 1, file=file))
        return
    above = above | {id(node)}
    if isinstance(node, yaml.MappingNode):
        seen: dict[str, int] = {}
        for key_node, value_node in node.value:
            key = key_node.value if isinstance(key_node, yaml.ScalarNode) else shown(key_node.value)
            line = key_node.start_mark.line + 1
            if key in seen:
                problems.append(Problem(key=dotted(path + (key,)), found=f"the key twice (also on line {seen[key]})",
                                        expected="each key once", line=line, file=file))
            seen[key] = line
            lines[path + (key,)] = line
            _walk(value_node, path + (key,), lines, problems, file, above)
    elif isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            lines[path + (index,)] = item.start_mark.line + 1
            _walk(item, path + (index,), lines, problems, file, above)


def dump(value: Any) -> str:
    """Plain values as YAML text that `load` reads back equal; order kept."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)


def scalar(text: str) -> Any:
    """The value a person means by `text` on a command line (`--set k=3e-5`): read as a YAML value.

    Text that is not YAML by itself (`C: drive`) is taken as the string it is.
    """
    try:
        return load(text)[0]
    except PresetError:
        return text


def dotted(path: Path) -> str:
    """`("data", "columns", 0)` as `data.columns[0]`, the way messages name a place."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else (f".{part}" if text else str(part))
    return text or "(file)"


def patch(text: str, changes: dict[str, Any]) -> str:
    """Change values inside YAML text, keeping comments, order and everything not named.

    `changes` maps dotted keys to plain values. Keys that are missing are added to the end of their section, and
    sections that are missing to the end of the file. Raises PresetError when the text does not parse, and
    ValueError when a key leads through something that is not a section.
    """
    for key, value in changes.items():
        text = _patch_one(text, key.split("."), value)
    return text


def _flow(value: Any) -> str:
    return yaml.dump(value, Dumper=_Dumper, default_flow_style=True, sort_keys=False, allow_unicode=True,
                     width=10**6).removesuffix("\n").removesuffix("\n...")


def _patch_one(text: str, parts: list[str], value: Any) -> str:
    load(text)
    node = yaml.compose(text, Loader=_Loader)
    for depth, part in enumerate(parts):
        if node is None or (isinstance(node, yaml.ScalarNode) and node.tag.endswith("null")):
            return _fill_empty(text, node, _nested(parts[depth:], value))
        if not isinstance(node, yaml.MappingNode):
            raise ValueError(f"{'.'.join(parts[:depth])} is not a section, so {'.'.join(parts)} cannot be set")
        child = next((v for k, v in node.value if isinstance(k, yaml.ScalarNode) and k.value == part), None)
        if child is None:
            return _add(text, node, _nested(parts[depth:], value))
        node = child
    if isinstance(node, yaml.CollectionNode) and not node.flow_style:
        # a block collection starts on the next line: keep its key line, write the new value there in flow style
        start, end = text.rfind("\n", 0, node.start_mark.index), _last_index(node)
        return f"{text[:start].rstrip()} {_flow(value)}{text[end:]}"
    return text[: node.start_mark.index] + _space_before(text, node) + _flow(value) + text[node.end_mark.index :]


def _space_before(text: str, node: yaml.Node) -> str:
    at = node.start_mark.index
    return "" if at == 0 or text[at - 1] in " \n[{" else " "


def _nested(parts: list[str], value: Any) -> dict[str, Any]:
    for part in reversed(parts):
        value = {part: value}
    return value


def _fill_empty(text: str, node: yaml.Node | None, value: dict[str, Any]) -> str:
    if node is None:
        return text + ("" if not text or text.endswith("\n") else "\n") + dump(value)
    at = node.start_mark.index
    return text[:at] + _space_before(text, node) + _flow(value) + text[node.end_mark.index :]


def _last_index(node: yaml.Node) -> int:
    """Where a block collection's last real character is; its own end mark lies after trailing comments."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return _last_index(last[1] if isinstance(last, tuple) else last)
    return node.end_mark.index


def _add(text: str, node: yaml.MappingNode, value: dict[str, Any]) -> str:
    if node.flow_style:
        close = node.end_mark.index - 1
        inner = _flow(value)[1:-1]
        return text[:close].rstrip() + (", " if node.value else "") + inner + text[close:]
    end = text.find("\n", _last_index(node))
    end = len(text) if end < 0 else end
    indent = " " * node.start_mark.column
    lines = "".join(f"\n{indent}{line}" for line in dump(value).rstrip("\n").split("\n"))
    return text[:end] + lines + text[end:]
