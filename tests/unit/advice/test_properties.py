"""What holds for every machine, model and wish; Hypothesis looks for the one for which it does not."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.advice.machines import NAMES, SEVEN_B, SMALL, TINY, machine, model
from wizard.advice.recommend import recommend
from wizard.hardware.inventory import HardwareInventory
from wizard.questions.needs import TrainingNeeds

GIB = 2**30
MODELS = {"tiny": model(TINY), "small": model(SMALL), "7b": model(SEVEN_B), "unknown": None}
auto = st.just("auto")

examples = settings(max_examples=60, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])


@st.composite
def machines(draw) -> HardwareInventory:
    """A recorded machine, some of it taken away or changed."""
    inventory = machine(draw(st.sampled_from(NAMES)))
    keep = draw(st.integers(0, len(inventory.accelerators)))
    inventory.accelerators = inventory.accelerators[: keep or None]
    for device in inventory.accelerators:
        if device.memory_bytes and draw(st.booleans()):
            device.free_bytes = int(device.memory_bytes * draw(st.floats(0.05, 1)))
        device.visible = device.visible and draw(st.integers(0, 9)) > 0
    if draw(st.booleans()):
        inventory.memory.available_bytes = draw(st.integers(1, 2048)) * GIB
    interfaces = inventory.network.interfaces
    inventory.network.interfaces = draw(st.permutations(interfaces))[: draw(st.integers(0, len(interfaces)))]
    names = [item.name for item in inventory.network.interfaces]
    if inventory.network.default_interface not in names:
        inventory.network.default_interface = draw(st.sampled_from([*names, None]))
    inventory.network.routes = [route for route in inventory.network.routes if route.interface in names]
    return inventory


@st.composite
def wishes(draw) -> TrainingNeeds:
    adapter = draw(st.sampled_from([None, "lora"]))
    return TrainingNeeds(
        task=draw(st.sampled_from(["llm-sft", "llm-pretrain"])),
        from_scratch=draw(st.booleans()),
        adapter=adapter,
        quantization=draw(st.sampled_from([None, "int4"])) if adapter else None,
        max_length=draw(auto | st.sampled_from([64, 512, 4096])),
        global_batch=draw(auto | st.integers(1, 300)),
        micro_batch=draw(auto | st.integers(1, 9)),
        gradient_accumulation=draw(auto | st.integers(1, 9)),
        gradient_checkpointing=draw(auto | st.booleans()),
        precision=draw(auto | st.sampled_from(["fp32", "bf16"])),
        num_nodes=draw(st.sampled_from([1, 1, 2, 3])),
        num_processes_per_node=draw(auto | st.integers(1, 5)),
        num_gpus_per_node=draw(auto | st.integers(0, 8)),
        main_address=draw(st.sampled_from([None, "10.0.0.2", "node0"])),
    )


models = st.sampled_from(list(MODELS)).map(MODELS.get)


@examples
@given(machines(), wishes(), models)
def test_processes_never_exceed_devices_or_it_is_said(inventory, needs, facts):
    advice = recommend(inventory, needs, facts)
    devices, processes = advice.decisions["devices"].value, advice.decisions["processes"].value
    assert processes >= 1
    said = {finding.category for finding in advice.findings}
    if devices["count"]:
        assert processes <= devices["count"] or "num-processes-exceeds-gpus" in said
        assert len(devices["indices"]) == devices["count"] or "num-processes-exceeds-gpus" in said
    usable = {device.index for device in inventory.accelerators if device.visible}
    assert set(devices["indices"]) <= usable


@examples
@given(machines(), wishes(), models)
def test_batches_multiply_to_the_global_batch_or_it_is_said(inventory, needs, facts):
    advice = recommend(inventory, needs, facts)
    batch = advice.decisions["batch"].value
    product = batch["micro_batch"] * batch["gradient_accumulation"] * batch["world_size"]
    assert batch["world_size"] == advice.decisions["processes"].value * needs.num_nodes
    said = [finding for finding in advice.findings if finding.category == "batch-not-divisible"]
    assert (product == batch["global_batch"]) != bool(said)
    for key in ("global_batch", "micro_batch", "gradient_accumulation"):
        wanted = getattr(needs, key)
        assert wanted == "auto" or batch[key] == wanted or said


@examples
@given(machines(), wishes(), models)
def test_no_interface_is_named_that_is_not_there(inventory, needs, facts):
    advice = recommend(inventory, needs, facts)
    there = {item.name for item in inventory.network.interfaces}
    for value in (advice.decisions["network"].value, advice.settings.get("distributed.network_interface")):
        assert value is None or value in there
    for name, value in advice.decisions["env"].value.items():
        if name.endswith("SOCKET_IFNAME"):
            assert set(value.lstrip("=").split(",")) <= there


@examples
@given(machines(), wishes(), models.filter(bool), st.lists(st.floats(1, 600), min_size=2, max_size=4))
def test_more_memory_never_turns_a_fitting_plan_into_one_that_does_not_fit(inventory, needs, facts, sizes):
    fitted = False
    for gib in sorted(sizes):
        inventory.memory.available_bytes = inventory.memory.total_bytes = int(gib * GIB)
        inventory.memory.limit_bytes = None
        for device in inventory.accelerators:
            device.memory_bytes = device.free_bytes = int(gib * GIB)
            for part in device.slices:
                part.memory_bytes = int(gib * GIB)
        fits = recommend(inventory, needs, facts).decisions["memory"].value["fits"]
        assert fits or not fitted, f"fitted with less, not with {gib} GiB"
        fitted = fitted or bool(fits)


@examples
@given(machines(), wishes(), models)
def test_ranges_are_in_order_and_no_prediction_is_without_its_source(inventory, needs, facts):
    advice = recommend(inventory, needs, facts)
    memory, comparison = advice.decisions["memory"], advice.comparison
    if memory.value:
        low, high = memory.value["range_bytes"]
        assert low <= memory.value["per_device_bytes"] <= high
    for way in comparison.ways if comparison else ():
        assert (way.step_s is None) == bool(way.unknown)
        if way.step_s:
            assert 0 < way.step_s[0] <= way.step_s[1] and 0 <= way.waiting_share[0] <= way.waiting_share[1] <= 1
            assert all(float(f"{value:.2g}") == value for value in way.step_s + way.waiting_share)
    assert comparison is None or comparison.source.startswith("from: ")
    assert comparison is None or sum(way.chosen for way in comparison.ways) <= 1
