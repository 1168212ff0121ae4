"""Ways side by side."""

from __future__ import annotations

import pytest

from tests.unit.advice.machines import SEVEN_B, SMALL, advise, machine, model
from wizard.advice.comparison_words import lines, rows, step_text
from wizard.advice.recommend import recommend
from wizard.questions.needs import TrainingNeeds


def ways(advice):
    return {way.name: way for way in advice.comparison.ways}


def test_nccl_against_gloo_on_gpus():
    advice = advise("4x-a100-nvlink", SMALL)
    both = ways(advice)
    assert both["NCCL"].chosen and not both["Gloo"].chosen
    assert both["NCCL"].step_s[1] < both["Gloo"].step_s[1]
    assert both["Gloo"].waiting_share == advice.decisions["speed"].value["waiting_share_gloo"]
    assert both["NCCL"].step_s == advice.decisions["speed"].value["step_s"]
    assert "host memory" in both["Gloo"].can_go_wrong[0]


def test_what_weakens_the_path_is_what_can_go_wrong():
    assert any("direct access" in text for text in ways(advise("2x-rtx3090-sys", SMALL))["NCCL"].can_go_wrong)


def test_amd_calls_it_rccl():
    assert set(ways(advise("8x-mi250x", SMALL))) == {"RCCL", "Gloo"}


def test_sharding_has_no_gloo_to_compare_with():
    gloo = ways(advise("4x-a100-nvlink", SEVEN_B, strategy="fsdp"))["Gloo"]
    assert gloo.step_s is None and "fsdp" in gloo.unknown


def test_without_gpus_it_says_why_and_compares_processes():
    comparison = advise("cpu-2-cores", SMALL).comparison
    assert "NCCL carries only GPU memory" in comparison.why
    one, two = comparison.ways
    assert (one.name, two.name) == ("1 process", "2 processes, Gloo") and one.chosen
    assert one.step_s[1] <= two.step_s[1] and one.waiting_share == [0, 0]


def test_one_gpu_has_nothing_to_compare():
    comparison = advise("1x-rtx4090", SMALL).comparison
    assert comparison.title == "nothing to compare" and len(comparison.ways) == 1


def test_an_unknown_network_is_said_for_both():
    inventory = machine("4x-a100-nvlink")
    inventory.network.interface("ens5").speed_mbit = None
    needs = TrainingNeeds(task="llm-sft", num_nodes=2, main_address="10.0.0.9")
    advice = recommend(inventory, needs, model(SMALL))
    assert all("network" in way.unknown for way in advice.comparison.ways)
    assert all(row.sure == row.maybe == 0 for row in rows(advice.comparison, 30))


@pytest.mark.parametrize("name", ["cpu-2-cores", "4x-a100-nvlink", "1x-rtx4090", "mac-m2-pro"])
def test_the_text_has_bars_on_one_scale_and_the_source(name):
    text = lines(advise(name, SMALL).comparison)
    assert any("from: tables" in line for line in text)
    assert max((row.sure + row.maybe for row in rows(advise(name, SMALL).comparison, 30)), default=0) in (0, 30)


@pytest.mark.parametrize(
    "seconds,text",
    [([0.15, 0.33], "150 to 330 ms"), ([0.62, 3.3], "0.62 to 3.3 s"), ([2e-5, 2e-5], "20 µs"), ([300, 1900], "5 to 32 min")],
)
def test_times_are_read_in_one_unit(seconds, text):
    way = advise("4x-a100-nvlink", SMALL).comparison.ways[0].model_copy(update={"step_s": seconds})
    assert step_text(way) == text
