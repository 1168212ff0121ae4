"""`--set key=value`: reading them, laying them over a preset's text, and what a resumed run lets one change."""

from __future__ import annotations

from typing import Any

from engine.contract import yaml_text
from engine.contract.load import known_keys
from engine.contract.problems import PresetError, Problem, nearest_key, shown
from wizard.errors import UsageError

#: What leaves the trained numbers comparable: how long, how often to look, how many machines, over which network.
RESUMABLE = (
    "training.max_steps", "training.epochs", "training.eval_every", "training.log_every",
    "checkpoints.every_steps", "checkpoints.every_minutes", "checkpoints.keep_last",
    "distributed.num_nodes", "distributed.min_nodes", "distributed.max_nodes", "distributed.main_address",
    "distributed.main_port", "distributed.network_interface", "distributed.env", "distributed.timeout_s",
    "distributed.join_timeout_s",
)
_EXCLUSIVE = (("training.epochs", "training.max_steps"), ("training.warmup_ratio", "training.warmup_steps"),
              ("checkpoints.every_steps", "checkpoints.every_minutes"), ("model.path", "model.from_config"))
_INSTEAD = dict(_EXCLUSIVE) | {b: a for a, b in _EXCLUSIVE}


def parse_settings(words: list[str]) -> dict[str, Any]:
    """`["training.max_steps=20"]` to `{"training.max_steps": 20}`, values read as YAML. Raises UsageError."""
    settings: dict[str, Any] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key.strip():
            raise UsageError(f"--set {word}: no `key=value`", "for example: --set training.max_steps=20")
        settings[key.strip()] = yaml_text.scalar(value)
    return settings


def patched(text: str, settings: dict[str, Any]) -> str:
    """The preset's text with the settings in it, comments and order kept; what they replace becomes null.

    Raises PresetError when a key leads through something that is no section.
    """
    if not settings:
        return text
    data = yaml_text.load(text)[0]
    changes: dict[str, Any] = {}
    for key, value in settings.items():
        other = _INSTEAD.get(key)
        if other and _value(data, other) is not None and other not in settings:
            changes[other] = None
        changes[key] = value
    try:
        return yaml_text.patch(text, changes)
    except ValueError as error:
        raise PresetError([Problem(key="--set", found=str(error), expected="keys of the preset")]) from None


def check_resumable(settings: dict[str, Any]) -> None:
    """Raises PresetError naming every setting that a resumed run must keep."""
    problems = []
    for key, value in settings.items():
        if any(key == allowed or key.startswith(f"{allowed}.") for allowed in RESUMABLE):
            continue
        known = known_keys()
        if key not in known:
            problems.append(Problem(key=key, found="an unknown key", expected="a key of the preset", file="--set",
                                    nearest=nearest_key(key, known)))
            continue
        problems.append(Problem(key=key, found=shown(value), file="--set",
                                expected="no change: a resumed run may change only " + ", ".join(RESUMABLE)
                                         + "; start a new run for anything else"))
    if problems:
        raise PresetError(problems)


def _value(data: Any, key: str) -> Any:
    for part in key.split("."):
        data = data.get(part) if isinstance(data, dict) else None
    return data
