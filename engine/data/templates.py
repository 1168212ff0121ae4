"""Chat templates by name or file, for a tokenizer that has none or whose own is not wanted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from engine.errors import DataError

#: END is put in by `named_template`: the mark that ends a turn must be one token, or generation would not stop at it.
_NAMED = {
    "chatml": "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + END + "
              "'\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}",
    "zephyr": "{% for message in messages %}{{ '<|' + message['role'] + '|>\\n' + message['content'] + END + '\\n' }}"
              "{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% endif %}",
}
NAMES = tuple(_NAMED)


def set_chat_template(tokenizer: Any, chosen: str | None) -> None:
    """Give the tokenizer the template that `data.chat_template` names; None keeps its own.

    Raises DataError when the name is not known and no file of that name can be read.
    """
    if chosen is None:
        return
    if chosen in _NAMED:
        end = "<|im_end|>" if chosen == "chatml" and "<|im_end|>" in tokenizer.get_vocab() else tokenizer.eos_token
        tokenizer.chat_template = _NAMED[chosen].replace("END", repr(end))
        return
    try:
        text = Path(chosen).expanduser().read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"data.chat_template: {chosen!r} is neither {' nor '.join(NAMES)} nor a Jinja file that can be "
                        f"read ({' '.join(str(error).split())}).") from None
    tokenizer.chat_template = text
