"""Several machines of one job: differences named, the whole still fast."""

from __future__ import annotations

import json

from tests.unit.advice.machines import FOLDER, SEVEN_B, machine, model
from wizard.advice.recommend import recommend
from wizard.cli import main
from wizard.errors import ExitCode
from wizard.hardware.inventory import HardwareInventory
from wizard.questions.needs import TrainingNeeds


def twins(name: str, count: int) -> list[HardwareInventory]:
    return [machine(name).model_copy(update={"host": f"node{at}"}, deep=True) for at in range(count)]


def advise(machines: list[HardwareInventory], **needs):
    return recommend(machines[0], TrainingNeeds(**needs), model(SEVEN_B), None, machines[1:])


def summaries(advice, category: str) -> list[str]:
    return [finding.summary for finding in advice.findings if finding.category == category]


def test_machines_of_one_kind_have_no_differences():
    advice = advise(twins("8x-h100", 4))
    assert advice.num_nodes == 4 and advice.decisions["batch"].value["world_size"] == 32
    assert not [f for f in advice.findings if "machines have different" in f.summary]


def test_each_machine_takes_as_many_gpus_as_the_one_with_the_fewest():
    machines = twins("8x-h100", 3)
    machines[2].accelerators = machines[2].accelerators[:4]
    advice = advise(machines)
    assert advice.decisions["devices"].value["count"] == 4
    assert ["node2 unlike node0, node1" in text for text in summaries(advice, "nodes-differ")] == [True]


def test_what_differs_is_named_with_the_machine():
    machines = twins("4x-a100-nvlink", 3)
    machines[1].software.packages["nvidia-nccl-cu12"] = "2.18.1"
    machines[0].software.packages["nvidia-nccl-cu12"] = machines[2].software.packages["nvidia-nccl-cu12"] = "2.21.5"
    machines[2].environment["NCCL_ALGO"] = "Ring"
    texts = summaries(advise(machines), "nccl-env-differs-between-nodes")
    assert any("NCCL versions: node1" in text for text in texts)
    assert any("NCCL variables: node2" in text for text in texts)


def test_other_gpus_on_one_machine_are_mixed():
    machines = [*twins("4x-a100-nvlink", 2), *twins("4x-v100-pcie", 1)]
    assert summaries(advise(machines), "mixed-gpus")


def test_equal_host_names_are_said():
    assert summaries(advise([machine("8x-h100"), machine("8x-h100")]), "same-hostname-on-two-nodes")


def test_interface_names_may_differ():
    machines = twins("4x-a100-nvlink", 2)
    machines[0].environment["NCCL_SOCKET_IFNAME"] = "=ens5"
    machines[1].environment["NCCL_SOCKET_IFNAME"] = "=ens6"
    assert not summaries(advise(machines), "nccl-env-differs-between-nodes")


def test_several_inventories_on_the_command_line(capsys):
    file = str(FOLDER / "8x-h100.json")
    assert main(["recommend", "--json", "--inventory", file, "--inventory", file]) == ExitCode.OK
    answer = json.loads(capsys.readouterr().out)
    assert answer["decisions"]["batch"]["value"]["world_size"] == 16
    assert "same-hostname-on-two-nodes" in {finding["category"] for finding in answer["findings"]}
