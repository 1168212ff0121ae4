"""What a model is, read from its folder without torch: config.json and the headers of its weights."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from wizard.errors import InvalidError
from wizard.facts.locate import is_path, resolve
from wizard.facts.parameters import Shape, count_parameters, shape_of
from wizard.facts.safetensors import read_weights

#: RoBERTa and its kin count positions from behind the number of the padding token, 1: two of the table are never used.
_COUNT_FROM_PADDING = {"roberta", "xlm-roberta", "xlm-roberta-xl", "roberta-prelayernorm", "camembert", "longformer", "mpnet",
                       "data2vec-text", "xmod", "ibert"}


class ModelFacts(BaseModel):
    """Facts of one model. What could not be read is None, with the reason in `unknown`."""

    model_config = ConfigDict(extra="ignore", protected_namespaces=())

    source: str = Field(description="folder, hub id, or `from_config`")
    found: bool = Field(description="a configuration was read; False for a hub id that is not on this machine")
    folder: str | None = None
    from_scratch: bool = False
    architecture: str | None = Field(None, description="model_type: llama, qwen2, ...")
    parameters: int | None = None
    embedding_parameters: int | None = Field(None, description="input look-up, part of `parameters`")
    parameters_from: str | None = Field(None, description="the configuration, or the weights' headers")
    layers: int | None = None
    hidden_size: int | None = None
    intermediate_size: int | None = None
    heads: int | None = None
    kv_heads: int | None = None
    head_dim: int | None = None
    vocab_size: int | None = None
    max_positions: int | None = None
    tied_embeddings: bool | None = None
    gated_mlp: bool | None = None
    dtype: str | None = Field(None, description="number format of the stored weights: fp32, bf16, fp16")
    size_bytes: int | None = Field(None, description="weights on disk")
    quantized: str | None = Field(None, description="the weights themselves are quantized: gptq, awq, ...")
    chat_template: bool | None = None
    unknown: dict[str, str] = Field(default_factory=dict)

    @property
    def shape(self) -> Shape | None:
        values = (
            self.layers,
            self.hidden_size,
            self.intermediate_size,
            self.heads,
            self.kv_heads,
            self.head_dim,
            self.vocab_size,
        )
        if None in values:
            return None
        return Shape(*values, self.max_positions, bool(self.tied_embeddings), self.gated_mlp is not False)

    @property
    def matrix_parameters(self) -> int | None:
        """Parameters that multiply every token: the look-up left out, a tied output matrix kept."""
        if self.parameters is None or self.embedding_parameters is None:
            return None
        return self.parameters if self.tied_embeddings else self.parameters - self.embedding_parameters


def read_model_facts(path: str | None, from_config: str | dict[str, Any] | None, base: Path) -> ModelFacts:
    """Facts of the preset's `model.path` or `model.from_config`, seen from the folder `base`.

    A hub id is looked up in the local cache only, never on the network. Raises InvalidError for a local path that
    is not there or holds no usable configuration, and when neither is given.
    """
    if from_config is not None:
        return _from_config(from_config, base)
    if path is None:
        raise InvalidError(
            "no model: neither model.path nor model.from_config is set",
            "set model.path to a folder or hub id, or model.from_config to train from scratch",
        )
    if not is_path(path, base, data=False):
        folder = hub_folder(path)
        if folder is None:
            return ModelFacts(
                source=path,
                found=False,
                unknown={"model": f"{path} is not on this machine yet; its size is known once it is downloaded"},
            )
        return _from_folder(path, folder)
    folder = resolve(path, base)
    if not folder.exists():
        raise InvalidError(f"model.path: {folder} does not exist", _near(folder))
    if folder.is_file():
        raise InvalidError(f"model.path: {folder} is a file", "give the folder that holds config.json and the weights")
    return _from_folder(path, folder)


def hub_folder(model_id: str, environ: dict[str, str] | None = None) -> Path | None:
    """The newest complete snapshot of a hub model in the local cache, or None."""
    environ = dict(os.environ) if environ is None else environ
    home = Path(environ.get("HF_HOME") or Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "huggingface")
    cache = Path(environ.get("HF_HUB_CACHE") or home / "hub")
    root = cache / f"models--{model_id.replace('/', '--')}"
    try:
        commit = (root / "refs" / "main").read_text(encoding="utf-8").strip()
        folder = root / "snapshots" / commit
        return folder if (folder / "config.json").is_file() else None
    except OSError:
        return None


def _from_folder(source: str, folder: Path) -> ModelFacts:
    file = folder / "config.json"
    if not file.is_file():
        if (folder / "adapter_config.json").is_file():
            raise InvalidError(
                f"model.path: {folder} holds an adapter, not a model",
                "give the base model here; an adapter alone cannot be trained further in this version",
            )
        names = sorted(item.name for item in folder.iterdir())[:6]
        raise InvalidError(
            f"model.path: {folder} has no config.json (it holds {', '.join(names) or 'nothing'})",
            "give the folder that holds config.json and the weights",
        )
    facts = _facts(source, _read_json(file), scratch=False, where=str(file))
    facts.folder = str(folder)
    try:
        weights = read_weights(folder)
    except OSError as error:
        weights = None
        facts.unknown["weights"] = f"cannot be read ({error.strerror or error})"
    if weights is not None:
        facts.dtype, facts.size_bytes = weights.dtype or facts.dtype, weights.bytes
        if facts.quantized is None and weights.parameters:
            facts.parameters, facts.parameters_from = weights.parameters, "the weights' headers"
            facts.embedding_parameters = weights.embedding or facts.embedding_parameters
    else:
        others = [
            item
            for item in folder.iterdir()
            if item.suffix in (".bin", ".pt") and item.name.startswith("pytorch_model")
        ]
        facts.size_bytes = sum(item.stat().st_size for item in others) or None
        if not others:
            facts.unknown.setdefault("weights", "no complete safetensors or pytorch_model files in the folder")
    facts.chat_template = _has_template(folder)
    return facts


def _from_config(config: str | dict[str, Any], base: Path) -> ModelFacts:
    if isinstance(config, dict):
        return _facts("from_config", config, scratch=True, where="model.from_config")
    if not is_path(config, base, data=False):
        folder = hub_folder(config)
        if folder is None:
            return ModelFacts(
                source=config,
                found=False,
                from_scratch=True,
                unknown={"model": f"{config} is not on this machine yet; its size is known once it is downloaded"},
            )
        return _facts(config, _read_json(folder / "config.json"), scratch=True, where=config)
    file = resolve(config, base)
    if file.is_dir():
        file = file / "config.json"
    if not file.is_file():
        raise InvalidError(f"model.from_config: {file} does not exist", _near(file))
    return _facts(config, _read_json(file), scratch=True, where=str(file))


def _facts(source: str, config: dict[str, Any], scratch: bool, where: str) -> ModelFacts:
    # multimodal configurations keep the language model in a section of its own
    if "num_hidden_layers" not in config and isinstance(config.get("text_config"), dict):
        config = {
            **config["text_config"],
            "model_type": config["text_config"].get("model_type", config.get("model_type")),
        }
    if scratch and not config.get("model_type"):
        raise InvalidError(f"{where}: no model_type", "name the architecture, for example `model_type: llama`")
    try:
        shape, count = shape_of(config), count_parameters(config)
    except ValueError as error:
        raise InvalidError(f"{where}: {error}") from None
    if shape is not None and scratch and config.get("head_dim") is None and shape.hidden % shape.heads:
        raise InvalidError(
            f"{where}: hidden_size {shape.hidden} is not a multiple of num_attention_heads {shape.heads}",
            "choose two that divide, or set head_dim",
        )
    if shape is not None and shape.heads % shape.kv_heads:
        raise InvalidError(
            f"{where}: num_attention_heads {shape.heads} is not a multiple of num_key_value_heads {shape.kv_heads}"
        )
    unknown = {}
    if count is None:
        unknown["parameters"] = f"no formula for architecture {config.get('model_type') or '(not named)'}"
    method = (config.get("quantization_config") or {}).get("quant_method") if not scratch else None
    dtype = config.get("dtype") or config.get("torch_dtype")
    return ModelFacts(
        source=source,
        found=True,
        from_scratch=scratch,
        architecture=config.get("model_type"),
        parameters=count.total if count else None,
        embedding_parameters=count.embedding if count else None,
        parameters_from="the configuration" if count else None,
        **_sizes(shape, str(config.get("model_type"))),
        dtype={"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}.get(str(dtype)) if not scratch else "fp32",
        quantized=str(method) if method else None,
        unknown=unknown,
    )


def _sizes(shape: Shape | None, model_type: str) -> dict[str, Any]:
    if shape is None:
        return {}
    positions = shape.positions
    if positions and model_type in _COUNT_FROM_PADDING:
        positions -= 2
    return {
        "layers": shape.layers,
        "hidden_size": shape.hidden,
        "intermediate_size": shape.intermediate,
        "heads": shape.heads,
        "kv_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "vocab_size": shape.vocab,
        "max_positions": positions,
        "tied_embeddings": shape.tied,
        "gated_mlp": shape.gated,
    }


def _read_json(file: Path) -> dict[str, Any]:
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidError(
            f"{file}: not a readable JSON file ({error})", "check that the model was saved or downloaded whole"
        ) from None
    if not isinstance(data, dict):
        raise InvalidError(
            f"{file}: not a configuration (a JSON object)", "check that the model was saved or downloaded whole"
        )
    return data


def _has_template(folder: Path) -> bool | None:
    if (folder / "chat_template.jinja").is_file() or (folder / "chat_template.json").is_file():
        return True
    try:
        return bool(json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8")).get("chat_template"))
    except (OSError, ValueError, AttributeError):
        return None


def _near(path: Path) -> str:
    """What is there instead, to find a slip of the pen."""
    parent = path.parent
    while not parent.exists() and parent != parent.parent:
        parent = parent.parent
    try:
        names = sorted(item.name for item in parent.iterdir() if not item.name.startswith("."))[:8]
    except OSError:
        names = []
    return f"{parent} holds: {', '.join(names)}" if names else f"{parent} is empty or cannot be read"
