"""The versions that a training's numbers depend on."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def versions() -> dict[str, str]:
    """Package to version, of those that are installed."""
    found = {}
    for name in ("autotrain-wizard", "torch", "accelerate", "transformers", "peft"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
