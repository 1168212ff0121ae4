"""A preset without `auto`, ready to be launched here; or every reason why it cannot be."""

from __future__ import annotations

from engine.contract.findings import Decision
from engine.contract.load import preset_from_data
from engine.contract.preset import Preset, unresolved
from engine.contract.problems import PresetError, Problem, shown
from wizard.advice.environment import BY_LAUNCHER
from wizard.advice.recommend import Recommendation

#: May stay `auto`: packing is decided on tokens by the engine, the port is frozen at the launch.
STAYS_AUTO = ("data.packing", "distributed.main_port")


def resolve(preset: Preset, recommendation: Recommendation) -> Preset:
    """Replace every `auto` by what was recommended for this machine; what was set stays.

    Raises PresetError with every choice that is impossible on this machine.
    """
    problems = impossible(preset, recommendation)
    if problems:
        raise PresetError(problems)
    data = preset.model_dump()
    for key, value in recommendation.settings.items():
        *sections, last = key.split(".")
        here = data
        for section in sections:
            here = here[section]
        if here[last] == "auto" or (key == "distributed.network_interface" and here[last] is None):
            here[last] = value
    env = {name: text for name, text in recommendation.decisions["env"].value.items() if name not in BY_LAUNCHER}
    data["distributed"]["env"] = env | preset.distributed.env
    resolved = preset_from_data(data)
    left = [key for key in unresolved(resolved) if key not in STAYS_AUTO
            and not (preset.task == "script" and key.startswith(("data.", "training.")))]
    if left:
        raise AssertionError(f"no decision for {', '.join(left)}")
    return resolved


def impossible(preset: Preset, recommendation: Recommendation) -> list[Problem]:
    """What was asked for and cannot be done here, one problem a key."""
    decisions = recommendation.decisions
    devices, processes = decisions["devices"].value, decisions["processes"].value
    cpu = devices["count"] == 0
    how, training = preset.distributed, preset.training
    world = processes * how.num_nodes
    problems: list[Problem] = []

    def wrong(key: str, value: object, expected: str) -> None:
        problems.append(Problem(key=key, found=shown(value), expected=expected))

    for finding in recommendation.findings:
        if finding.category == "num-processes-exceeds-gpus" and finding.confidence == "certain":
            key, best = next(iter((finding.preset_patch or {}).items()))
            wrong(
                key,
                devices["count"] if key.endswith("gpus_per_node") else processes,
                f"at most {best} ({finding.summary})",
            )
    if (
        devices["count"]
        and isinstance(how.num_processes_per_node, int)
        and how.num_processes_per_node < devices["count"]
        and isinstance(how.num_gpus_per_node, int)
    ):
        wrong("distributed.num_processes_per_node", processes, f"{devices['count']}, one for each of num_gpus_per_node")
    backend, strategy = decisions["backend"].value, decisions["strategy"].value
    if backend in ("nccl", "xccl", "hccl") and cpu:
        wrong(
            "distributed.backend",
            backend,
            "gloo or auto: there is no GPU in use, and this backend carries only GPU tensors",
        )
    elif backend in ("nccl", "xccl", "hccl") and backend != _native(devices["accelerator"]):
        wrong(
            "distributed.backend",
            backend,
            f"{_native(devices['accelerator'])} or auto for the {devices['accelerator']} GPUs of this machine",
        )
    if backend == "nccl" and any(finding.category == "windows-no-nccl" for finding in recommendation.findings):
        wrong("distributed.backend", backend, "gloo or auto: native Windows has no NCCL (WSL2 has)")
    if world > 1 and (backend == "none" or strategy == "single"):
        key = "distributed.strategy" if how.strategy == "single" else "distributed.backend"
        wrong(
            key,
            "single" if key.endswith("strategy") else "none",
            f"ddp (or auto), since {processes} processes on {how.num_nodes} machine(s) make {world} ranks; "
            "or one process on one machine",
        )
    if world == 1 and strategy != "single":
        wrong(
            "distributed.strategy", strategy, "single or auto: one process on one machine shares its work with nobody"
        )
    elif world == 1 and backend != "none":
        wrong("distributed.backend", backend, "none or auto: one process on one machine has nobody to talk to")
    if strategy == "deepspeed" and cpu:
        wrong("distributed.strategy", strategy, "fsdp, ddp or auto")
    if strategy == "fsdp" and backend == "gloo" and not cpu:
        wrong("distributed.backend", backend, "auto: fsdp reduces and scatters GPU tensors, which Gloo does not")
    missing = {finding.category for finding in recommendation.findings}
    if "bitsandbytes-not-installed" in missing and not cpu:
        wrong("model.quantization", preset.model.quantization, "pip install 'autotrain-wizard[quantization]' first")
    if "deepspeed-not-installed" in missing and not cpu:
        wrong("distributed.strategy", strategy, "pip install 'autotrain-wizard[deepspeed]' first, or fsdp")
    if how.num_nodes > 1 and not how.main_address:
        wrong("distributed.main_address", None, "the address of the first machine, since num_nodes is more than 1")
    if training.precision == "fp16" and cpu:
        wrong("training.precision", "fp16", "fp32 or auto: fp16 does nothing on a CPU")
    if preset.model.quantization and cpu:
        wrong("model.quantization", preset.model.quantization, "nothing: quantized weights need a GPU")
    if preset.model.quantization and preset.model.adapter is None:
        wrong(
            "model.quantization",
            preset.model.quantization,
            "model.adapter as well: quantized weights cannot be trained themselves",
        )
    if not problems and preset.task != "script":
        problems += _batch(preset, decisions["batch"], world)
    return problems


def _batch(preset: Preset, batch: Decision, world: int) -> list[Problem]:
    total, micro, steps = (batch.value[name] for name in ("global_batch", "micro_batch", "gradient_accumulation"))
    if micro * steps * world == total:
        return []
    training = preset.training
    if training.micro_batch != "auto" or training.gradient_accumulation != "auto":
        product = f"micro_batch {micro} x gradient_accumulation {steps} x {world} ranks"
        found = f"{total}, but {product} is {micro * steps * world}"
        return [Problem(key="training.global_batch", found=found, expected="three numbers that agree, or two of them")]
    nearest = max(1, round(total / world)) * world
    return [
        Problem(
            key="training.global_batch",
            found=f"{total}, which {world} ranks do not divide",
            expected=f"a multiple of {world} (for example {nearest})",
        )
    ]


def _native(kind: str) -> str:
    return {"nvidia": "nccl", "amd": "nccl", "intel": "xccl", "ascend": "hccl", "habana": "hccl"}.get(kind, "gloo")
