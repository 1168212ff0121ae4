"""The preset: one portable YAML file that says everything about a training.

A key whose type includes `auto` may be left to the machine that runs the preset; each launch freezes what was
resolved into the run's folder. Every section forbids keys it does not know.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

VERSION = 1

Auto = Literal["auto"]
PositiveInt = Annotated[int, Field(ge=1)]
NonNegativeInt = Annotated[int, Field(ge=0)]
PositiveFloat = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NonNegativeFloat = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, lt=1)]

Task = Literal[
    "llm-pretrain", "llm-sft", "llm-dpo", "llm-orpo", "llm-reward", "text-classification", "text-regression",
    "token-classification", "extractive-qa", "seq2seq", "sentence-transformers", "image-classification",
    "image-regression", "object-detection", "vlm", "tabular", "script",
]
#: What this version of the engine trains; the other names are reserved so that presets stay readable.
TRAINABLE_TASKS = ("llm-pretrain", "llm-sft", "text-classification", "script")
Backend = Literal["nccl", "gloo", "xccl", "hccl", "none"]
Strategy = Literal["single", "ddp", "fsdp", "deepspeed"]
Precision = Literal["fp32", "fp16", "bf16"]
Tracker = Literal["tensorboard", "wandb", "mlflow", "trackio"]
PlainName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]


class Section(BaseModel):
    """Common ground of all sections: no unknown keys, no silent conversion of types."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Adapter(Section):
    """A small set of trained weights beside the frozen model (peft)."""

    type: Literal["lora", "dora"] = Field("lora", description="the kind of adapter")
    r: PositiveInt = Field(16, description="rank of the low-rank update")
    alpha: PositiveFloat = Field(32, description="scale of the update; the update is multiplied by alpha / r")
    dropout: Share = Field(0.05, description="dropout before the adapter")
    target_modules: str | list[str] = Field("all-linear", description="`all-linear`, or the names of the layers")
    merge: bool = Field(False, description="merge the adapter into the model when the training ends")


class Model(Section):
    path: str | None = Field(None, description="a folder with a model, or a hub id")
    from_config: str | dict[str, Any] | None = Field(
        None, description="train from scratch: a transformers configuration, as a file or written out")
    tokenizer: str | None = Field(
        None, description="a folder or hub id; without it the model's own, or for `from_config` one trained on the data")
    adapter: Adapter | None = Field(None, description="train an adapter instead of all weights")
    quantization: Literal["int4", "int8"] | None = Field(None, description="load the frozen base quantized (needs a GPU)")
    trust_remote_code: bool = Field(False, description="run code that comes with the model; only for models you trust")

    @model_validator(mode="after")
    def _one_source(self) -> Model:
        if self.path is not None and self.from_config is not None:
            raise ValueError("both `path` and `from_config`|exactly one of `path` and `from_config`")
        return self


class Data(Section):
    train: str | None = Field(
        None, description="a file (text, JSONL, JSON, CSV, Parquet), a folder, a hub dataset id (`owner/name` or "
        "`owner/name:split`), or `builtin:python-docs`")
    valid: str | Annotated[float, Field(gt=0, lt=1)] | None = Field(
        None, description="like `train`, or the share of the training rows to hold out")
    subset: str | None = Field(None, description="configuration name of a hub dataset")
    kind: str | None = Field(None, description="the shape of the rows, for tasks with several")
    columns: dict[str, str] = Field(default_factory=dict, description="role: column name, where it is not found by itself")
    chat_template: str | None = Field(
        None, description="`chatml`, `zephyr`, a Jinja file, or nothing for the tokenizer's own")
    max_length: Auto | Annotated[int, Field(ge=8)] = Field("auto", description="longest sequence in tokens")
    packing: Auto | bool = Field("auto", description="put several short rows into one sequence")
    on_bad_row: Literal["fail", "skip"] = Field("fail", description="what a row that cannot be used does")


class EarlyStopping(Section):
    patience: PositiveInt = Field(3, description="evaluations without improvement before the training stops")
    min_delta: NonNegativeFloat = Field(0.0, description="smallest drop of the evaluation loss that counts")


