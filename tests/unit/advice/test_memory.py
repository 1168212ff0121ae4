"""The memory estimate term by term, its calibration, and what is said where memory is short."""

from __future__ import annotations

import pytest

from tests.unit.advice.machines import SEVEN_B, SMALL, TINY, advise, machine, model
from wizard.advice.activations import layer_bytes
from wizard.advice.calibration import MemoryCalibration, calibrate, dump_calibration, parse_calibration
from wizard.advice.memory import Setting, estimate
from wizard.advice.recommend import recommend
from wizard.facts.parameters import Shape
from wizard.questions.needs import TrainingNeeds

GIB = 2**30
#: hidden 512, inner 1408, 8 heads of 64, 4 of them for keys and values.
SHAPE = Shape(2, 512, 1408, 8, 4, 64, 8192, 512, True, True)


@pytest.mark.parametrize(
    "width,rank,counted",
    [(4.0, None, 41_000), (4.0, 16, 63_464), (2.0, None, 27_680), (2.0, 16, 42_752)],
    ids=["fp32", "fp32 lora", "bf16", "bf16 lora"],
)
def test_a_block_leaves_what_autograd_saves(width, rank, counted):
    """Counted with `saved_tensors_hooks` on transformers' Llama: a few bytes of statistics a token are left out."""
    assert layer_bytes(SHAPE, width, rank, mask=4.0) == pytest.approx(counted, rel=0.001)


def need(micro: int = 4, length: int = 256, **change):
    setting = {"strategy": "single", "gradient_checkpointing": False, "precision": "fp32", "world": 1, "accumulation": 1}
    facts, needs = model(SMALL), TrainingNeeds(adapter=change.pop("adapter", None))
    kind = change.pop("kind", "nvidia")
    return estimate(facts, needs, Setting(micro_batch=micro, max_length=length, **(setting | change)), kind)


def test_gradients_count_while_they_are_there():
    once, twice = need().terms, need(accumulation=2).terms
    assert once["gradients"] < twice["gradients"] == pytest.approx(4 * model(SMALL).parameters)
    assert need(world=2, strategy="ddp").terms["gradients"] == twice["gradients"]
    # with few tokens the end of the backward pass is the highest moment: all gradients, the embedding's twice
    few = need(micro=1, length=8).terms
    assert few["gradients"] + few["activations"] + few["logits"] > 4 * model(SMALL).parameters


def test_what_the_c_library_keeps_is_a_term_of_its_own_on_a_cpu_only():
    assert "heap" in need(kind="cpu").terms and "heap" not in need().terms
    saved = need(kind="cpu").total - need(kind="cpu", gradient_checkpointing=True).total
    assert 0 < saved < need().total - need(gradient_checkpointing=True).total


def test_calibration_comes_near_the_step_it_learned_from_and_leaves_what_is_certain():
    terms = need(kind="cpu").terms
    real = sum(terms.values()) * 1.08
    learned = calibrate(terms, real, 400e6, kind="cpu", date="2026-12-01", torch="2.13.0")
    facts, needs = model(SMALL), TrainingNeeds()
    setting = Setting("single", False, 4, 256, "fp32", 1)
    assert estimate(facts, needs, setting, "cpu", learned).total == pytest.approx(real, rel=0.03)  # short of the noise
    lasting = ("weights", "optimizer", "gradients")
    other = Setting("single", False, 8, 256, "fp32", 1)
    for name in lasting:
        assert estimate(facts, needs, other, "cpu", learned).terms[name] == estimate(facts, needs, other, "cpu").terms[name]
    assert parse_calibration(dump_calibration(learned)) == learned


def test_a_measurement_of_something_else_is_refused():
    terms = need(kind="cpu").terms
    with pytest.raises(ValueError, match="do not belong"):
        calibrate(terms, 100e9, 400e6, kind="cpu", date="2026-12-01")
    with pytest.raises(ValueError, match="overhead_bytes"):
        parse_calibration('{"kind": "cpu", "date": "2026-12-01", "overhead_bytes": -1, "transient": 1}')


def test_recommend_uses_a_calibration_of_this_kind_of_device_and_torch_only():
    def memory(kind: str, torch: str | None, name: str = "cpu-2-cores"):
        inventory = machine(name)
        inventory.software.packages["torch"] = "2.13.0"
        learned = MemoryCalibration(kind=kind, date="2026-12-01", torch=torch, overhead_bytes=3e9, transient=2.0)
        return recommend(inventory, TrainingNeeds(task="llm-sft"), model(TINY), calibration=learned).decisions["memory"]

    assert memory("cpu", "2.13.0").value["terms_bytes"]["overhead"] == 3e9
    assert "from: measured on 2026-12-01 with torch 2.13.0" in memory("cpu", "2.13.0").facts
    for kind, torch in (("nvidia", "2.13.0"), ("cpu", "2.9.0")):
        assert "from: tables" in memory(kind, torch).facts


def short(advice):
    return next(finding for finding in advice.findings if finding.category in ("cuda-oom-ddp-replica", "host-oom-sigkill"))


def test_lora_is_suggested_where_it_fits_and_4_bits_where_only_that_does():
    lora = short(advise("1x-rtx4090", SEVEN_B, max_length=512))
    assert lora.preset_patch == {"model.adapter.type": "lora"} and "which fits" in lora.fix[0]
    inventory = machine("1x-rtx4090")
    inventory.accelerators[0].free_bytes = 12 * GIB
    int4 = short(recommend(inventory, TrainingNeeds(task="llm-sft", max_length=512), model(SEVEN_B)))
    assert int4.preset_patch == {"model.adapter.type": "lora", "model.quantization": "int4"}
    assert "still too much" in int4.fix[0] and "which fits" in int4.fix[1]


def test_what_is_suggested_does_fit():
    patched = advise("1x-rtx4090", SEVEN_B, max_length=512, adapter="lora")
    assert patched.decisions["memory"].value["fits"]


def test_nothing_is_suggested_that_the_machine_cannot_do():
    inventory = machine("cpu-2-cores")
    inventory.memory.available_bytes = inventory.memory.total_bytes = 4 * GIB
    said = short(recommend(inventory, TrainingNeeds(task="llm-sft"), model(SEVEN_B)))
    assert not any("int4" in step for step in said.fix)
    scratch = short(recommend(inventory, TrainingNeeds(task="llm-pretrain", from_scratch=True), model(SEVEN_B)))
    assert scratch.preset_patch is None


def test_the_terms_stand_against_what_is_free_now():
    inventory = machine("1x-rtx4090")
    inventory.accelerators[0].free_bytes = 20 * GIB
    advice = recommend(inventory, TrainingNeeds(task="llm-sft"), model(SEVEN_B))
    assert "against 20 GiB free now" in short(advice).evidence[0].text
    assert any("optimizer" in fact and "against 20 GiB free now" in fact for fact in advice.decisions["memory"].facts)


def test_a_difference_within_the_noise_teaches_nothing():
    terms = need(kind="cpu").terms
    transient = sum(terms[name] for name in ("activations", "logits", "heap"))
    overhead = 430e6
    real = sum(terms.values()) - terms["overhead"] + overhead + 0.03 * transient
    assert calibrate(terms, real, 400e6, kind="cpu", date="2026-12-01").transient == pytest.approx(1.0)


def test_memory_given_back_at_once_is_estimated_without_what_is_kept():
    needs = TrainingNeeds(env={"MALLOC_MMAP_THRESHOLD_": "1048576"})
    assert "heap" not in estimate(model(SMALL), needs, Setting("single", True, 4, 256, "fp32", 1), "cpu").terms
