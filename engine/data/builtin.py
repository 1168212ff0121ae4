"""`builtin:python-docs`: real technical English that is on every machine with Python.

The documentation strings of the standard library's modules, classes and functions with their signatures, and the
language reference behind `help("topics")`: about 2.5 MB, read in a couple of seconds, nothing downloaded.
"""

from __future__ import annotations

import ast
import os
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path

from engine.errors import DataError

NAME = "builtin:python-docs"
#: Folders whose text is not documentation: tests, bundled packages, other people's packages.
_SKIPPED = {"test", "tests", "idle_test", "idlelib", "lib2to3", "ensurepip", "site-packages", "dist-packages",
            "__pycache__", "lib-dynload"}
#: Modules with less text than this say nothing worth a document.
_SHORTEST = 200


def python_docs(progress: Callable[[float], None]) -> Iterator[tuple[str, str]]:
    """(module or topic name, document) in a fixed order; `progress` gets the share done.

    Raises DataError where Python was installed without its sources.
    """
    root = Path(sysconfig.get_path("stdlib"))
    modules = list(_modules(root))
    found = 0
    for done, path in enumerate(modules):
        progress(done / len(modules))
        text = _module_text(path, root)
        if len(text) >= _SHORTEST:
            found += 1
            yield path.relative_to(root).as_posix(), text
    for name, text in _topics():
        found += 1
        yield f"topic {name}", text
    if not found:
        raise DataError(f"{NAME}: no documentation under {root}: this Python comes without the sources of its "
                        "standard library. Give data.train a text file instead.")


def _modules(root: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in _SKIPPED and not name.startswith("config-"))
        for name in sorted(files):
            if name.endswith(".py") and not name.startswith("_sysconfigdata"):
                yield Path(folder, name)


def _module_text(path: Path, root: Path) -> str:
    """All documentation strings of one module, each under the line that defines what it documents."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError, OSError):  # a template, a file of another Python, an unreadable one
        return ""
    name = ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
    parts: list[str] = []
    documentation = ast.get_docstring(tree)
    if documentation:
        parts.append(f"module {name}\n\n{documentation.strip()}")
    _collect(tree, "", parts)
    return "\n\n\n".join(parts)


def _collect(node: ast.AST, prefix: str, parts: list[str]) -> None:
    for child in getattr(node, "body", []):
        if isinstance(child, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            documentation = ast.get_docstring(child)
            if documentation and documentation.strip():
                indented = "\n".join(f"    {line}" if line.strip() else "" for line in documentation.split("\n"))
                parts.append(f"{_signature(child, prefix)}\n{indented}")
            if isinstance(child, ast.ClassDef):
                _collect(child, f"{prefix}{child.name}.", parts)


def _signature(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef, prefix: str) -> str:
    if isinstance(node, ast.ClassDef):
        bases = ", ".join(ast.unparse(base) for base in node.bases)
        return f"class {prefix}{node.name}({bases}):" if bases else f"class {prefix}{node.name}:"
    kind = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
    return f"{kind} {prefix}{node.name}({ast.unparse(node.args)}):"


def _topics() -> Iterator[tuple[str, str]]:
    try:
        from pydoc_data.topics import topics
    except ImportError:  # left out of some small distributions
        return
    for name in sorted(topics):
        text = topics[name].strip()
        if len(text) >= _SHORTEST:
            yield name, text
