"""What is recommended for each recorded machine."""

from __future__ import annotations

import pytest

from tests.unit.advice.machines import NAMES, SEVEN_B, advise, categories, values

#: machine: (backend, strategy, devices, processes, precision, findings that must be there) for a small model.
EXPECTED = {
    "cpu-2-cores": ("none", "single", 0, 1, "fp32", set()),
    "cpu-xeon-2-sockets": ("gloo", "ddp", 0, 2, "bf16", set()),
    "cpu-quota-container": ("none", "single", 0, 1, "fp32", set()),
    "1x-rtx4090": ("none", "single", 1, 1, "bf16", set()),
    "1x-t4-torch-cpu": ("none", "single", 0, 1, "fp32", {"torch-build-without-gpu"}),
    "2x-titan-rtx-nvlink": ("nccl", "ddp", 2, 2, "fp16", {"no-bf16"}),
    "2x-rtx3090-sys": ("nccl", "ddp", 2, 2, "bf16", {"cross-numa", "p2p-unavailable"}),
    "2x-rtx5090-gns": ("nccl", "ddp", 2, 2, "bf16", {"p2p-unavailable", "needs-cuda-12.8"}),
    "4x-a100-nvlink": ("nccl", "ddp", 4, 4, "bf16", set()),
    "8x-h100": ("nccl", "ddp", 8, 8, "bf16", set()),
    "8x-a100-40gb-dgx": ("nccl", "ddp", 8, 8, "bf16", {"fabric-manager"}),
    "4x-a10-old-driver": ("nccl", "ddp", 4, 4, "bf16", {"driver-too-old"}),
    "4x-a100-mig-mixed": ("none", "single", 1, 1, "bf16", {"mig"}),
    "1x-a100-all-mig": ("none", "single", 1, 1, "bf16", {"mig"}),
    "mixed-5090-3090ti": ("none", "single", 1, 1, "bf16", {"mixed-gpus"}),
    "2x-k80": ("none", "single", 0, 1, "fp32", {"gpu-arch-unsupported"}),
    "4x-v100-pcie": ("nccl", "ddp", 4, 4, "fp16", {"driver-too-old", "no-bf16"}),
    "8x-mi250x": ("nccl", "ddp", 8, 8, "bf16", {"two-devices-per-card", "rccl-iommu-pt-missing"}),
    "mac-m2-pro": ("none", "single", 1, 1, "fp32", {"mps"}),
    "windows-2x-rtx3090": ("none", "single", 1, 1, "bf16", {"windows-no-nccl"}),
    "wsl2-2x-rtx3090": ("nccl", "ddp", 2, 2, "bf16", {"wsl2-multi-gpu-shm"}),
    "4x-intel-max1100": ("xccl", "ddp", 4, 4, "bf16", set()),
    "8x-l40s-4-hidden": ("nccl", "ddp", 4, 4, "bf16", {"devices-hidden", "nccl-shm-too-small"}),
}


def test_every_recorded_machine_has_an_expectation():
    assert sorted(EXPECTED) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_decisions(name):
    backend, strategy, devices, processes, precision, findings = EXPECTED[name]
    advice = advise(name)
    chosen = values(advice)
    assert (
        chosen["backend"],
        chosen["strategy"],
        chosen["devices"]["count"],
        chosen["processes"],
        chosen["precision"],
    ) == (backend, strategy, devices, processes, precision)
    assert findings <= categories(advice)


@pytest.mark.parametrize(
    "name", ["1x-rtx4090", "4x-a100-nvlink", "8x-h100", "cpu-2-cores", "4x-intel-max1100"]
)
def test_a_sound_machine_has_nothing_to_warn_about(name):
    assert advise(name).findings == []


@pytest.mark.parametrize("name", NAMES)
def test_no_network_or_path_variable_is_set_on_one_machine(name):
    assert not [key for key in values(advise(name))["env"] if key.startswith(("NCCL_", "RCCL_", "GLOO_"))]


@pytest.mark.parametrize("name", NAMES)
def test_every_decision_has_a_reason_a_person_can_read(name):
    for decision in advise(name).decisions.values():
        assert 10 < len(decision.reason) < 250
        assert "None" not in decision.reason


@pytest.mark.parametrize("name", NAMES)
def test_the_summary_fits_a_line_of_a_screen(name):
    for line in advise(name, SEVEN_B).summary():
        assert len(line) <= 80


def test_the_whole_gpu_is_named_where_others_are_sliced():
    assert values(advise("4x-a100-mig-mixed"))["env"]["CUDA_VISIBLE_DEVICES"].startswith("GPU-00000000")


def test_the_largest_slice_is_named_where_all_are_sliced():
    assert values(advise("1x-a100-all-mig"))["env"]["CUDA_VISIBLE_DEVICES"] == "MIG-0-3"


def test_mixed_gpus_both_train_when_the_model_does_not_fit_on_the_faster():
    assert values(advise("mixed-5090-3090ti", SEVEN_B))["devices"]["count"] == 2


def test_the_faster_of_mixed_gpus_is_chosen_and_named():
    chosen = values(advise("mixed-5090-3090ti"))
    assert chosen["devices"]["indices"] == [0]
    assert chosen["env"]["CUDA_VISIBLE_DEVICES"] == "GPU-00000000-0000-0000-0000-000000000000"


def test_hidden_gpus_are_not_used_and_the_variable_is_shown():
    advice = advise("8x-l40s-4-hidden")
    hidden = next(finding for finding in advice.findings if finding.category == "devices-hidden")
    assert "CUDA_VISIBLE_DEVICES=0,1,2,3" in hidden.evidence[0].text


def test_a_quota_limits_threads():
    assert values(advise("cpu-quota-container"))["threads"] == 3


def test_two_sockets_share_the_cores():
    assert values(advise("cpu-xeon-2-sockets"))["threads"] == 56


def test_one_process_on_a_small_cpu_says_why_two_gain_nothing():
    assert "two on one machine" in advise("cpu-2-cores").decisions["processes"].reason


def test_amd_says_that_rccl_is_called_nccl():
    assert "RCCL" in advise("8x-mi250x").decisions["backend"].reason
