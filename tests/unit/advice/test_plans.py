"""Memory, strategy and batch: what must hold on every machine."""

from __future__ import annotations

import time

import pytest

from tests.unit.advice.machines import NAMES, SEVEN_B, SMALL, TINY, advise, categories, machine, model, values
from wizard.advice.memory import Setting, estimate
from wizard.advice.recommend import recommend
from wizard.facts.data import DataFacts, Lengths
from wizard.questions.needs import TrainingNeeds

MODELS = {"tiny": TINY, "small": SMALL, "7b": SEVEN_B, "unknown": None}


@pytest.mark.parametrize("config", MODELS.values(), ids=MODELS)
@pytest.mark.parametrize("name", NAMES)
def test_batch_and_devices_always_add_up(name, config):
    for wishes in (
        {},
        {"adapter": "lora"},
        {"global_batch": 64},
        {"micro_batch": 3},
        {"gradient_accumulation": 5},
        {"num_nodes": 2},
        {"global_batch": 64, "micro_batch": 2},
        {"max_length": 4096},
        {"task": "llm-pretrain", "from_scratch": True},
    ):
        advice = advise(name, config, **wishes)
        chosen, batch = values(advice), advice.decisions["batch"].value
        world = chosen["processes"] * wishes.get("num_nodes", 1)
        assert batch["micro_batch"] * batch["gradient_accumulation"] * world == batch["global_batch"]
        assert batch["world_size"] == world
        for key in ("global_batch", "micro_batch", "gradient_accumulation"):
            assert wishes.get(key, batch[key]) == batch[key]
        if chosen["devices"]["count"]:
            assert chosen["processes"] == chosen["devices"]["count"] <= len(machine(name).accelerators)
        assert (chosen["backend"] == "none") == (chosen["strategy"] == "single") == (world == 1)
        assert chosen["threads"] >= 1


@pytest.mark.parametrize(
    "wishes",
    [
        {},
        {"adapter": "lora"},
        {"adapter": "lora", "quantization": "int4"},
        {"strategy": "fsdp"},
        {"micro_batch": 4, "gradient_accumulation": 2},
    ],
    ids=str,
)
def test_more_memory_never_turns_fit_into_not_fit(wishes):
    fitted = False
    for gib in (4, 8, 12, 16, 24, 32, 40, 48, 64, 80, 96, 141, 192, 288, 512):
        inventory = machine("4x-a100-nvlink")
        for device in inventory.accelerators:
            device.memory_bytes = device.free_bytes = gib * 2**30
        advice = recommend(inventory, TrainingNeeds(task="llm-sft", **wishes), model(SEVEN_B))
        fits = advice.decisions["memory"].value["fits"]
        assert fits or not fitted
        fitted = fits
    assert fitted


def test_memory_grows_with_everything_that_costs_memory():
    facts, needs = model(SEVEN_B), TrainingNeeds(task="llm-sft")

    def total(needs=needs, **change):
        base = {
            "strategy": "ddp",
            "gradient_checkpointing": False,
            "micro_batch": 1,
            "max_length": 1024,
            "precision": "bf16",
            "world": 4,
        }
        return estimate(facts, needs, Setting(**(base | change)), "nvidia").total

    assert total(micro_batch=2) > total() and total(max_length=2048) > total()
    assert total(gradient_checkpointing=True) < total()
    assert total(strategy="fsdp") < total()
    lora, int4 = (
        needs.model_copy(update={"adapter": "lora"}),
        needs.model_copy(update={"adapter": "lora", "quantization": "int4"}),
    )
    assert total(int4) < total(lora) < total()
    assert total(needs.model_copy(update={"optimizer": "sgd"})) < total()


def test_full_fine_tune_in_fp32_is_sixteen_bytes_a_parameter_before_activations():
    facts = model(SEVEN_B)
    terms = estimate(facts, TrainingNeeds(), Setting("ddp", False, 1, 1024, "fp32", 2), "nvidia").terms
    assert terms["weights"] + terms["gradients"] + terms["optimizer"] == pytest.approx(16 * facts.parameters)


