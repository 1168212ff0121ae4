"""Which columns hold what."""

from __future__ import annotations

import pytest

from engine.data.columns import find_columns
from engine.errors import DataError


@pytest.mark.parametrize(("columns", "given", "expected"), [
    (["id", "text"], {}, {"text": "text"}),
    (["id", "Content"], {}, {"text": "Content"}),
    (["text", "messages"], {}, {"messages": "messages"}),
    (["prompt", "prompt_id", "messages"], {}, {"messages": "messages"}),
    (["conversations"], {}, {"messages": "conversations"}),
    (["prompt", "completion"], {}, {"prompt": "prompt", "completion": "completion"}),
    (["instruction", "input", "output"], {}, {"prompt": "instruction", "completion": "output", "context": "input"}),
    (["input", "output"], {}, {"prompt": "input", "completion": "output"}),
    (["question", "answer"], {}, {"prompt": "question", "completion": "answer"}),
    (["messages", "a", "b"], {"text": "b"}, {"text": "b"}),
    (["q", "response"], {"prompt": "q"}, {"prompt": "q", "completion": "response"}),
    (["review"], {}, {"text": "review"}),
])
def test_columns_of_supervised_rows(columns, given, expected):
    assert find_columns("llm-sft", columns, given, "d.jsonl").named() == expected


def test_text_of_pretraining():
    assert find_columns("llm-pretrain", ["id", "body"], {}, "d").text == "body"
    assert find_columns("llm-pretrain", ["review"], {}, "d").text == "review"


@pytest.mark.parametrize(("task", "columns", "given", "problem"), [
    ("llm-sft", ["boddy", "id"], {"text": "body"},
     r"data.columns.text: there is no column 'body' in d.jsonl; there are 'boddy', 'id' \(did you mean boddy\?\)"),
    ("llm-sft", ["a", "b"], {"massages": "a"}, r"no role 'massages'.*did you mean messages"),
    ("llm-sft", ["a", "b"], {}, "was not found for llm-sft; the columns are 'a', 'b'. Say which"),
    ("llm-pretrain", ["a", "b"], {}, "a text column was not found"),
    ("llm-pretrain", ["messages"], {}, "a text column was not found"),
    ("llm-sft", [f"c{n}" for n in range(50)], {}, "and 30 more"),
])
def test_columns_that_are_not_there(task, columns, given, problem):
    with pytest.raises(DataError, match=problem):
        find_columns(task, columns, given, "d.jsonl")
