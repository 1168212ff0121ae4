"""What the person fixed stays, and what does not fit is said or refused."""

from __future__ import annotations

import contextlib
import functools
import itertools
from pathlib import Path

import pytest

from engine.contract.load import load_preset, parse_preset
from engine.contract.preset import Preset, unresolved
from engine.contract.problems import PresetError
from tests.unit.advice.machines import NAMES, SEVEN_B, advise, categories, machine, values
from wizard.advice.recommend import hardware_summary, recommend
from wizard.advice.resolve import STAYS_AUTO, resolve
from wizard.facts.data import read_data_facts
from wizard.facts.model import read_model_facts
from wizard.hardware.inventory import Interface, Route
from wizard.questions.needs import TrainingNeeds

QUICKSTART = Path(__file__).resolve().parents[3] / "presets" / "quickstart.yaml"
PLAIN = "version: 1\nname: t\ntask: llm-sft\nmodel: {path: owner/model}\ndata: {train: owner/data}\n"


def resolved(name: str, text: str = PLAIN):
    preset = parse_preset(text)
    return resolve(preset, recommend(machine(name), TrainingNeeds.from_preset(preset)))


def problems(name: str, text: str) -> dict[str, str]:
    with pytest.raises(PresetError) as caught:
        resolved(name, PLAIN + text)
    return {problem.key: problem.expected for problem in caught.value.problems}


def test_the_quickstart_resolves_to_two_gloo_ranks():
    preset, base = load_preset(QUICKSTART), Path(".")
    advice = recommend(
        machine("cpu-2-cores"),
        TrainingNeeds.from_preset(preset),
        read_model_facts(None, preset.model.from_config, base),
        read_data_facts(preset.data.train, base),
    )
    run = resolve(preset, advice)
    how, training = run.distributed, run.training
    assert (how.backend, how.strategy, how.num_processes_per_node, how.threads_per_process) == ("gloo", "ddp", 2, 1)
    assert (
        training.precision == "fp32"
        and training.micro_batch * training.gradient_accumulation * 2 == training.global_batch == 16
    )
    assert how.env == {} and advice.findings == []


@pytest.mark.parametrize("name", NAMES)
def test_a_preset_that_leaves_everything_open_resolves_everywhere(name):
    run = resolved(name)
    assert set(unresolved(run)) <= set(STAYS_AUTO)


def test_none_that_was_written_stays_none():
    assert resolved("1x-rtx4090", PLAIN + "training: {max_grad_norm: null}\n").training.max_grad_norm is None


def test_the_launchers_own_variables_stay_out_of_the_preset():
    run = resolved("4x-a100-nvlink", PLAIN + "distributed: {num_nodes: 2, main_address: 10.0.0.9}\n")
    assert run.distributed.env == {} and run.distributed.network_interface == "ens5"


def test_the_persons_variable_wins():
    run = resolved("4x-a100-mig-mixed", PLAIN + "distributed: {env: {CUDA_VISIBLE_DEVICES: MIG-x}}\n")
    assert run.distributed.env == {"CUDA_VISIBLE_DEVICES": "MIG-x"}


@pytest.mark.parametrize(
    "name,text,key",
    [
        ("cpu-2-cores", "distributed: {backend: nccl}\n", "distributed.backend"),
        ("cpu-2-cores", "distributed: {num_gpus_per_node: 2}\n", "distributed.num_gpus_per_node"),
        ("2x-rtx3090-sys", "distributed: {num_gpus_per_node: 4}\n", "distributed.num_gpus_per_node"),
        ("2x-rtx3090-sys", "distributed: {num_processes_per_node: 3}\n", "distributed.num_processes_per_node"),
        (
            "2x-rtx3090-sys",
            "distributed: {num_gpus_per_node: 2, num_processes_per_node: 1}\n",
            "distributed.num_processes_per_node",
        ),
        ("2x-rtx3090-sys", "distributed: {strategy: single, num_gpus_per_node: 2}\n", "distributed.strategy"),
        ("2x-rtx3090-sys", "distributed: {backend: xccl}\n", "distributed.backend"),
        ("windows-2x-rtx3090", "distributed: {backend: nccl, num_gpus_per_node: 2}\n", "distributed.backend"),
        ("cpu-2-cores", "distributed: {strategy: deepspeed, num_processes_per_node: 2}\n", "distributed.strategy"),
        ("cpu-2-cores", "distributed: {strategy: fsdp, num_processes_per_node: 1}\n", "distributed.strategy"),
        ("4x-a100-nvlink", "distributed: {strategy: fsdp, backend: gloo}\n", "distributed.backend"),
        ("cpu-2-cores", "training: {precision: fp16}\n", "training.precision"),
        ("cpu-2-cores", "model: {path: a/b, quantization: int4, adapter: {type: lora}}\n", "model.quantization"),
        ("4x-a100-nvlink", "training: {global_batch: 6}\n", "training.global_batch"),
        ("4x-a100-nvlink", "training: {global_batch: 32, micro_batch: 3}\n", "training.global_batch"),
        (
            "4x-a100-nvlink",
            "training: {global_batch: 32, micro_batch: 4, gradient_accumulation: 4}\n",
            "training.global_batch",
        ),
        ("4x-a100-nvlink", "distributed: {num_nodes: 2}\n", "distributed.main_address"),
    ],
)
def test_what_is_impossible_is_refused_by_its_key(name, text, key):
    base = PLAIN.replace("model: {path: owner/model}\n", "") if text.startswith("model") else PLAIN
    with pytest.raises(PresetError) as caught:
        resolved(name, base + text)
    assert key in {problem.key for problem in caught.value.problems}


