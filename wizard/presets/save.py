"""Saving a preset where it is found again by its name."""

from __future__ import annotations

from pathlib import Path

from engine.contract.atomic import write_text_atomic
from engine.contract.load import dump_preset, parse_preset
from engine.contract.preset import Preset
from wizard.errors import UsageError
from wizard.paths import user_presets


def save_preset(preset: Preset | str, path: Path | None = None, overwrite: bool = False) -> Path:
    """Write a preset (text keeps its comments) to `path`, or under its name among the user's presets.

    Returns the file. Raises PresetError when the text is not a valid preset, UsageError when the file exists and
    `overwrite` is not given or when it cannot be written there.
    """
    text = preset if isinstance(preset, str) else dump_preset(preset)
    name = parse_preset(text).name
    target = path or user_presets() / f"{name}.yaml"
    if target.exists() and not overwrite:
        raise UsageError(f"{target}: exists already", "choose another name, or overwrite it")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        write_text_atomic(target, text, mode=0o644)
    except OSError as error:
        raise UsageError(f"{target}: cannot be written: {error.strerror or error}", "choose another place") from None
    return target
