"""Waiting for real launches: ten seconds on an idle machine, minutes on one that others share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.cluster import commands

SLOW_S = 240.0


def until(condition: Callable[[], Any], timeout_s: float = SLOW_S) -> Any:
    """The first true value of `condition`; fails after the timeout."""
    return commands.until(condition, timeout_s)
