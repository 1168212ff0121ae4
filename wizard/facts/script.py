"""A person's own training script, looked at before it is launched; it is not run."""

from __future__ import annotations

from pathlib import Path

from engine.contract.problems import nearest_key
from wizard.errors import InvalidError


def check_script(path: Path, folder: Path) -> None:
    """Raises InvalidError when there is no such script or folder to run it in, or it is not Python."""
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "does not exist"
        raise InvalidError(f"script.path: {path} {what}", _instead(path))
    if not folder.is_dir():
        raise InvalidError(f"script.folder: {folder} is not a folder", "give the folder the script is to run in")
    try:
        compile(path.read_bytes(), str(path), "exec", dont_inherit=True)
    except OSError as error:
        raise InvalidError(f"script.path: {path} cannot be read: {error.strerror or error}",
                           "change the permission, or choose another file") from None
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        where = f"{path}, line {line}" if line else str(path)
        raise InvalidError(f"script.path: {where}: not Python: {getattr(error, 'msg', error)}",
                           f"mend it; `python {path.name}` says the same") from None


def _instead(path: Path) -> str:
    try:
        names = sorted(item.name for item in path.parent.iterdir() if item.suffix == ".py")
    except OSError:
        return f"the folder {path.parent} does not exist"
    near = nearest_key(path.name, names)
    if near:
        return f"did you mean {near}?"
    return f"{path.parent} holds: {', '.join(names[:8])}" if names else f"there is no .py file in {path.parent}"
