"""Model facts: parameters from configurations and headers, and models that are not what they should be."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from wizard.errors import InvalidError
from wizard.facts.model import hub_folder, read_model_facts
from wizard.facts.parameters import adapter_parameters, count_parameters, shape_of

BASE = Path(".")

#: (configuration, parameters) as counted on the models that transformers 5.24 makes of them (two layers, defaults).
COUNTED = [
    ({"model_type": "llama", "num_hidden_layers": 2}, 666914816),
    ({"model_type": "mistral", "num_hidden_layers": 2}, 698372096),
    ({"model_type": "qwen2", "num_hidden_layers": 2}, 1919987712),
    ({"model_type": "qwen3", "num_hidden_layers": 2}, 1919963648),
    ({"model_type": "gemma", "num_hidden_layers": 2}, 1340095488),
    ({"model_type": "gemma2", "num_hidden_layers": 2}, 745558272),
    ({"model_type": "gemma3_text", "num_hidden_layers": 2}, 759862528),
    ({"model_type": "phi3", "num_hidden_layers": 2}, 423508992),
    ({"model_type": "granite", "num_hidden_layers": 2}, 666914816),
    ({"model_type": "gpt2", "n_layer": 2}, 53561088),
    ({"model_type": "gpt_neox", "num_hidden_layers": 2}, 1525850112),
    ({"model_type": "llama", "num_hidden_layers": 2, "attention_bias": True, "mlp_bias": True}, 666999808),
    (
        {
            "model_type": "qwen2",
            "num_hidden_layers": 2,
            "hidden_size": 896,
            "num_attention_heads": 14,
            "num_key_value_heads": 2,
            "intermediate_size": 4864,
            "tie_word_embeddings": True,
        },
        165960320,
    ),
]
TINY = {
    "model_type": "llama",
    "vocab_size": 4096,
    "hidden_size": 192,
    "intermediate_size": 512,
    "num_hidden_layers": 4,
    "num_attention_heads": 6,
    "num_key_value_heads": 3,
    "max_position_embeddings": 512,
    "tie_word_embeddings": True,
}


@pytest.mark.parametrize(
    "config,parameters", COUNTED, ids=lambda value: value["model_type"] if isinstance(value, dict) else ""
)
def test_parameters_equal_those_of_the_real_classes(config, parameters):
    assert count_parameters(config).total == parameters


def test_adapter_parameters_equal_those_of_peft():
    assert adapter_parameters(shape_of(TINY), 16) == 221184


def test_a_written_out_configuration():
    facts = read_model_facts(None, TINY, BASE)
    assert facts.from_scratch and facts.parameters == 2410176 and facts.embedding_parameters == 786432
    assert facts.matrix_parameters == facts.parameters  # tied: the look-up multiplies as the output matrix


def save_safetensors(path: Path, tensors: dict[str, list[int]], dtype: str = "BF16") -> None:
    header = json.dumps(
        {name: {"dtype": dtype, "shape": shape, "data_offsets": [0, 0]} for name, shape in tensors.items()}
        | {"__metadata__": {"format": "pt"}}
    ).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header)


def folder(path: Path, config: dict, **tensors: list[int]) -> Path:
    path.mkdir(parents=True)
    (path / "config.json").write_text(json.dumps(config))
    save_safetensors(path / "model.safetensors", {name.replace("__", "."): shape for name, shape in tensors.items()})
    return path


def test_headers_are_believed_before_formulas(tmp_path):
    facts = read_model_facts(
        str(folder(tmp_path / "m", {"model_type": "strange"}, model__embed_tokens__weight=[100, 8], layer__w=[8, 8])),
        None,
        BASE,
    )
    assert (facts.parameters, facts.embedding_parameters, facts.dtype) == (864, 800, "bf16")
    assert facts.parameters_from == "the weights' headers" and facts.layers is None


def test_shards_are_added_up(tmp_path):
    root = folder(tmp_path / "m", TINY, a=[10])
    (root / "model.safetensors").unlink()
    save_safetensors(root / "model-1.safetensors", {"a": [10]})
    save_safetensors(root / "model-2.safetensors", {"b": [5, 2]})
    (root / "model.safetensors.index.json").write_text(
        json.dumps({"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}})
    )
    assert read_model_facts("m", None, tmp_path).parameters == 20
    (root / "model-2.safetensors").unlink()
    facts = read_model_facts("m", None, tmp_path)
    assert facts.parameters == 2410176 and "weights" in facts.unknown


def test_a_cut_off_file_is_not_believed(tmp_path):
    root = folder(tmp_path / "m", TINY, a=[10])
    (root / "model.safetensors").write_bytes(b"\xff\xff\xff\xff\xff\xff\xff\x00{}")
    assert read_model_facts("m", None, tmp_path).parameters_from == "the configuration"


def test_the_text_part_of_a_multimodal_model(tmp_path):
    facts = read_model_facts(
        str(
            folder(
                tmp_path / "m",
                {"model_type": "gemma3", "text_config": {"model_type": "gemma3_text", "num_hidden_layers": 2}},
                a=[1],
            )
        ),
        None,
        BASE,
    )
    assert facts.layers == 2 and facts.architecture == "gemma3_text"


def test_a_hub_id_that_is_not_here_is_unknown():
    facts = read_model_facts("owner/never-downloaded", None, BASE)
    assert not facts.found and facts.parameters is None and "not on this machine" in facts.unknown["model"]


def test_a_hub_model_in_the_cache_is_read(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    root = tmp_path / "models--owner--name"
    folder(root / "snapshots" / "abc", TINY, a=[7])
    (root / "refs").mkdir()
    (root / "refs" / "main").write_text("abc")
    assert hub_folder("owner/name") == root / "snapshots" / "abc"
    assert read_model_facts("owner/name", None, BASE).parameters == 7


@pytest.mark.parametrize(
    "path,message",
    [
        ("./nothing", "does not exist"),
        ("models/lama", "does not exist"),
        ("models/empty", "no config.json"),
        ("models/adapter", "holds an adapter"),
        ("models/broken", "not a readable JSON"),
        ("models/file", "is a file"),
    ],
)
def test_unusable_models_are_one_clear_error(tmp_path, path, message):
    models = tmp_path / "models"
    folder(models / "llama", TINY, a=[1])
    for name in ("empty", "adapter", "broken"):
        (models / name).mkdir()
    (models / "adapter" / "adapter_config.json").write_text("{}")
    (models / "broken" / "config.json").write_text("{")
    (models / "file").write_text("x")
    with pytest.raises(InvalidError, match=message):
        read_model_facts(path, None, tmp_path)


@pytest.mark.parametrize(
    "config,message",
    [
        ({"hidden_size": 8}, "model_type"),
        ({**TINY, "hidden_size": 100}, "multiple of num_attention_heads"),
        ({**TINY, "num_key_value_heads": 4}, "num_key_value_heads"),
        ({**TINY, "num_hidden_layers": "four"}, "positive whole number"),
        ({**TINY, "vocab_size": -1}, "positive whole number"),
        ("./missing.json", "does not exist"),
    ],
)
def test_unusable_configurations_are_one_clear_error(config, message):
    with pytest.raises(InvalidError, match=message):
        read_model_facts(None, config, BASE)


def test_positions_that_a_model_cannot_use_are_not_counted():
    config = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64, "vocab_size": 300,
              "max_position_embeddings": 514}
    assert read_model_facts(None, {"model_type": "roberta", **config}, BASE).max_positions == 512
    assert read_model_facts(None, {"model_type": "bert", **config}, BASE).max_positions == 514
