"""YAML 1.2 scalars, marks, duplicate keys, and patching that keeps what a person wrote."""

from __future__ import annotations

import math

import pytest

from engine.contract import yaml_text
from engine.contract.problems import PresetError


@pytest.mark.parametrize(("text", "value"), [
    ("3e-5", 3e-5), ("1e5", 1e5), ("no", "no"), ("off", "off"), ("yes", "yes"), ("12:30", "12:30"), ("010", 10),
    ("0x10", 16), ("0o17", 15), ("1_000", "1_000"), (".5", 0.5), ("1.", 1.0), ("-3", -3), ("+3", 3), ("true", True),
    ("~", None), ("2026-01-01", "2026-01-01"), ("1.2.3", "1.2.3"), ("-.inf", -math.inf), ("", None), ("'3'", "3"),
    ("e5", "e5"), ("=", "="), ("-0x10", "-0x10"),
])
def test_scalars_are_yaml_1_2(text, value):
    assert yaml_text.load(f"key: {text}")[0] == {"key": value}


@pytest.mark.parametrize("value", [3e-5, "no", "12:30", "1e5", "0x10", "null", "true", "~", "", "3", 10**20, -1.5, math.inf,
                                   ["a: b", {"c": None}], "tab\tand\nline", "ü", "# no comment", "a #b", "- x", "<<"])
def test_dump_reads_back_equal(value):
    assert yaml_text.load(yaml_text.dump({"key": value}))[0] == {"key": value}


def test_nan_reads_back():
    assert math.isnan(yaml_text.load(yaml_text.dump({"key": math.nan}))[0]["key"])


def test_duplicate_keys_are_all_reported_with_lines():
    with pytest.raises(PresetError) as caught:
        yaml_text.load("a: 1\nb:\n  c: 1\n  c: 2\na: 2\n", "f.yaml")
    assert [(p.key, p.line) for p in caught.value.problems] == [("b.c", 4), ("a", 5)]


@pytest.mark.parametrize("text", ["a: [1", "a: b: c", "a: 1\n---\nb: 2", "\ta: 1", "a: &x [*x]", "a: *gone", "a: !!python/object:os.system x", "\x00"])
def test_broken_text_is_one_clear_problem(text):
    with pytest.raises(PresetError) as caught:
        yaml_text.load(text, "f.yaml")
    assert "f.yaml" in str(caught.value) and "Traceback" not in str(caught.value)


PRESET = """\
# my preset
version: 1
model: {path: gpt2}   # small
training:
  # the rate
  learning_rate: 3e-5  # tuned by hand
  max_steps: 10
  # the end of training

distributed:
  env:
    A: b
tracking:
"""


@pytest.mark.parametrize(("changes", "path", "value"), [
    ({"training.learning_rate": 1e-4}, ("training", "learning_rate"), 1e-4),
    ({"training.seed": 7}, ("training", "seed"), 7),
    ({"model.tokenizer": "x"}, ("model", "tokenizer"), "x"),
    ({"model": {"path": "y"}}, ("model",), {"path": "y"}),
    ({"distributed.env": {"C": "d"}}, ("distributed", "env"), {"C": "d"}),
    ({"distributed.env.C": "d"}, ("distributed", "env", "C"), "d"),
    ({"distributed.communication.bucket_mb": 5}, ("distributed", "communication"), {"bucket_mb": 5}),
    ({"checkpoints.every_steps": 5}, ("checkpoints",), {"every_steps": 5}),
    ({"tracking.to": ["x"]}, ("tracking",), {"to": ["x"]}),
    ({"name": "a: b # c"}, ("name",), "a: b # c"),
])
def test_patch_changes_one_value_and_keeps_the_rest(changes, path, value):
    before, after_text = yaml_text.load(PRESET)[0], yaml_text.patch(PRESET, changes)
    after = yaml_text.load(after_text)[0]
    found = after
    for part in path:
        found = found[part]
    assert found == value
    top = path[0]
    assert {k: v for k, v in after.items() if k != top} == {k: v for k, v in before.items() if k != top}
    for comment in ("# my preset", "# the rate", "# the end of training"):
        assert comment in after_text
    if top != "model":
        assert "# small" in after_text


def test_patch_of_an_empty_file_and_of_flow_sections():
    assert yaml_text.load(yaml_text.patch("", {"a.b": 1}))[0] == {"a": {"b": 1}}
    assert yaml_text.load(yaml_text.patch("a: {}\n", {"a.b": [1, 2]}))[0] == {"a": {"b": [1, 2]}}
    assert yaml_text.load(yaml_text.patch("a:\n- 1\n- 2\nb: 3", {"a": 4}))[0] == {"a": 4, "b": 3}


def test_patch_refuses_to_go_through_a_value():
    with pytest.raises(ValueError, match="not a section"):
        yaml_text.patch("a: 1\n", {"a.b": 2})


def test_scalar_of_a_command_line():
    assert [yaml_text.scalar(t) for t in ("3e-5", "[1, 2]", "x: [", "C: drive", "null")] == [3e-5, [1, 2], "x: [", {"C": "drive"}, None]