def test_every_problem_is_reported_at_once():
    found = problems(
        "cpu-2-cores",
        "training: {precision: fp16}\ndistributed: {backend: nccl, num_processes_per_node: 2, strategy: deepspeed}\n",
    )
    assert set(found) == {"training.precision", "distributed.backend", "distributed.strategy"}


@pytest.mark.parametrize(
    "name,wishes,category",
    [
        ("4x-a100-nvlink", {"backend": "gloo"}, "slow-gloo-on-gpu"),
        ("cpu-2-cores", {"precision": "bf16"}, "bf16-slow-on-cpu"),
        ("2x-titan-rtx-nvlink", {"precision": "bf16"}, "bf16-emulated-not-hardware"),
        ("mac-m2-pro", {"precision": "fp16"}, "mps-amp-unsupported"),
        ("cpu-2-cores", {"num_processes_per_node": 2, "threads_per_process": 2}, "slow-thread-oversubscription"),
        ("4x-a100-nvlink", {"env": {"NCCL_P2P_DISABLE": "1"}}, "env-conflict"),
        ("2x-rtx3090-sys", {"num_gpus_per_node": 3}, "num-processes-exceeds-gpus"),
    ],
)
def test_what_is_questionable_is_kept_and_said(name, wishes, category):
    advice = advise(name, **wishes)
    assert category in categories(advice)
    for key, value in wishes.items():
        if key in advice.decisions and key != "env":
            assert advice.decisions[key].value == value and advice.decisions[key].reason.startswith("as set")


def test_gloo_asked_for_on_one_cpu_means_two_processes():
    assert values(advise("cpu-2-cores", backend="gloo"))["processes"] == 2
    assert values(advise("cpu-2-cores", strategy="ddp"))["backend"] == "gloo"


def test_zero_gpus_trains_on_the_cpu():
    chosen = values(advise("4x-a100-nvlink", num_gpus_per_node=0, num_processes_per_node=2))
    assert (chosen["backend"], chosen["devices"]["count"]) == ("gloo", 0)


@pytest.mark.parametrize(
    "address,interface,confidence",
    [
        ("10.0.0.9", "ens5", "high"),
        ("192.168.7.1", "ens6", "high"),
        ("172.30.1.1", "ens6", "high"),
        ("8.8.8.8", "ens5", "fair"),
        ("node0", "ens5", "low"),
    ],
)
def test_the_interface_is_the_one_that_leads_to_the_main_address(address, interface, confidence):
    inventory = machine("4x-a100-nvlink")
    inventory.network.interfaces.append(
        Interface(name="ens6", up=True, kind="ethernet", speed_mbit=1000, addresses=["192.168.7.2/24"])
    )
    inventory.network.routes.append(Route(network="172.30.0.0/16", interface="ens6"))
    decision = recommend(inventory, TrainingNeeds(num_nodes=2, main_address=address)).decisions["network"]
    assert (decision.value, decision.confidence) == (interface, confidence)


def test_an_interface_that_is_not_there_is_named():
    advice = advise("4x-a100-nvlink", num_nodes=2, main_address="10.0.0.9", network_interface="eth9")
    assert "gloo-ifname-not-found" in categories(advice) and advice.decisions["network"].value == "eth9"


def test_several_nodes_get_their_network_variables():
    chosen = values(advise("4x-a100-nvlink", num_nodes=2, main_address="10.0.0.9"))
    assert chosen["env"]["NCCL_SOCKET_IFNAME"] == "=ens5" and chosen["env"]["GLOO_SOCKET_IFNAME"] == "ens5"
    assert chosen["batch"]["world_size"] == 8


def test_small_buckets_only_for_gloo_on_a_slow_link():
    inventory = machine("cpu-2-cores")
    inventory.network.interfaces[1].speed_mbit = 1000
    needs = TrainingNeeds(num_nodes=2, main_address="10.0.0.9")
    assert recommend(inventory, needs).decisions["bucket"].value == 5
    inventory.network.interfaces[1].speed_mbit = 10000
    assert recommend(inventory, needs).decisions["bucket"].value == 25


