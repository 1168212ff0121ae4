"""The situations people ask about first, each with its answer and the reason that is given for it."""

from __future__ import annotations

import pytest

from tests.unit.advice.machines import SEVEN_B, TINY, advise, categories, machine, model, values
from tests.unit.advice.texts import advise_text
from wizard.advice.recommend import recommend
from wizard.questions.needs import TrainingNeeds

BIG = {
    "model_type": "llama", "hidden_size": 8192, "intermediate_size": 28672, "num_hidden_layers": 80,
    "num_attention_heads": 64, "num_key_value_heads": 8, "vocab_size": 128256,
}  # fmt: skip


def said(advice, name: str) -> str:
    return advice.decisions[name].reason


def test_a_pure_nvidia_cluster_takes_nccl_over_its_fast_network():
    advice = advise_text("4 nodes of 8x H100 SXM, InfiniBand NDR", SEVEN_B)
    chosen = values(advice)
    assert (chosen["backend"], chosen["devices"]["count"], advice.num_nodes, chosen["precision"]) == ("nccl", 8, 4, "bf16")
    assert "NVLink" in said(advice, "backend") and advice.decisions["backend"].alternative.value == "gloo"
    assert not [name for name in chosen["env"] if name.startswith("NCCL_")]


def test_machines_without_a_gpu_are_left_out_beside_machines_with_one():
    gpu = machine("4x-a100-nvlink").model_copy(update={"host": "gpu0"})
    cpu = machine("cpu-xeon-2-sockets").model_copy(update={"host": "cpu0"})
    for machines in ([gpu, cpu], [cpu, gpu]):
        advice = recommend(machines[0], TrainingNeeds(), model(TINY), None, machines[1:])
        chosen = values(advice)
        assert (chosen["backend"], chosen["devices"]["count"], advice.num_nodes) == ("nccl", 4, 1)
        left = next(finding for finding in advice.findings if finding.category == "mixed-cpu-gpu")
        assert "cpu0" in left.evidence[0].text and any("gloo" in step for step in left.fix)


def test_gloo_joins_processors_and_gpus_only_when_asked_for():
    machines = [machine("4x-a100-nvlink"), machine("cpu-xeon-2-sockets")]
    needs = TrainingNeeds(backend="gloo", num_gpus_per_node=0, main_address="10.0.0.9")
    advice = recommend(machines[0], needs, model(TINY), None, machines[1:])
    assert (values(advice)["backend"], values(advice)["devices"]["count"], advice.num_nodes) == ("gloo", 0, 2)


def test_a_gpu_server_and_cpu_boxes_in_words():
    advice = advise_text("one server with 4x A100 80GB PCIe and some CPU-only machines")
    assert values(advice)["backend"] == "nccl" and "mixed-cpu-gpu" in categories(advice)


@pytest.mark.parametrize(
    "text,backend,word",
    [
        ("8x AMD Instinct MI300X", "nccl", "RCCL"),
        ("4x Intel Data Center GPU Max 1100", "xccl", "XCCL"),
        ("8x Ascend 910B", "hccl", "HCCL"),
        ("8x Gaudi2", "hccl", "HCCL"),
        ("Apple M3 Max, MacBook Pro", "none", "nobody"),
    ],
)
def test_gpus_of_other_makers_take_their_own_library_not_gloo(text, backend, word):
    advice = advise_text(text)
    assert values(advice)["backend"] == backend and word in said(advice, "backend")


def test_a_small_model_is_held_whole_by_every_gpu():
    advice = advise("4x-a100-nvlink", TINY)
    assert values(advice)["strategy"] == "ddp" and "only gradients travel" in said(advice, "strategy")


def test_a_large_model_is_sharded_and_one_too_large_says_what_would_help():
    advice = advise("8x-h100", SEVEN_B)
    assert values(advice)["strategy"] in ("ddp", "fsdp") and values(advice)["memory"]["fits"]
    too_large = advise("1x-rtx4090", BIG)
    assert values(too_large)["memory"]["fits"] is False
    assert any("adapter" in step for finding in too_large.findings for step in finding.fix)