class Training(Section):
    seed: NonNegativeInt = Field(42, description="seed of everything random")
    epochs: PositiveFloat | None = Field(None, description="passes over the data (1 when max_steps is not given either)")
    max_steps: PositiveInt | None = Field(None, description="optimizer steps; instead of epochs")
    global_batch: Auto | PositiveInt = Field("auto", description="sequences per optimizer step over all ranks")
    micro_batch: Auto | PositiveInt = Field("auto", description="sequences per rank in one forward pass")
    gradient_accumulation: Auto | PositiveInt = Field("auto", description="forward passes per optimizer step")
    optimizer: Literal["adamw", "sgd"] = Field("adamw", description="the optimizer")
    learning_rate: Auto | PositiveFloat = Field("auto", description="peak learning rate")
    scheduler: Literal["linear", "cosine", "constant"] = Field("linear", description="how the rate falls after warm-up")
    warmup_ratio: Share | None = Field(None, description="share of the steps in which the rate rises (0.03 by default)")
    warmup_steps: NonNegativeInt | None = Field(None, description="steps in which the rate rises")
    weight_decay: NonNegativeFloat = Field(0.0, description="decoupled weight decay of matrices")
    max_grad_norm: PositiveFloat | None = Field(1.0, description="gradients are clipped to this norm")
    precision: Auto | Precision = Field("auto", description="number format of the forward and backward pass")
    gradient_checkpointing: Auto | bool = Field("auto", description="recompute activations to save memory")
    compile: bool = Field(False, description="torch.compile the model")
    eval_every: PositiveInt | Literal["epoch", "end", "never"] = Field("epoch", description="steps between evaluations")
    log_every: PositiveInt = Field(10, description="steps between progress lines")
    early_stopping: EarlyStopping | None = Field(None, description="stop when evaluation no longer improves")
    on_non_finite: Literal["stop", "skip"] = Field("stop", description="what a NaN or infinite loss or gradient does")

    @model_validator(mode="after")
    def _exclusive(self) -> Training:
        for one, other in (("epochs", "max_steps"), ("warmup_ratio", "warmup_steps")):
            if getattr(self, one) is not None and getattr(self, other) is not None:
                raise ValueError(f"both `{one}` and `{other}`|one of the two")
        return self


class Communication(Section):
    compression: Literal["none", "fp16", "bf16"] = Field("none", description="number format of gradients on the wire")
    bucket_mb: Auto | PositiveInt = Field("auto", description="gradient bucket size in MB (MiB, as torch counts)")


class Fsdp(Section):
    reshard_after_forward: bool = Field(
        True, description="drop a block's gathered weights after its forward pass and gather them again for the backward pass")
    accumulate_sharded: bool = Field(
        False, description="reduce gradients after each micro-batch: more traffic, but no rank keeps whole gradients meanwhile")
    offload_params: bool = Field(False, description="keep weights and optimizer state in host memory (GPUs only)")


class Distributed(Section):
    backend: Auto | Backend = Field("auto", description="library for communication between ranks; AMD's RCCL is `nccl`")
    strategy: Auto | Strategy = Field("auto", description="how the work is shared between ranks")
    num_nodes: PositiveInt = Field(1, description="machines")
    min_nodes: PositiveInt | None = Field(None, description="fewest machines to go on with after one is lost")
    max_nodes: PositiveInt | None = Field(None, description="most machines to use")
    num_gpus_per_node: Auto | NonNegativeInt = Field("auto", description="GPUs used on each machine; 0 trains on the CPU")
    num_processes_per_node: Auto | PositiveInt = Field("auto", description="ranks on each machine")
    threads_per_process: Auto | PositiveInt = Field("auto", description="CPU threads of each rank")
    main_address: str | None = Field(None, description="address of the first machine (several machines only)")
    main_port: Auto | Annotated[int, Field(ge=1, le=65535)] = Field("auto", description="rendezvous port")
    network_interface: str | None = Field(None, description="network interface that leads to the other machines")
    env: dict[str, str] = Field(default_factory=dict, description="environment variables for every rank")
    communication: Communication = Field(default_factory=Communication, description="how gradients travel")
    timeout_s: PositiveInt = Field(1800, description="longest wait in one collective, in seconds")
    join_timeout_s: PositiveInt = Field(120, description="longest wait for all machines to join, in seconds")
    max_restarts: NonNegativeInt = Field(0, description="restarts of a crashed group before giving up")
    fsdp: Fsdp = Field(default_factory=Fsdp, description="options of fully sharded data parallel")
    deepspeed: dict[str, Any] = Field(default_factory=dict, description="a DeepSpeed configuration")

    @model_validator(mode="after")
    def _backend_fits_strategy(self) -> Distributed:
        if self.strategy == "single" and self.backend not in ("auto", "none"):
            raise ValueError(f"backend {self.backend} with strategy single|backend none (one process has no backend)")
        if self.backend == "none" and self.strategy not in ("auto", "single"):
            raise ValueError(f"backend none with strategy {self.strategy}|a backend, or strategy single")
        low, high = self.min_nodes, self.max_nodes
        if (low is not None and low > self.num_nodes) or (high is not None and high < self.num_nodes):
            raise ValueError(f"num_nodes {self.num_nodes} with min_nodes {low} and max_nodes {high}|"
                             "min_nodes <= num_nodes <= max_nodes")
        return self


