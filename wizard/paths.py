"""Where things are kept. Every folder can be moved by an environment variable; nothing is created here."""

from __future__ import annotations

import os
from pathlib import Path


def runs_root() -> Path:
    """Folder new runs go to: `$AUTOTRAIN_WIZARD_RUNS`, else `./runs`."""
    return Path(os.environ.get("AUTOTRAIN_WIZARD_RUNS") or "runs").absolute()


def state_dir() -> Path:
    """The index of runs and other memory of this user (`$XDG_STATE_HOME/autotrain-wizard`)."""
    return _xdg("XDG_STATE_HOME", ".local/state")


def config_dir() -> Path:
    """The user's own settings and presets (`$XDG_CONFIG_HOME/autotrain-wizard`)."""
    return _xdg("XDG_CONFIG_HOME", ".config")


def user_presets() -> Path:
    return config_dir() / "presets"


def shipped_presets() -> Path:
    """Presets that come with the package; in a checkout the `presets/` beside it."""
    packaged = Path(__file__).parent / "presets" / "shipped"
    return packaged if packaged.is_dir() else Path(__file__).parent.parent / "presets"


def _xdg(variable: str, fallback: str) -> Path:
    base = os.environ.get(variable)
    # the XDG specification says to ignore a relative path here
    root = Path(base) if base and os.path.isabs(base) else Path.home() / fallback
    return root / "autotrain-wizard"