@pytest.mark.parametrize("name", NAMES)
def test_nothing_private_goes_into_a_preset(name):
    inventory = machine(name)
    advice = recommend(inventory, TrainingNeeds(num_nodes=2, main_address="10.0.0.9", num_gpus_per_node="auto"))
    shared = str(advice.why()) + str(hardware_summary(inventory))
    for private in ("node-under-test", "10.0.0.", "192.168.", "GPU-0000", "MIG-"):
        assert private not in shared


def test_hardware_summary_names_the_kind_of_machine():
    summary = hardware_summary(machine("4x-a100-nvlink"))
    assert (
        summary["accelerator"] == "4 x NVIDIA A100-SXM4-80GB"
        and summary["cpu_cores"] == 64
        and summary["memory_gib"] == 512
    )


def test_settings_cover_every_key_that_can_be_open():
    open_keys = set(unresolved(parse_preset(PLAIN))) - {"distributed.main_port"}
    assert open_keys <= set(advise("1x-rtx4090", SEVEN_B).settings)


@pytest.mark.parametrize(
    "wishes", [{"strategy": "single"}, {"backend": "none"}, {"num_processes_per_node": 1}], ids=str
)
def test_one_process_takes_one_gpu_of_several(wishes):
    chosen = values(advise("4x-a100-nvlink", **wishes))
    assert (chosen["devices"]["count"], chosen["processes"], chosen["backend"], chosen["strategy"]) == (
        1,
        1,
        "none",
        "single",
    )


def test_two_processes_take_two_gpus_of_four():
    assert values(advise("4x-a100-nvlink", num_processes_per_node=2))["devices"]["indices"] == [0, 1]


def test_fsdp_on_a_cpu_is_for_those_who_ask():
    text = PLAIN + "distributed: {strategy: fsdp, num_processes_per_node: 2, num_gpus_per_node: 0}\n"
    assert resolved("cpu-2-cores", text).distributed.strategy == "fsdp"
    assert values(advise("cpu-2-cores", num_processes_per_node=2))["strategy"] == "ddp"


def test_a_mac_joins_others_on_its_cpu():
    chosen = values(advise("mac-m2-pro", num_nodes=2, main_address="10.0.0.9"))
    assert (chosen["devices"]["count"], chosen["backend"], chosen["strategy"]) == (0, "gloo", "ddp")


@functools.cache
def every_choice() -> list[Preset]:
    """Presets that fix backend, strategy, devices, ranks and machines in every way that does not contradict itself."""
    presets = []
    counts = (("auto", "auto"), (0, "auto"), (0, 2), (1, "auto"), ("auto", 2), (2, 2))
    for backend, strategy, (gpus, processes), nodes in itertools.product(
        ("auto", "none", "nccl", "gloo", "xccl"), ("auto", "single", "ddp", "fsdp"), counts, (1, 2)
    ):
        text = (
            f"distributed: {{backend: {backend}, strategy: {strategy}, num_gpus_per_node: {gpus}, "
            f"num_processes_per_node: {processes}, num_nodes: {nodes}, main_address: 10.0.0.9}}\n"
        )
        with contextlib.suppress(PresetError):
            presets.append(parse_preset(PLAIN + text))
    return presets


@pytest.mark.parametrize("name", NAMES)
def test_any_choice_resolves_to_something_consistent_or_is_refused_in_words(name):
    inventory, refused = machine(name), 0
    for preset in every_choice():
        advice = recommend(inventory, TrainingNeeds.from_preset(preset))
        try:
            how = resolve(preset, advice).distributed
        except PresetError as error:
            refused += 1
            assert all(problem.key.startswith(("distributed.", "training.")) for problem in error.problems)
            continue
        world = how.num_nodes * how.num_processes_per_node
        assert (how.backend == "none") == (how.strategy == "single") == (world == 1)
        assert how.num_gpus_per_node in (0, how.num_processes_per_node)
        assert how.num_gpus_per_node <= len(inventory.accelerators)
        assert how.backend in ("none", "gloo") or how.num_gpus_per_node > 0
        assert how.strategy != "fsdp" or how.backend != "gloo" or how.num_gpus_per_node == 0
    assert 0 < refused < len(every_choice())


def test_a_package_that_a_choice_needs_is_asked_for_before_the_launch():
    text = PLAIN.replace("{path: owner/model}", "{path: owner/model, quantization: int4, adapter: {type: lora}}")
    with pytest.raises(PresetError, match="autotrain-wizard\\[quantization\\]"):
        resolved("1x-rtx4090", text)
    with pytest.raises(PresetError, match="autotrain-wizard\\[deepspeed\\]"):
        resolved("4x-a100-nvlink", PLAIN + "distributed: {strategy: deepspeed}\n")
