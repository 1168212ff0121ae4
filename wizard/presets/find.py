"""Presets by file or by name: a path first, then the user's own, then the shipped ones."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from engine.contract.problems import nearest_key
from wizard.errors import InvalidError
from wizard.paths import shipped_presets, user_presets

SUFFIXES = (".yaml", ".yml")
#: The shipped preset that runs anywhere, so the one a newcomer should see at the top.
FIRST = "quickstart"


@dataclass(frozen=True)
class Found:
    """A preset's file, and the folder its relative paths start from."""

    path: Path
    base: Path
    origin: Literal["file", "yours", "shipped"]

    @property
    def name(self) -> str:
        return self.path.stem


def find_preset(ref: str | Path) -> Found:
    """The preset a person means by a path or a name. Raises InvalidError with the names there are."""
    text = str(ref)
    path = Path(text).expanduser()
    if path.is_file():
        return Found(path, path.parent.absolute(), "file")
    if not _names_a_file(text):
        for found in list_presets():
            if found.name == text:
                return found
    names = [found.name for found in list_presets()]
    near = nearest_key(path.stem, names)
    todo = f"did you mean `{near}`? " if near else ""
    todo += f"presets by name: {', '.join(names)}" if names else "give the path of a preset file"
    if path.is_dir():
        raise InvalidError(f"{text}: a folder, and not that of a run; expected a preset file or a preset's name", todo)
    raise InvalidError(f"{text}: no such preset {'file' if _names_a_file(text) else 'file or name'}", todo)


def list_presets() -> list[Found]:
    """The user's presets, then the shipped ones that no preset of the user's hides; by name, the quickstart first."""
    yours = [Found(path, path.parent, "yours") for path in _files(user_presets())]
    hidden = {found.name for found in yours}
    # shipped presets speak of the data of whoever runs them, so their paths start from the current folder
    shipped = [Found(path, Path.cwd(), "shipped") for path in _files(shipped_presets()) if path.stem not in hidden]
    return yours + sorted(shipped, key=lambda found: found.name != FIRST)


def _files(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if path.suffix in SUFFIXES and path.is_file())
    except OSError:
        return []


def _names_a_file(text: str) -> bool:
    return "/" in text or text.endswith(SUFFIXES)
