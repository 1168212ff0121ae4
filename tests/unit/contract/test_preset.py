"""The preset: all problems at once, round trip, schema, batch arithmetic."""

from __future__ import annotations

import jsonschema
import pytest

from engine.contract import yaml_text
from engine.contract.batch import derive_batch
from engine.contract.load import dump_preset, json_schema, known_keys, load_preset, parse_preset
from engine.contract.preset import unresolved
from engine.contract.problems import PresetError

MINIMAL = "name: a\ntask: llm-sft\nmodel: {path: gpt2}\ndata: {train: x.jsonl}\n"


def problems_of(text, overrides=None):
    with pytest.raises(PresetError) as caught:
        parse_preset(text, "p.yaml", overrides)
    return {problem.key: problem for problem in caught.value.problems}


def test_three_mistakes_are_three_problems_with_lines_and_nearest_keys():
    found = problems_of("name: a\ntask: llm-stf\nmodel: {path: gpt2}\ndata:\n  train: x\ntraining:\n  max_step: 3\n  precision: bf61\n  epochs: -1\n")
    assert found["task"].line == 2 and found["task"].nearest == "llm-sft"
    assert found["training.max_step"].line == 7 and found["training.max_step"].nearest == "max_steps"
    assert found["training.precision"].nearest == "bf16" and "auto or fp32" in found["training.precision"].expected
    assert found["training.epochs"].found == "-1" and "more than 0" in found["training.epochs"].expected


def test_a_key_in_the_wrong_section_says_where_it_belongs():
    assert problems_of(MINIMAL + "max_steps: 3\n")["max_steps"].nearest == "training.max_steps"


@pytest.mark.parametrize(("text", "key", "words"), [
    ("training: {learning_rate: '3e-5'}", "training.learning_rate", "a number"),
    ("training: {max_steps: 1.5}", "training.max_steps", "a whole number"),
    ("training: {max_steps: true}", "training.max_steps", "a whole number"),
    ("training: {epochs: .nan}", "training.epochs", "finite"),
    ("training: {epochs: 1, max_steps: 2}", "training", "one of the two"),
    ("training: 3", "training", "a section"),
    ("training: {compile: 'no'}", "training.compile", "true or false"),
    ("distributed: {strategy: single, backend: nccl}", "distributed", "backend none"),
    ("distributed: {strategy: ddp, backend: none}", "distributed", "a backend"),
    ("distributed: {num_nodes: 2, min_nodes: 3}", "distributed", "min_nodes <= num_nodes"),
    ("distributed: {main_port: 70000}", "distributed.main_port", "at most 65535"),
    ("distributed: {env: {A: 1}}", "distributed.env.A", "text"),
    ("model: {path: a, from_config: b}", "model", "exactly one"),
    ("name: '../x'", "name", "letters"),
    ("version: 2", "version", "newer autotrain-wizard"),
    ("hub: {token: hf_x}", "hub.token", "the name of an environment variable"),
    ("hub: {push: true}", "hub", "owner/name"),
    ("hub: {repo: model}", "hub.repo", "owner/name"),
    ("tracking: {to: tensorboard}", "tracking.to", "a list"),
    ("tracking: {to: [tensorbord]}", "tracking.to[0]", "tensorboard"),
    ("checkpoints: {keep_best: true}", "(file)", "data.valid"),
    ("data: {train: x, valid: 0.1}\ntraining: {eval_every: never, early_stopping: {}}", "(file)", "other than never"),
    ("data: {train: '${HOME}/x'}", "data.train", "read only in"),
    ("model: {adapter: {type: qlora}}", "model.adapter.type", "lora or dora"),
])
def test_each_mistake_is_named(text, key, words):
    data = yaml_text.load(MINIMAL)[0] | yaml_text.load(text)[0]
    assert words in problems_of(yaml_text.dump(data))[key].expected


def test_nothing_useful_is_said_clearly():
    for text in ("", "3", "[]", "a"):
        assert "a preset" in str(pytest.raises(PresetError, parse_preset, text, "p.yaml").value)
    assert {"name", "task"} <= set(problems_of("version: 1"))


def test_overrides_win_and_are_named_as_such():
    preset = parse_preset(MINIMAL + "training: {epochs: 3}\n", overrides={"training.max_steps": 5, "model.adapter": {"r": 4}})
    assert preset.training.max_steps == 5 and preset.training.epochs is None and preset.model.adapter.r == 4
    assert problems_of(MINIMAL, {"training.seed": "x"})["training.seed"].file == "--set"


def test_files_that_cannot_be_read(tmp_path):
    binary = tmp_path / "b.yaml"
    binary.write_bytes(b"\xff\xfe\x00")
    for path in (tmp_path / "none.yaml", tmp_path, binary):
        with pytest.raises(PresetError, match=str(path)):
            load_preset(path)


def test_round_trip_keeps_values():
    preset = parse_preset(MINIMAL + "training: {learning_rate: 3e-5, warmup_steps: 3}\ndistributed: {env: {A: 'no'}}\nwhy: [{a: 1}]\n")
    for full in (False, True):
        assert parse_preset(dump_preset(preset, full=full)) == preset


def test_json_schema_describes_what_the_loader_takes():
    schema = json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    good = yaml_text.load(MINIMAL + "training: {learning_rate: auto, max_steps: 3}\n")[0]
    assert validator.is_valid(good)
    assert not validator.is_valid(good | {"trainin": {}})
    auto = {"const": "auto", "type": "string"}
    assert auto in schema["$defs"]["Training"]["properties"]["micro_batch"]["anyOf"]
    assert "auto" not in str(schema["$defs"]["Training"]["properties"]["seed"])


def test_every_key_explains_itself():
    defs = json_schema()["$defs"]
    silent = [f"{name}.{key}" for name, section in defs.items() for key, value in section.get("properties", {}).items() if "description" not in value]
    assert silent == []
    assert {"training.max_steps", "model.adapter.r", "distributed.communication.bucket_mb"} <= set(known_keys())


def test_unresolved_keys():
    assert "training.micro_batch" in unresolved(parse_preset(MINIMAL)) and "training.seed" not in unresolved(parse_preset(MINIMAL))


@pytest.mark.parametrize(("given", "world", "plan"), [
    ((16, 4, None), 2, (16, 4, 2)), ((16, None, 2), 2, (16, 4, 2)), ((None, 4, 2), 2, (16, 4, 2)), ((16, 4, 2), 2, (16, 4, 2)),
])
def test_batch_arithmetic(given, world, plan):
    assert derive_batch(*given, world) == plan


@pytest.mark.parametrize("given", [(16, 4, 3), (10, 4, None), (10, None, 3)])
def test_batches_that_do_not_agree(given):
    with pytest.raises(PresetError, match="training.global_batch"):
        derive_batch(*given, 2)


def test_a_token_in_a_preset_is_refused_and_not_repeated():
    token = "hf_" + "a1b2c3d4e5f6"
    for overrides in (None, {"hub.token": token}):
        problem = problems_of(MINIMAL if overrides else MINIMAL + f"hub: {{token: {token}}}\n", overrides)["hub.token"]
        assert token not in str(problem) and "hidden" in problem.found
    kept = parse_preset(MINIMAL + "hub: {push: true, repo: me/model, token: '${MY_TOKEN}'}\n")
    assert "${MY_TOKEN}" in dump_preset(kept, full=True)
