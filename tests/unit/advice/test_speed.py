"""Predicted speed: a range from tables, and nothing where tables know nothing."""

from __future__ import annotations

import pytest

from tests.unit.advice.machines import SEVEN_B, SMALL, advise, machine, model
from wizard.advice.recommend import recommend
from wizard.questions.needs import TrainingNeeds


def test_a_range_with_its_source():
    speed = advise("4x-a100-nvlink", SEVEN_B, adapter="lora").decisions["speed"]
    low, high = speed.value["tokens_per_s"]
    # 4 x 312 TFLOP/s at 25 to 50 % over about 4 N = 30 GFLOP a token
    assert 5_000 < low < high < 25_000 and "from: tables" in speed.facts and speed.confidence == "low"
    assert all(float(f"{value:.2g}") == value for values in speed.value.values() for value in values)


@pytest.mark.parametrize(
    "name,config",
    [("mac-m2-pro", SMALL), ("4x-intel-max1100", SMALL), ("4x-a100-nvlink", None), ("1x-a100-all-mig", SMALL)],
)
def test_unknown_stays_unknown(name, config):
    assert advise(name, config).decisions["speed"].value is None


def test_slower_links_wait_longer():
    def waiting(path):
        inventory = machine("4x-a100-nvlink")
        for link in inventory.links:
            link.path = path
        return (
            recommend(inventory, TrainingNeeds(task="llm-sft", micro_batch=1, gradient_accumulation=1), model(SMALL))
            .decisions["speed"]
            .value["waiting_share"][1]
        )

    assert waiting("NV12") <= waiting("PIX") <= waiting("SYS")


def test_gloo_on_gpus_waits_longer_than_nccl():
    value = advise("2x-rtx3090-sys", SMALL).decisions["speed"].value
    assert value["waiting_share_gloo"][1] > value["waiting_share"][1]


def test_a_network_of_unknown_speed_is_not_guessed():
    inventory = machine("4x-a100-nvlink")
    needs = TrainingNeeds(task="llm-sft", num_nodes=2, main_address="10.0.0.9")
    assert recommend(inventory, needs, model(SMALL)).decisions["speed"].value
    inventory.network.interface("ens5").speed_mbit = None
    assert recommend(inventory, needs, model(SMALL)).decisions["speed"].value is None
