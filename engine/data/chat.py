"""Conversations as text, with the places that the assistant wrote: only these are learned.

Most chat templates carry no generation marks, and a tokenizer's own mask of the assistant's tokens is then all
zero. The spans are found by rendering growing prefixes of the conversation instead: what the template adds to the
prompt of a turn, once the turn is there, is what the model would have had to write.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from engine.contract.problems import shown
from engine.data.rejects import RowProblem
from engine.errors import DataError

Message = dict[str, Any]
_ROLES = {"human": "user", "gpt": "assistant", "bot": "assistant", "model": "assistant", "chatgpt": "assistant",
          "function_call": "assistant", "observation": "tool"}
_KNOWN = ("system", "developer", "user", "assistant", "tool", "function")
_GENERATION = re.compile(r"\{%-?\s*generation\s*-?%\}")


@dataclass(frozen=True, slots=True)
class Sample:
    """Text to tokenize; characters inside `spans` (start, end) are targets.

    `plain` text gets what the tokenizer itself puts at the start of a text, and the end-of-text token as its last
    target; a rendered conversation has all of its marks already.
    """

    text: str
    spans: tuple[tuple[int, int], ...]
    plain: bool = False


def read_messages(value: Any) -> list[Message]:
    """A `messages` value in the one form templates know: role and content. Raises RowProblem.

    Read too: the ShareGPT form (from, value), JSON text in a cell, content as a list of text parts.
    """
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except json.JSONDecodeError:
            raise RowProblem(f"messages are {shown(value)}, not a list of messages") from None
    if not isinstance(value, list):
        raise RowProblem(f"messages are {shown(value)}, not a list of messages")
    if not value:
        raise RowProblem("the list of messages is empty")
    messages = [_read_message(number, item) for number, item in enumerate(value, 1)]
    if messages[0]["role"] == "assistant":
        raise RowProblem("message 1 is the assistant's: there is nothing that it answers")
    if not any(message["role"] == "assistant" for message in messages):
        raise RowProblem("no message is the assistant's, so there is nothing to learn")
    return messages


def _read_message(number: int, item: Any) -> Message:
    if not isinstance(item, dict):
        raise RowProblem(f"message {number} is {shown(item)}, not an object with role and content")
    role, content = item.get("role", item.get("from")), item.get("content", item.get("value"))
    if not isinstance(role, str):
        raise RowProblem(f"message {number} has no role; it has {', '.join(map(str, item)) or 'nothing'}")
    role = _ROLES.get(role.lower(), role.lower())
    if role not in _KNOWN:
        raise RowProblem(f"message {number} has the role {shown(role)}; known are {', '.join(_KNOWN)}")
    if isinstance(content, list):
        if not all(isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str)
                   for part in content):
            raise RowProblem(f"message {number} ({role}) has parts that are not text")
        content = "".join(part["text"] for part in content)
    # tabular formats give every message every key; only those with a value were in the conversation
    rest = {key: inner for key, inner in item.items() if key not in ("role", "from", "content", "value", "weight")
            and inner is not None and inner != []}
    if content is None and rest.get("tool_calls"):
        content = ""
    if not isinstance(content, str):
        raise RowProblem(f"message {number} ({role}) has no text: its content is {shown(content)}")
    if role == "assistant" and not content.strip() and not rest.get("tool_calls"):
        raise RowProblem(f"message {number} (assistant) is empty")
    return {"role": role, "content": content, **rest}


class ChatRenderer:
    """Turns conversations into samples with one tokenizer's chat template."""

    def __init__(self, tokenizer: Any):
        """Raises DataError when the tokenizer has no template."""
        if not tokenizer.chat_template:
            raise DataError("the data is chat messages, but the tokenizer has no chat template. Set data.chat_template "
                            "to chatml, zephyr or a Jinja file.")
        self._tokenizer = tokenizer
        self._template = tokenizer.get_chat_template()
        _check_syntax(tokenizer)
        self._marked = bool(_GENERATION.search(self._template))
        self._ends = tuple(sorted({str(token) for token in tokenizer.added_tokens_decoder.values()}, key=len,
                                  reverse=True))
        #: Conversations whose earlier turns the template shows differently later, given as one sample a turn.
        self.divided = 0

    def samples(self, messages: Sequence[Message], tools: Any = None) -> list[Sample]:
        """The samples of one conversation: one, or one a turn where the template rewrites earlier turns.

        Raises RowProblem when the template refuses the conversation, or shows it so that what the assistant wrote
        cannot be told from what it was given.
        """
        render = self._renderer(messages, tools)
        if self._marked:
            return [self._from_marks(messages, tools)]
        turns = [at for at, message in enumerate(messages) if message["role"] == "assistant"]
        whole = render(len(messages), False)
        spans = [self._span(render, turn) for turn in turns]
        if all(whole.startswith(text) for text, _, _ in spans):
            return [Sample(whole, tuple((start, end) for _, start, end in spans))]
        # some templates keep, for instance, only the last turn's thinking: each turn is then learned in the text
        # that the model will really see when it has to write it
        self.divided += 1
        return [Sample(text, ((start, end),)) for text, start, end in spans]

    def _renderer(self, messages: Sequence[Message], tools: Any) -> Callable[[int, bool], str]:
        known: dict[tuple[int, bool], str] = {}

        def render(count: int, prompt: bool) -> str:
            key = (count, prompt)
            if key not in known:
                try:
                    known[key] = self._tokenizer.apply_chat_template(
                        list(messages[:count]), tools=tools, tokenize=False, add_generation_prompt=prompt)
                except Exception as error:  # a template may raise anything: its own refusals, missing fields
                    reason = " ".join(str(error).split()) or type(error).__name__
                    order = ", ".join(message["role"] for message in messages[:count][:12])
                    raise RowProblem(f"the chat template refuses the conversation (roles: {order}): {reason}") from None
            return known[key]

        return render

    def _span(self, render: Callable[[int, bool], str], turn: int) -> tuple[str, int, int]:
        """(the conversation up to and with this turn, start, end of what the assistant wrote in it)."""
        given, text = render(turn, True), render(turn + 1, False)
        start = len(given)
        if not text.startswith(given):
            # A prompt for generation may open what the finished turn does not show (`<think>`): the assistant's
            # part then starts where the two part, provided that the assistant's header is common to both.
            before = render(turn, False)
            start = len(os.path.commonprefix([given, text]))
            if not text.startswith(before) or start <= len(before):
                raise RowProblem(
                    f"with this chat template the text before message {turn + 1} (assistant) changes once the message "
                    f"is there ({_parting(given, text)}), so what the assistant wrote cannot be told apart. Use "
                    "another data.chat_template, or one with generation marks")
        end = self._end_of_turn(text, start)
        if end <= start:
            raise RowProblem(f"the chat template shows nothing for message {turn + 1} (assistant)")
        return text, start, end

    def _end_of_turn(self, text: str, start: int) -> int:
        """The end of a turn: with its closing token where it has one, without the white space after that."""
        stripped = len(text.rstrip())
        return stripped if stripped > start and text[:stripped].endswith(self._ends) else len(text)

    def _from_marks(self, messages: Sequence[Message], tools: Any) -> Sample:
        from transformers.utils.chat_template_utils import render_jinja_template

        try:
            texts, marks = render_jinja_template(
                conversations=[list(messages)], tools=tools, chat_template=self._template,
                return_assistant_tokens_mask=True, **self._tokenizer.special_tokens_map)
        except Exception as error:  # as above: whatever a template may raise
            raise RowProblem(f"the chat template refuses the conversation: {' '.join(str(error).split())}") from None
        spans = tuple((start, end) for start, end in marks[0] if end > start)
        if not spans:
            raise RowProblem("the chat template marks nothing in this conversation as written by the assistant")
        return Sample(texts[0], spans)


def _check_syntax(tokenizer: Any) -> None:
    """A template that no conversation can be rendered with is a fault of its own, not of the first row."""
    import jinja2

    try:
        tokenizer.apply_chat_template([{"role": "user", "content": "?"}], tokenize=False)
    except jinja2.TemplateSyntaxError as error:
        raise DataError(f"the chat template is not valid Jinja: line {error.lineno}: {error.message}.") from None
    except Exception:  # refuses this conversation; others will show whether it refuses theirs
        pass


def _parting(one: str, other: str) -> str:
    """Where two texts part, for a message."""
    at = len(os.path.commonprefix([one, other]))
    return f"{shown(one[at:at + 30], 40)} becomes {shown(other[at:at + 30], 40)}"