class Checkpoints(Section):
    every_steps: PositiveInt | None = Field(None, description="optimizer steps between checkpoints")
    every_minutes: PositiveFloat | None = Field(None, description="minutes between checkpoints")
    keep_last: PositiveInt = Field(2, description="checkpoints kept; older ones are removed")
    keep_best: bool = Field(
        False, description="also keep the checkpoint with the best evaluation, and make it the final model")
    metric: str = Field("eval_loss", description="what `best` goes by: eval_loss, or eval_ and a metric of the task")

    @model_validator(mode="after")
    def _exclusive(self) -> Checkpoints:
        if self.every_steps is not None and self.every_minutes is not None:
            raise ValueError("both `every_steps` and `every_minutes`|one of the two")
        return self


class Tracking(Section):
    """Where the numbers go besides the run's folder; rank 0 tells them at the cadence of `training.log_every`.

    Each service takes its address and its credentials from its own environment variables (WANDB_API_KEY,
    MLFLOW_TRACKING_URI and so on); TensorBoard's files are in the run's folder.
    """

    to: list[Tracker] = Field(default_factory=list, description="the trackers to tell: tensorboard, wandb, mlflow, trackio")
    project: PlainName | None = Field(None, description="project or experiment there; without it the preset's name")
    run_name: PlainName | None = Field(None, description="name of the run there; without it the name of the run's folder")


class Hub(Section):
    """Upload of the finished model to the Hugging Face hub."""

    push: bool = Field(False, description="upload the model when it is safely on disk")
    repo: str | None = Field(None, description="where to: owner/name")
    private: bool = Field(True, description="the repository is, or must be, private")
    token: str | None = Field(
        None, description="the environment variable with the access token, as ${HF_TOKEN}; without it HF_TOKEN, or the "
        "login that `hf auth login` has stored")

    @field_validator("token", mode="after")
    @classmethod
    def _no_secret(cls, value: str | None) -> str | None:
        # the value is not repeated: it may be the secret itself
        if value is not None and not re.fullmatch(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}", value):
            raise ValueError("a value written out (hidden here)|the name of an environment variable that holds the token, "
                             "like ${HF_TOKEN}")
        return value

    @field_validator("repo", mode="after")
    @classmethod
    def _owner_and_name(cls, value: str | None) -> str | None:
        if value is not None and not re.fullmatch(r"[\w.-]+/[\w.-]+", value):
            raise ValueError(f"{value}|owner/name")
        return value

    @model_validator(mode="after")
    def _somewhere(self) -> Hub:
        if self.push and self.repo is None:
            raise ValueError("push without a repo|repo: owner/name")
        return self


class Script(Section):
    path: str | None = Field(None, description="a person's own training script")
    args: list[str] = Field(default_factory=list, description="its arguments")
    folder: str | None = Field(None, description="the folder it runs in; without it the preset's own")


class Preset(Section):
    """A whole training; see the sections."""

    version: Literal[1] = Field(1, description="version of this format")
    name: PlainName = Field(description="name of the run's folder")
    task: Task = Field(description="what is trained")
    model: Model = Field(default_factory=Model)
    data: Data = Field(default_factory=Data)
    training: Training = Field(default_factory=Training)
    distributed: Distributed = Field(default_factory=Distributed)
    checkpoints: Checkpoints = Field(default_factory=Checkpoints)
    tracking: Tracking = Field(default_factory=Tracking)
    hub: Hub = Field(default_factory=Hub)
    script: Script = Field(default_factory=Script)
    hardware: dict[str, Any] = Field(default_factory=dict, description="the kind of machine it was written for; no names or addresses")
    why: list[Any] = Field(default_factory=list, description="the reasons of the decisions in it")

    @field_validator("name", mode="after")
    @classmethod
    def _no_parent(cls, value: str) -> str:
        if ".." in value:
            raise ValueError("`..` in a name|letters, digits, dot, dash and underscore")
        return value

    @model_validator(mode="after")
    def _complete(self) -> Preset:
        if self.task == "script":
            if not self.script.path:
                raise ValueError("task script without script.path|script.path: the file to run")
            return self
        if not self.data.train:
            raise ValueError("no data.train|data.train: a file, folder, hub id or builtin:python-docs")
        if self.model.path is None and self.model.from_config is None:
            raise ValueError("neither model.path nor model.from_config|one of the two")
        if self.data.valid is None or self.training.eval_every == "never":
            for key, wanted in (("checkpoints.keep_best", self.checkpoints.keep_best),
                                ("training.early_stopping", self.training.early_stopping is not None)):
                if wanted:
                    raise ValueError(f"{key} without evaluations|data.valid, and training.eval_every other than never")
        return self


def unresolved(preset: Preset) -> list[str]:
    """Dotted keys that still say `auto`; a preset handed to the engine has none."""
    found: list[str] = []

    def walk(value: Any, path: str) -> None:
        if isinstance(value, BaseModel):
            for key in type(value).model_fields:
                walk(getattr(value, key), f"{path}.{key}" if path else key)
        elif value == "auto":
            found.append(path)

    walk(preset, "")
    return found
