"""How many parameters a decoder of a known family has, from its configuration alone.

The formulas follow the layers of transformers' own classes; the tests hold counts that those classes gave.
Configurations leave out what equals a class default, so the defaults of each family are here as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Shape:
    """The sizes that decide memory and speed. `kv_width` and `q_width` are heads times head dimension."""

    layers: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    positions: int | None
    tied: bool
    gated: bool

    @property
    def q_width(self) -> int:
        return self.heads * self.head_dim

    @property
    def kv_width(self) -> int:
        return self.kv_heads * self.head_dim


@dataclass(frozen=True)
class Count:
    """`total` counts shared weights once; `embedding` is the input look-up (and learned positions)."""

    total: int
    embedding: int


_LLAMA = {
    "vocab_size": 32000,
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "max_position_embeddings": 2048,
    "tie_word_embeddings": False,
}
_DEFAULTS: dict[str, dict[str, Any]] = {
    "llama": _LLAMA,
    "mistral": {**_LLAMA, "intermediate_size": 14336, "num_key_value_heads": 8, "max_position_embeddings": 131072},
    "qwen2": {
        **_LLAMA,
        "vocab_size": 151936,
        "intermediate_size": 22016,
        "num_key_value_heads": 32,
        "max_position_embeddings": 32768,
    },
    "qwen3": {
        **_LLAMA,
        "vocab_size": 151936,
        "intermediate_size": 22016,
        "num_key_value_heads": 32,
        "head_dim": 128,
        "max_position_embeddings": 32768,
    },
    "gemma": {
        **_LLAMA,
        "vocab_size": 256000,
        "hidden_size": 3072,
        "intermediate_size": 24576,
        "num_hidden_layers": 28,
        "num_attention_heads": 16,
        "num_key_value_heads": 16,
        "head_dim": 256,
        "max_position_embeddings": 8192,
        "tie_word_embeddings": True,
    },
    "gemma2": {
        **_LLAMA,
        "vocab_size": 256000,
        "hidden_size": 2304,
        "intermediate_size": 9216,
        "num_hidden_layers": 26,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "max_position_embeddings": 8192,
        "tie_word_embeddings": True,
    },
    "gemma3_text": {
        **_LLAMA,
        "vocab_size": 262208,
        "hidden_size": 2304,
        "intermediate_size": 9216,
        "num_hidden_layers": 26,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "max_position_embeddings": 131072,
        "tie_word_embeddings": True,
    },
    "phi3": {
        **_LLAMA,
        "vocab_size": 32064,
        "hidden_size": 3072,
        "intermediate_size": 8192,
        "max_position_embeddings": 4096,
    },
    "granite": _LLAMA,
    "gpt2": {
        "vocab_size": 50257,
        "n_embd": 768,
        "n_layer": 12,
        "n_head": 12,
        "n_positions": 1024,
        "tie_word_embeddings": True,
    },
    "gpt_neox": {
        "vocab_size": 50432,
        "hidden_size": 6144,
        "intermediate_size": 24576,
        "num_hidden_layers": 44,
        "num_attention_heads": 64,
        "max_position_embeddings": 2048,
        "attention_bias": True,
        "tie_word_embeddings": False,
    },
}
KNOWN = tuple(_DEFAULTS)


def shape_of(config: dict[str, Any]) -> Shape | None:
    """The sizes in a configuration; None for a family that is not known and does not name the usual keys.

    Raises ValueError naming a key that is not a positive whole number.
    """
    family = config.get("model_type")
    values = {**_DEFAULTS.get(family, {}), **{key: value for key, value in config.items() if value is not None}}

    def number(*keys: str) -> int | None:
        for key in keys:
            if key in values:
                value = values[key]
                if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                    raise ValueError(f"{key}: found {value!r}; expected a positive whole number")
                return value
        return None

    layers, hidden = number("num_hidden_layers", "n_layer"), number("hidden_size", "n_embd")
    heads, vocab = number("num_attention_heads", "n_head"), number("vocab_size")
    if None in (layers, hidden, heads, vocab):
        return None
    # gpt2 and its like leave the inner size out: four times the hidden size
    inner = number("intermediate_size", "n_inner", "ffn_dim") or 4 * hidden
    return Shape(
        layers,
        hidden,
        inner,
        heads,
        number("num_key_value_heads") or heads,
        number("head_dim") or hidden // heads,
        vocab,
        number("max_position_embeddings", "n_positions"),
        bool(values.get("tie_word_embeddings", True)),
        gated=family not in ("gpt2", "gpt_neox", "opt", "bloom", "phi", "gptj", "falcon"),
    )


def count_parameters(config: dict[str, Any]) -> Count | None:
    """Parameters of the causal language model of `config`; None for a family that is not in `KNOWN`.

    Raises ValueError like `shape_of`.
    """
    family, shape = config.get("model_type"), shape_of(config)
    if family not in _DEFAULTS or shape is None:
        return None
    if family == "gpt2":
        return _gpt2(shape)
    if family == "gpt_neox":
        return _gpt_neox(shape, {**_DEFAULTS[family], **config})
    return _llama_like(family, shape, config)


def _llama_like(family: str, shape: Shape, config: dict[str, Any]) -> Count:
    hidden, q, kv, inner = shape.hidden, shape.q_width, shape.kv_width, shape.intermediate
    attention = hidden * q + 2 * hidden * kv + q * hidden
    if family == "qwen2":  # always biases on q, k, v, never on the output
        attention += q + 2 * kv
    elif config.get("attention_bias"):
        attention += q + 2 * kv + hidden
    if family in ("qwen3", "gemma3_text"):  # a norm over each head of q and of k
        attention += 2 * shape.head_dim
    mlp = 3 * hidden * inner + (2 * inner + hidden if config.get("mlp_bias") else 0)
    norms = (4 if family in ("gemma2", "gemma3_text") else 2) * hidden
    embedding = shape.vocab * hidden
    total = embedding + shape.layers * (attention + mlp + norms) + hidden + (0 if shape.tied else embedding)
    return Count(total, embedding)


def _gpt2(shape: Shape) -> Count:
    hidden, inner = shape.hidden, shape.intermediate
    layer = (
        (3 * hidden * hidden + 3 * hidden)
        + (hidden * hidden + hidden)
        + (2 * hidden * inner + inner + hidden)
        + 4 * hidden
    )
    embedding = (shape.vocab + (shape.positions or 0)) * hidden
    return Count(embedding + shape.layers * layer + 2 * hidden + (0 if shape.tied else shape.vocab * hidden), embedding)


def _gpt_neox(shape: Shape, config: dict[str, Any]) -> Count:
    hidden, inner = shape.hidden, shape.intermediate
    attention = 4 * hidden * hidden + (4 * hidden if config.get("attention_bias", True) else 0)
    layer = attention + (2 * hidden * inner + inner + hidden) + 4 * hidden
    embedding = shape.vocab * hidden
    return Count(embedding + shape.layers * layer + 2 * hidden + (0 if shape.tied else embedding), embedding)


def adapter_parameters(shape: Shape, r: int) -> int:
    """Trained parameters of a LoRA of rank `r` on all linear layers of the blocks: r x (inputs + outputs) of each."""
    hidden, q, kv, inner = shape.hidden, shape.q_width, shape.kv_width, shape.intermediate
    attention = (hidden + q) + 2 * (hidden + kv) + (q + hidden)
    mlp = (3 if shape.gated else 2) * (hidden + inner)
    return shape.layers * r * (attention + mlp)
