"""Which strings of a preset are paths on this machine, and where they lead. Hub ids and `builtin:` stay as they are."""

from __future__ import annotations

import os
import re
from pathlib import Path

from engine.contract.preset import Preset

#: Files the engine reads rows from, by ending.
DATA_ENDINGS = (".txt", ".md", ".rst", ".text", ".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet")
_HUB_ID = re.compile(r"^[A-Za-z0-9][\w.-]*/[\w.-]+(:[\w.\[\]%:+-]+)?$")
_HUB_MODEL = re.compile(r"^[A-Za-z0-9][\w.-]*(/[\w.-]+)?$")


def is_path(text: str, base: Path, data: bool) -> bool:
    """Whether `text` means a file or folder here: it is there, or it is written as only a path can be.

    `owner/name` is a hub id unless a folder `owner` lies beside the preset, which then is a path with a slip in it.
    """
    if text.startswith("builtin:"):
        return False
    if (
        text.startswith(("/", "./", "../", "~", ".\\", "..\\"))
        or re.match(r"^[A-Za-z]:[\\/]", text)
        or text in (".", "..")
    ):
        return True
    try:
        if resolve(text, base).exists():
            return True
    except OSError:  # a name too long for the file system is no file
        return False
    if data and text.lower().removesuffix(".gz").removesuffix(".zst").endswith(DATA_ENDINGS):
        return True
    pattern = _HUB_ID if data else _HUB_MODEL
    if not pattern.match(text):
        return True
    return "/" in text and resolve(text.split("/")[0], base).is_dir()


def resolve(text: str, base: Path) -> Path:
    """`text` as an absolute path, seen from the folder `base`."""
    return Path(os.path.abspath(os.path.join(base, os.path.expanduser(text))))


def absolute(preset: Preset, base: Path) -> Preset:
    """The preset with its local paths made absolute against `base`, so that any folder can be the current one."""

    def moved(text: object, data: bool = False) -> object:
        return str(resolve(text, base)) if isinstance(text, str) and is_path(text, base, data) else text

    model = preset.model.model_copy(
        update={
            "path": moved(preset.model.path),
            "from_config": _moved_config(preset.model.from_config, base),
            "tokenizer": moved(preset.model.tokenizer),
        }
    )
    template = preset.data.chat_template
    data = preset.data.model_copy(
        update={
            "train": moved(preset.data.train, data=True),
            "valid": moved(preset.data.valid, data=True),
            "chat_template": str(resolve(template, base)) if _is_template_file(template, base) else template,
        }
    )
    script = preset.script
    if script.path:
        script = script.model_copy(
            update={"path": str(resolve(script.path, base)), "folder": str(resolve(script.folder or ".", base))}
        )
    return preset.model_copy(update={"model": model, "data": data, "script": script})


def _moved_config(value: object, base: Path) -> object:
    return str(resolve(value, base)) if isinstance(value, str) and is_path(value, base, data=False) else value


def _is_template_file(text: str | None, base: Path) -> bool:
    """A template is one of the known names, or a file; a template written out holds braces."""
    if not text or "{" in text or "\n" in text:
        return False
    return text.endswith((".jinja", ".j2", ".jinja2")) or "/" in text or resolve(text, base).is_file()