def test_ddp_where_a_copy_fits_fsdp_where_it_does_not():
    assert values(advise("4x-a100-nvlink", SMALL))["strategy"] == "ddp"
    assert values(advise("4x-a100-nvlink", SEVEN_B))["strategy"] == "fsdp"
    assert values(advise("4x-a100-nvlink", SEVEN_B, adapter="lora"))["strategy"] == "ddp"


def test_what_does_not_fit_says_what_would_help():
    advice = advise("1x-rtx4090", SEVEN_B)
    short = next(finding for finding in advice.findings if finding.category == "cuda-oom-ddp-replica")
    assert short.preset_patch == {"model.adapter.type": "lora"}
    assert advice.decisions["memory"].value["fits"] is False
    assert advise("1x-rtx4090", SEVEN_B, adapter="lora", quantization="int4").decisions["memory"].value["fits"] is True


def test_predictions_have_two_figures_a_range_and_their_source():
    memory = advise("4x-a100-nvlink", SEVEN_B).decisions["memory"]
    low, high = memory.value["range_bytes"]
    assert low < memory.value["per_device_bytes"] < high
    assert all(float(f"{size:.2g}") == size for size in (low, high, *memory.value["terms_bytes"].values()))
    assert "from: tables" in memory.facts


def test_an_unknown_model_is_said_to_be_unknown():
    advice = advise("4x-a100-nvlink", None)
    assert advice.decisions["memory"].value is None and advice.decisions["strategy"].confidence == "low"
    assert any("model" in text for text in advice.unknown)


def test_a_busy_gpu_is_planned_with_what_is_free():
    inventory = machine("1x-rtx4090")
    inventory.accelerators[0].free_bytes = 3 * 2**30
    advice = recommend(inventory, TrainingNeeds(task="llm-sft"), model(SMALL))
    assert "gpu-in-use" in categories(advice)
    assert advice.decisions["memory"].value["budget_bytes"] < 3 * 2**30


def test_packing_of_rows_is_foreseen_and_left_to_the_engine():
    def chats(characters):
        lengths = Lengths(rows=100, mean=characters, p50=characters, p95=characters * 1.1, longest=characters * 1.2)
        return DataFacts(
            source="x",
            found=True,
            kind="chat",
            columns=["messages"],
            roles={"messages": "messages"},
            rows=5000,
            lengths=lengths,
        )

    for characters, expected in ((400, "leaves no gaps"), (3800, "would only cost")):
        decision = advise("1x-rtx4090", data=chats(characters), max_length=1024).decisions["packing"]
        assert decision.value == "auto" and expected in decision.reason  # the engine settles it on the tokens
    assert values(advise("1x-rtx4090"))["packing"] == "auto"
    # 480 characters are few, 2,400 at 4 a token with 15 % to spare and 64 for the template are 754
    assert values(advise("1x-rtx4090", data=chats(400)))["max_length"] == 256
    assert values(advise("1x-rtx4090", data=chats(2000)))["max_length"] == 768


def test_few_rows_get_a_smaller_batch():
    few = DataFacts(source="x", found=True, kind="chat", rows=100)
    assert values(advise("1x-rtx4090", data=few))["batch"]["global_batch"] == 5


@pytest.mark.parametrize(
    "wishes,rate",
    [({"adapter": "lora"}, 2e-4), ({}, 5e-5), ({"learning_rate": 1e-3}, 1e-3), ({"optimizer": "sgd"}, 1e-2)],
    ids=str,
)
def test_learning_rate(wishes, rate):
    assert values(advise("1x-rtx4090", SMALL, **wishes))["learning_rate"] == rate


def test_recommending_is_fast():
    machines = [machine(name) for name in NAMES]
    facts, needs = model(SEVEN_B), TrainingNeeds(task="llm-sft")
    times = []
    for inventory in machines * 3:
        began = time.perf_counter()
        recommend(inventory, needs, facts)
        times.append(time.perf_counter() - began)
    assert sorted(times)[len(times) // 2] < 0.010
