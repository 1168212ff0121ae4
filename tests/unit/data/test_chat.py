"""Only what the assistant wrote is learned, whatever the template does."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from engine.data.chat import ChatRenderer, read_messages
from engine.data.rejects import RowProblem
from engine.data.templates import set_chat_template
from engine.data.tokenize import Encoder
from engine.errors import DataError
from tests.unit.data.helpers import talk

QWEN3_LIKE = """
{%- set ns = namespace(last=-1) %}{%- for m in messages %}{%- if m.role == 'user' %}{%- set ns.last = loop.index0 %}{%- endif %}{%- endfor %}
{%- for m in messages %}
{%- set content = m.content %}
{%- if m.role == 'assistant' and '</think>' in content and loop.index0 < ns.last %}{%- set content = content.split('</think>')[-1].lstrip('\\n') %}{%- endif %}
{{- '<|im_start|>' + m.role + '\\n' + content + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"""
STRIPS = ("{% for m in messages %}{{ '[' + m.role + '] ' + m.content.strip() + eos_token }}{% endfor %}"
          "{% if add_generation_prompt %}{{ '[assistant] ' }}{% endif %}")
OPENS_THOUGHT = ("{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% endfor %}"
                 "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n<think>\\n' }}{% endif %}")
MARKED = ("{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' }}{% if m.role == 'assistant' %}{% generation %}"
          "{{ m.content + '<|im_end|>' }}{% endgeneration %}{% else %}{{ m.content + '<|im_end|>' }}{% endif %}{{ '\\n' }}"
          "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}")
ALTERNATES = ("{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
              "{{ raise_exception('roles must alternate') }}{% endif %}{{ m.role + ': ' + m.content + '\\n' }}{% endfor %}"
              "{% if add_generation_prompt %}{{ 'assistant: ' }}{% endif %}")


@pytest.fixture
def with_template(tokenizer):
    def make(template=None):
        changed = copy.deepcopy(tokenizer)
        changed.chat_template = template or changed.chat_template
        return changed
    return make


def learned(tokenizer, messages) -> list[list[str]]:
    """For each sample its runs of targets, as text."""
    samples = ChatRenderer(tokenizer).samples(read_messages(messages))
    runs = []
    for ids, wanted in Encoder(tokenizer).samples(samples):
        edges = np.flatnonzero(np.diff(np.concatenate([[0], wanted, [0]]).astype(int)))
        runs.append([tokenizer.decode(ids[start:end]) for start, end in edges.reshape(-1, 2)])
    return runs


def test_smollm2_learns_each_answer_and_where_to_stop(tokenizer):
    assert learned(tokenizer, talk("Hi", "Hello there.", "Bye", "Good bye, and 日本 too!")) == [
        ["Hello there.<|im_end|>", "Good bye, and 日本 too!<|im_end|>"]]


def test_tokens_are_those_of_the_whole_conversation(tokenizer):
    messages = talk("Hi", "\nHello\n", "Again?", " yes ", system="Be brief.")
    (sample,) = ChatRenderer(tokenizer).samples(messages)
    ((ids, _),) = Encoder(tokenizer).samples([sample])
    assert ids.tolist() == tokenizer.apply_chat_template(messages, tokenize=True, return_dict=False)
    assert learned(tokenizer, messages)[0][1] == " yes <|im_end|>"


def test_a_conversation_that_ends_with_the_user_teaches_its_answers(tokenizer):
    assert learned(tokenizer, talk("a", "b", "c")) == [["b<|im_end|>"]]


@pytest.mark.parametrize(("template", "expected"), [
    (STRIPS, [[" one<|im_end|>", " two<|im_end|>"]]),  # the space is one token with the word
    (OPENS_THOUGHT, [["one <|im_end|>", "two<|im_end|>"]]),
    (MARKED, [["one <|im_end|>", "two<|im_end|>"]]),
])
def test_templates_with_their_own_ideas(with_template, template, expected):
    assert learned(with_template(template), talk("a", "one ", "b", "two")) == expected


def test_a_template_that_hides_earlier_thoughts_gives_a_sample_a_turn(with_template):
    tokenizer = with_template(QWEN3_LIKE)
    messages = talk("a", "<think>\nhm\n</think>\n\none", "b", "<think>\nha\n</think>\n\ntwo")
    renderer = ChatRenderer(tokenizer)
    first, second = renderer.samples(messages)
    assert first.text.endswith("one<|im_end|>\n") and "hm" not in second.text and renderer.divided == 1
    assert learned(tokenizer, messages) == [["<think>\nhm\n</think>\n\none<|im_end|>"],
                                            ["<think>\nha\n</think>\n\ntwo<|im_end|>"]]


def test_named_templates_end_a_turn_with_a_single_token(with_template):
    tokenizer = with_template()
    set_chat_template(tokenizer, "zephyr")
    assert learned(tokenizer, talk("a", "one")) == [["one<|im_end|>"]]
    set_chat_template(tokenizer, "chatml")
    assert learned(tokenizer, talk("a", "one", system="s")) == [["one<|im_end|>"]]
    assert tokenizer.apply_chat_template(talk("a"), tokenize=False, add_generation_prompt=True) == (
        "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n")


def test_a_template_from_a_file(with_template, tmp_path):
    tokenizer = with_template()
    (tmp_path / "own.jinja").write_text(STRIPS)
    set_chat_template(tokenizer, str(tmp_path / "own.jinja"))
    assert learned(tokenizer, talk("a", "one")) == [[" one<|im_end|>"]]
    with pytest.raises(DataError, match="neither chatml nor zephyr nor a Jinja file"):
        set_chat_template(tokenizer, "chatlm")


def test_a_broken_template_is_the_fault_of_the_template(with_template):
    with pytest.raises(DataError, match="not valid Jinja: line 2"):
        ChatRenderer(with_template("{% for m in messages %}\n{{ m.role }"))


def test_no_template(with_template):
    tokenizer = with_template()
    tokenizer.chat_template = None
    with pytest.raises(DataError, match="no chat template. Set data.chat_template"):
        ChatRenderer(tokenizer)


def test_a_template_whose_refusal_names_the_roles(with_template):
    messages = [{"role": role, "content": "x"} for role in ("user", "user", "assistant")]
    with pytest.raises(RowProblem, match=r"roles: user, user, assistant\): roles must alternate"):
        ChatRenderer(with_template(ALTERNATES)).samples(messages)


def test_a_template_that_rewrites_the_prompt_is_refused(with_template):
    counting = "{{ messages | length }}{% for m in messages %}{{ m.content }};{% endfor %}"
    with pytest.raises(RowProblem, match=r"before message 2 \(assistant\) changes .*'1a;' becomes '2a;b;'"):
        ChatRenderer(with_template(counting)).samples(talk("a", "b"))


@pytest.mark.parametrize(("value", "expected"), [
    ([{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}], talk("a", "b")),
    ('[{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]', talk("a", "b")),
    ([{"role": "user", "content": [{"type": "text", "text": "a"}], "name": None}, {"role": "Assistant", "content": "b"}],
     talk("a", "b")),
])
def test_forms_of_messages(value, expected):
    assert read_messages(value) == expected


@pytest.mark.parametrize(("value", "problem"), [
    ([], "the list of messages is empty"),
    ("hello", "not a list of messages"),
    (None, "messages are nothing"),
    (talk("a"), "no message is the assistant's"),
    (talk("a", "b")[::-1], "message 1 is the assistant's"),
    ([{"role": "user", "content": "a"}, {"role": "robot", "content": "b"}], "message 2 has the role 'robot'"),
    ([{"content": "a"}], "message 1 has no role; it has content"),
    ([{"role": "user", "content": None}], r"message 1 \(user\) has no text"),
    (talk("a", " "), r"message 2 \(assistant\) is empty"),
    (["a"], "message 1 is 'a'"),
    ([{"role": "user", "content": [{"type": "image"}]}], "parts that are not text"),
])
def test_messages_that_cannot_be_used(value, problem):
    with pytest.raises(RowProblem, match=problem):
        read_messages(value)
