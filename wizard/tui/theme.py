"""The colours, in one place; everything else names them by their role."""

from __future__ import annotations

from textual.theme import Theme

CALM = Theme(
    name="calm", dark=True,
    primary="#7aa2d6", secondary="#8fb8a8", accent="#d7b36a",
    foreground="#d5d9e0", background="#14171c", surface="#191d23", panel="#20252d",
    success="#86b98a", warning="#d9a65c", error="#d97b73",
    variables={"input-cursor-background": "#d5d9e0", "input-cursor-foreground": "#14171c"},
)
