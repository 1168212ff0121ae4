"""Decisions with their reasons, and findings with their evidence: the words of advice, preflight and diagnosis."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class _Words(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Alternative(_Words):
    value: Any
    when: str = Field(description="what would have to be true for this to be the better choice")


class Decision(_Words):
    """A value with the reason for it. Predictions carry a range and where they come from in `facts`."""

    value: Any
    reason: str
    confidence: Literal["high", "fair", "low"]
    facts: list[str] = Field(default_factory=list)
    alternative: Alternative | None = None


class Evidence(_Words):
    source: str = Field(description="file, command or probe it was read from")
    rank: int | None = None
    line: int | None = None
    text: str


class RuledOut(_Words):
    category: str
    why: str


class Finding(_Words):
    """Something wrong or about to go wrong."""

    category: str
    confidence: Literal["certain", "likely", "possible"]
    summary: str
    evidence: list[Evidence] = Field(default_factory=list)
    fix: list[str] = Field(default_factory=list)
    preset_patch: dict[str, Any] | None = None
    ruled_out: list[RuledOut] = Field(default_factory=list)
