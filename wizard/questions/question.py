"""What a question is. The screens and the prompts render these; neither knows what is asked."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args

if TYPE_CHECKING:
    from wizard.questions.context import Context

Section = Literal["Machine", "Task", "Model", "Data", "Training", "Network", "Review"]
SECTIONS: tuple[Section, ...] = get_args(Section)
Kind = Literal["choice", "text", "path", "number", "yes/no"]
#: Where a value comes from: read off the machine or the files; weighed by the advice; a plain default; the preset
#: that was opened; the person.
Origin = Literal["detected", "recommended", "default", "preset", "yours"]


@dataclass(frozen=True)
class Choice:
    """One of the possible values. `impossible` says why it cannot be taken here, and it is shown with that reason."""

    value: Any
    label: str
    detail: str = ""
    impossible: str | None = None


@dataclass(frozen=True)
class Answer:
    """A value, where it comes from, and one line of why. A `None` value is a question without any answer yet."""

    value: Any
    origin: Origin
    note: str = ""


class Invalid(ValueError):
    """What a person typed cannot be meant; the message says what would be right."""


def _always(context: Context) -> bool:
    return True


def _fine(value: Any, context: Context) -> str | None:
    return None


def _no_choices(context: Context) -> list[Choice]:
    return []


def _silent(context: Context) -> str:
    return ""


@dataclass(frozen=True)
class Question:
    """One question. All functions are pure.

    `key` names the answer: a dotted preset key, or a name of its own where one answer means several keys; then
    `preset` turns it into them (a None value takes the key, and all below it, out). `keys` are all preset keys that
    the question decides, so that nothing else does.
    """

    key: str
    section: Section
    title: str
    help: str
    kind: Kind
    default: Callable[[Context], Answer]
    choices: Callable[[Context], list[Choice]] = _no_choices
    when: Callable[[Context], bool] = _always
    check: Callable[[Any, Context], str | None] = _fine
    note: Callable[[Context], str] = _silent
    parse: Callable[[str], Any] | None = None
    show: Callable[[Any], str] | None = None
    preset: Callable[[Any, Context], Mapping[str, Any]] | None = None
    keys: tuple[str, ...] = ()
    #: What has to be read from disk before the answer can be accepted.
    reads: Literal["model", "data"] | None = None
    #: Keep what the opened preset says while the question is not asked.
    keep_unasked: bool = False
    required: bool = True
    placeholder: str = ""
    _decided: tuple[str, ...] = field(init=False, repr=False, default=())

    def __post_init__(self) -> None:
        object.__setattr__(self, "_decided", self.keys or (self.key,))

    @property
    def decides(self) -> tuple[str, ...]:
        """The preset keys that this question decides."""
        return self._decided

    def read(self, text: str) -> Any:
        """The value that `text` means; None for nothing. Raises Invalid with one clear message."""
        text = text.strip()
        if not text:
            if self.required:
                raise Invalid(f"An answer is needed here{f', for example {self.placeholder}' if self.placeholder else ''}.")
            return None
        return self.parse(text) if self.parse else text

    def text(self, value: Any) -> str:
        """`value` as a person would type it."""
        if value is None:
            return ""
        return self.show(value) if self.show else str(value)

    def values(self, value: Any, context: Context) -> Mapping[str, Any]:
        """The preset keys and values that `value` means."""
        return self.preset(value, context) if self.preset else {self.key: value}


def whole(low: int, high: int | None = None, unit: str = "") -> Callable[[str], int]:
    """A parser of whole numbers from `low` to `high`, with or without the unit and thousands separators."""
    span = f"from {low} to {high}" if high is not None else f"of at least {low}"

    def parse(text: str) -> int:
        plain = text.removesuffix(unit).strip().replace(",", "").replace("_", "")
        try:
            value = int(plain)
        except ValueError:
            raise Invalid(f"{text!r} is not a whole number; give one {span}.") from None
        if value < low or (high is not None and value > high):
            raise Invalid(f"{value:,} is out of range; give a whole number {span}.")
        return value

    return parse


def positive(text: str) -> float:
    """A positive, finite number such as `3e-5`. Raises Invalid."""
    try:
        value = float(text)
    except ValueError:
        raise Invalid(f"{text!r} is not a number; give one like 3e-5 or 0.0002.") from None
    if not math.isfinite(value) or value <= 0:
        raise Invalid(f"{text} cannot be used; give a number above zero, like 3e-5.")
    return value


def number_text(value: float) -> str:
    """A small number as people write it: 3e-5, 2e-4, 0.5."""
    if value and abs(value) < 0.01:
        mantissa, exponent = f"{value:.6e}".split("e")
        return f"{float(mantissa):g}e{int(exponent)}"
    return f"{value:g}"


def auto_or(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    """A parser that also takes `auto`: decided on the machine that runs the preset."""
    return lambda text: "auto" if text.lower() == "auto" else parse(text)
