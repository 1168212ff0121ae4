"""The tokenizer of a training: the model's own, or for a model from scratch one trained on the data."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

from engine.contract.preset import Preset
from engine.data.templates import set_chat_template
from engine.errors import ModelError

#: Characters that decide the vocabulary; more text than this changes a few thousand tokens hardly at all.
TRAINING_CHARACTERS = 100_000_000
_BYTES = 256


def needs_training(preset: Preset) -> bool:
    """Whether there is no tokenizer yet: a model from scratch without `model.tokenizer`."""
    return preset.model.from_config is not None and preset.model.tokenizer is None


def load_tokenizer(preset: Preset, writes: bool = True) -> Any:
    """The tokenizer that the preset names. For a model that `writes` text it has the preset's chat template.

    Raises ModelError when it cannot be loaded, or when a model that writes would have no end-of-text token, DataError
    for the template.
    """
    from transformers import AutoTokenizer

    where = preset.model.tokenizer or preset.model.path
    try:
        tokenizer = AutoTokenizer.from_pretrained(where, trust_remote_code=preset.model.trust_remote_code)
    except Exception as error:  # from a missing file to code of the model's author
        reason = " ".join(str(error).split())[:400] or type(error).__name__
        raise ModelError(f"the tokenizer of {where} cannot be loaded: {reason}\nGive a folder or hub id that has one with "
                         "model.tokenizer.") from None
    if writes and tokenizer.eos_token_id is None:
        raise ModelError(f"the tokenizer of {where} has no end-of-text token (eos_token), so a model could not learn where "
                         "to stop. Set one in its tokenizer_config.json.")
    vocab_size = config_value(preset, "vocab_size")
    if preset.model.from_config is not None and vocab_size is not None and len(tokenizer) > vocab_size:
        raise ModelError(f"the tokenizer {where} has {len(tokenizer):,} tokens, but model.from_config has vocab_size "
                         f"{vocab_size:,}: set it to {len(tokenizer)} or more.")
    if writes:
        set_chat_template(tokenizer, preset.data.chat_template)
    return tokenizer


def train_tokenizer(preset: Preset, texts: Iterable[str]) -> Any:
    """A byte-level BPE with the vocabulary size of `model.from_config`, learned from `texts`.

    The same texts in the same order give the same tokenizer. Byte-level, so that any text can be written with it
    (Radford et al., "Language Models are Unsupervised Multitask Learners", 2019). Raises ModelError when the
    vocabulary cannot even hold the bytes.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    vocab_size = config_value(preset, "vocab_size")
    if vocab_size is None:
        vocab_size = _default_vocab_size(config_value(preset, "model_type"))
    chat = preset.data.chat_template
    # a chat turn of a model from scratch ends with the end-of-text token itself, so that generation stops there
    end = "<|im_end|>" if chat == "chatml" else "<|endoftext|>"
    special = [end, "<|pad|>"]
    special += {"chatml": ["<|im_start|>"], "zephyr": ["<|system|>", "<|user|>", "<|assistant|>"]}.get(chat or "", [])
    if vocab_size < _BYTES + len(special):
        raise ModelError(f"model.from_config: vocab_size {vocab_size} is too small: a byte-level tokenizer needs "
                         f"{_BYTES} bytes and {len(special)} marks, {_BYTES + len(special)} or more.")
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    trainer = trainers.BpeTrainer(vocab_size=vocab_size, min_frequency=2, special_tokens=special, show_progress=False,
                                  initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()))
    tokenizer.train_from_iterator(texts, trainer=trainer)
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token=end, bos_token=end, pad_token="<|pad|>",
        model_max_length=config_value(preset, "max_position_embeddings") or 1_000_000,
        clean_up_tokenization_spaces=False)
    set_chat_template(wrapped, chat)
    return wrapped


def config_value(preset: Preset, key: str) -> Any:
    """A number or name of the model's configuration; None where it is not said or cannot be had.

    Raises ModelError for a `model.from_config` file that cannot be read.
    """
    config: Any = preset.model.from_config
    if config is None:
        config = _config_of(preset.model.path or "")
    elif not isinstance(config, dict):
        path = Path(config).expanduser()
        path = path / "config.json" if path.is_dir() else path
        try:
            config = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ModelError(f"the model's configuration {path} cannot be read: {' '.join(str(error).split())}") from None
        if not isinstance(config, dict):
            raise ModelError(f"the model's configuration {path} is not a JSON object.")
    if key not in config and isinstance(config.get("text_config"), dict):
        config = config["text_config"]
    return config.get(key)


@lru_cache(maxsize=4)
def _config_of(path: str) -> dict[str, Any]:
    """The configuration of a model in a folder or on the hub, empty where there is none: loading the model will say."""
    from transformers import PreTrainedConfig

    try:
        return PreTrainedConfig.get_config_dict(path)[0]
    except Exception:  # from a missing file to the network
        return {}


def _default_vocab_size(model_type: Any) -> int:
    from transformers import AutoConfig

    try:
        return int(AutoConfig.for_model(model_type).vocab_size)
    except Exception:  # no such type, or one without a vocabulary
        raise ModelError(f"model.from_config says neither vocab_size nor a model_type that has one (found "
                         f"{model_type!r}).") from None
