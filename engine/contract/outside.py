"""What a preset needs to report to the world outside the run's folder: packages of trackers, a token for the hub."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path

from engine.contract.preset import Hub, Preset

#: Any one of these packages will do.
_PACKAGES = {"tensorboard": ("tensorboard", "tensorboardX"), "wandb": ("wandb",), "mlflow": ("mlflow",), "trackio": ("trackio",)}


def what_is_missing(preset: Preset, environment: Mapping[str, str]) -> list[tuple[str, str]]:
    """(what is missing, what to do) for everything without which rank 0 could not report; empty when all is there."""
    found = []
    missing = [name for name in preset.tracking.to if not any(map(importlib.util.find_spec, _PACKAGES[name]))]
    if missing:
        found.append((f"tracking.to: {', '.join(missing)} not installed",
                      "install the trackers: pip install 'autotrain-wizard[trackers]', or the one package you want"))
    if preset.hub.push and token_of(preset.hub, environment) is None:
        name = token_variable(preset.hub)
        found.append((f"hub.push: no access token ({name} is not set{'' if preset.hub.token else ', and no login is stored'})",
                      f"export {name}=..., with a token that may write to {preset.hub.repo}"))
    return found


def token_variable(hub: Hub) -> str:
    """Name of the environment variable that holds the token."""
    return hub.token[2:-1] if hub.token else "HF_TOKEN"


def token_of(hub: Hub, environment: Mapping[str, str]) -> str | None:
    """The token itself; read when it is needed, kept nowhere. The stored login counts where the preset names no variable."""
    token = environment.get(token_variable(hub), "").strip()
    if token or hub.token:
        return token or None
    home = environment.get("HF_HOME") or Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache", "huggingface")
    try:
        return Path(environment.get("HF_TOKEN_PATH") or Path(home, "token")).read_text(encoding="utf-8").strip() or None
    except (OSError, UnicodeDecodeError):
        return None
