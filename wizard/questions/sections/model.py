"""Which model is trained, and how much of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wizard import formatting
from wizard.questions import wording
from wizard.questions.context import Context
from wizard.questions.question import Answer, Choice, Question


def _source_default(context: Context) -> Answer:
    if context.preset.get("model.path"):
        return context.from_preset("path")
    if isinstance(context.preset.get("model.from_config"), str):
        return context.from_preset("config")
    if context.preset.get("model.from_config"):
        return context.from_preset("written")
    return Answer("written", "default", "needs no download, and a few minutes show the whole way")


def _source_choices(context: Context) -> list[Choice]:
    whose = "in the preset" if context.preset.get("model.from_config") else "of the quickstart"
    written = context.written_config
    detail = _describe(written) if isinstance(written, Mapping) else ""
    return [
        *([Choice("written", f"The small model {whose}", detail)] if isinstance(written, Mapping) else []),
        Choice("path", "A pretrained model", "a folder on this machine, or a Hugging Face id"),
        Choice("config", "From scratch, my own", "a transformers config.json"),
    ]


def _describe(config: Mapping[str, Any]) -> str:
    layers, width = config.get("num_hidden_layers"), config.get("hidden_size")
    kind = str(config.get("model_type", "model"))
    return f"{kind}, {layers} layers of {width}, from scratch" if layers and width else f"{kind}, from scratch"


def asks_source(context: Context) -> bool:
    return context.values.get("task") not in ("llm-sft", "text-classification") or bool(context.preset.get("model.from_config"))


def wants_path(context: Context) -> bool:
    return not asks_source(context) or context.values.get("model.source") == "path"


def _source_preset(value: str, context: Context) -> dict[str, Any]:
    if value == "written":
        return {"model.path": None, "model.from_config": context.written_config}
    return {"model.path": None, "model.from_config": None}


def _model_note(context: Context) -> str:
    facts = context.model
    if facts is not None and not facts.found:
        return " ".join(f"{why[:1].upper()}{why[1:]}." for why in facts.unknown.values())
    return wording.found(wording.model(facts))


def _config_default(context: Context) -> Answer:
    given = context.preset.get("model.from_config")
    return context.from_preset(given) if isinstance(given, str) else Answer(None, "default")


def _adapter_default(context: Context) -> Answer:
    given = context.given("model.adapter.type", starter=False)
    if given:
        return given
    if context.opened:  # a preset without an adapter trains all weights, and means it
        return context.from_preset("none")
    parameters = context.model.parameters if context.model else None
    if parameters is not None and parameters < 1e9:
        return Answer("none", "recommended",
                      f"{formatting.count(parameters)} parameters are few enough to train all of them")
    return Answer("lora", "recommended", "trains well under 1 % of the weights, so it needs a fraction of the memory")


def _adapter_preset(value: str, context: Context) -> dict[str, Any]:
    return {"model.adapter": None} if value == "none" else {"model.adapter.type": value}


SOURCE = Question(
    key="model.source", section="Model", kind="choice",
    title="Where does the model come from?",
    help="A pretrained model already knows language and only has to be adapted. Training from scratch starts with random "
         "weights: right for learning how it works and for data unlike any other, hopeless for a chatbot on a small budget.",
    default=_source_default, choices=_source_choices, when=asks_source, preset=_source_preset,
    keys=("model.path", "model.from_config"),
)

PATH = Question(
    key="model.path", section="Model", kind="path",
    title="Which pretrained model?",
    help="A folder with config.json and safetensors files, or the id of a model on the Hugging Face hub such as "
         "owner/name, which is downloaded when the training starts. A folder is read now, so that the advice fits it.",
    default=lambda c: c.given("model.path", starter=False) or Answer(None, "default"),
    when=wants_path, note=_model_note, reads="model", placeholder="./models/SmolLM2-135M-Instruct",
)

CONFIG = Question(
    key="model.from_config", section="Model", kind="path",
    title="Which configuration shall the new model have?",
    help="A transformers config.json: the architecture and its sizes, without weights. The tokenizer is trained on your "
         "data, with the vocabulary size that the configuration names.",
    default=_config_default, when=lambda c: asks_source(c) and c.values.get("model.source") == "config",
    note=_model_note, reads="model", placeholder="./my-model/config.json",
)

ADAPTER = Question(
    key="model.adapter.type", section="Model", kind="choice",
    title="How much of the model is trained?",
    help="All weights learn the most and need the most memory: about 16 bytes a parameter with AdamW. A LoRA adapter "
         "trains two thin matrices beside each layer instead; the model on disk stays as it is and the result is small.",
    default=_adapter_default, when=wants_path, preset=_adapter_preset,
    choices=lambda c: [
        Choice("none", "All weights", "full fine-tuning"),
        Choice("lora", "LoRA adapter", "low-rank updates beside the frozen weights"),
        Choice("dora", "DoRA adapter", "LoRA with magnitude apart: a little better, a little slower"),
    ],
)