def test_a_slow_network_is_said_with_what_to_do():
    advice = advise_text("4 machines, each 1x RTX 4090, 1 Gbit Ethernet", SEVEN_B)
    slow = next(finding for finding in advice.findings if finding.category == "slow-ethernet-only-cluster")
    assert "1 Gbit/s" in slow.summary and any("adapter" in step for step in slow.fix)
    assert values(advice)["backend"] == "nccl"


def test_a_slow_network_between_processors_takes_small_buckets():
    advice = advise_text("4 CPU-only machines, 16 cores each, 1 Gbit Ethernet")
    assert values(advice)["backend"] == "gloo" and values(advice)["bucket"] == 5
    assert "slow-ethernet-only-cluster" not in categories(advice_over("25 Gbit"))


def advice_over(speed: str):
    return advise_text(f"4 machines, each 1x RTX 4090, {speed} Ethernet", SEVEN_B)


def test_t5_is_not_trained_in_fp16():
    t5 = {"model_type": "t5", "d_model": 512, "num_layers": 6, "vocab_size": 32128}
    facts = model(TINY).model_copy(update={"architecture": t5["model_type"]})
    on_t4 = recommend(machine("4x-v100-pcie"), TrainingNeeds(), facts)
    assert values(on_t4)["precision"] == "fp32" and "overflows fp16" in said(on_t4, "precision")
    on_a100 = recommend(machine("4x-a100-nvlink"), TrainingNeeds(), facts)
    assert values(on_a100)["precision"] == "bf16"


def test_the_pair_that_is_joined_best_takes_a_job_of_two():
    rows = (
        "     GPU0 GPU1 GPU2 GPU3\nGPU0 X PHB SYS SYS\nGPU1 PHB X SYS SYS\nGPU2 SYS SYS X NV4\nGPU3 SYS SYS NV4 X\n4x RTX A6000\n"
    )
    advice = advise_text(rows, num_gpus_per_node=2)
    assert values(advice)["devices"]["indices"] == [2, 3] and "joined best (NV4)" in said(advice, "devices")
    assert values(advice)["env"]["CUDA_VISIBLE_DEVICES"] == "2,3"
    assert values(advise_text(rows, num_processes_per_node=2))["devices"]["indices"] == [2, 3]


def test_a_variable_that_is_set_stays_and_its_conflict_is_named():
    text = "2 nodes, 8x H100 SXM each, NDR InfiniBand\nexport NCCL_IB_DISABLE=1\nexport NCCL_IB_GID_INDEX=3\n" + PORT
    advice = advise_text(text)
    found = {(finding.category, finding.evidence[0].text) for finding in advice.findings}
    assert ("slow-tcp-instead-of-ib", "NCCL_IB_DISABLE=1") in found
    assert ("env-conflict", "NCCL_IB_GID_INDEX=3") in found
    assert not {"NCCL_IB_DISABLE", "NCCL_IB_GID_INDEX"} & set(values(advice)["env"])


PORT = "Infiniband device 'mlx5_0' port 1 status:\n  state: 4: ACTIVE\n  rate: 400 Gb/sec\n  link_layer: InfiniBand\n"


def test_a_card_that_is_set_by_hand_is_respected_where_ours_would_differ():
    text = PORT + PORT.replace("mlx5_0", "mlx5_9").replace("400", "100") + "2 nodes, 8x H100 SXM each\nexport NCCL_IB_HCA=mlx5_0\n"
    advice = advise_text(text)
    assert "NCCL_IB_HCA" not in values(advice)["env"]
    assert any("NCCL_IB_HCA=mlx5_0 is set on the machine and stays" in fact for fact in advice.decisions["env"].facts)
