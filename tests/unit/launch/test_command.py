"""The command of every kind of launch, and the environment it runs in."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import pytest
import yaml

from engine.contract.load import preset_from_data
from engine.contract.preset import Preset
from engine.contract.run_dir import RunDir
from wizard.launch.command import launch_command
from wizard.launch.environment import child_environment, is_reserved, is_secret, link_packages, noted, stripped

RUN = RunDir("/runs/it/20260101-000000")


def preset(precision: str = "fp32", **distributed) -> Preset:
    how = {"backend": "gloo", "strategy": "ddp", "num_gpus_per_node": 0, "num_processes_per_node": 2,
           "threads_per_process": 3, "communication": {"bucket_mb": 25}, **distributed}
    return preset_from_data({
        "name": "it", "task": "llm-pretrain", "model": {"path": "gpt2"}, "data": {"train": "x.txt", "max_length": 64, "packing": True},
        "training": {"global_batch": 8, "micro_batch": 2, "gradient_accumulation": 2, "learning_rate": 1e-3, "max_steps": 1,
                     "precision": precision, "gradient_checkpointing": False},
        "distributed": how})


def option(argv: list[str], name: str) -> str:
    return argv[argv.index(name) + 1]


def test_two_cpu_ranks_are_started_as_multi_gpu_on_the_cpu():
    launch = launch_command(preset(), RUN, 1)
    argv = launch.argv
    assert argv[:3] == [sys.executable, "-m", "accelerate.commands.launch"]
    assert argv[-3:] == ["-m", "engine.train", str(RUN.root)]
    assert "--multi_gpu" in argv and "--cpu" not in argv, "--cpu starts one process and calls it success"
    assert launch.env["ACCELERATE_USE_CPU"] == "true"
    assert option(argv, "--num_processes") == "2" and option(argv, "--num_machines") == "1"
    assert option(argv, "--main_process_port") == "0", "a free port for each run"
    assert option(argv, "--num_cpu_threads_per_process") == launch.env["OMP_NUM_THREADS"] == "3"
    assert launch.accelerate_config["distributed_type"] == "MULTI_CPU"
    assert (launch.first_rank, launch.local_ranks) == (0, 2)


def test_every_launch_names_its_own_configuration_file():
    assert option(launch_command(preset(), RUN, 2).argv, "--config_file") == str(RUN.attempt(2) / "accelerate.yaml")


@pytest.mark.parametrize(("gpus", "has_cpu"), [(0, True), (1, False)])
def test_one_process_is_started_plainly(gpus, has_cpu):
    launch = launch_command(preset(backend="none", strategy="single", num_processes_per_node=1, num_gpus_per_node=gpus), RUN, 1)
    assert "--multi_gpu" not in launch.argv and ("--cpu" in launch.argv) is has_cpu
    assert option(launch.argv, "--num_processes") == "1"
    assert launch.accelerate_config["distributed_type"] == "NO"
    assert ("ACCELERATE_USE_CPU" in launch.env) is has_cpu


def test_gpus_of_one_machine():
    launch = launch_command(preset("bf16", backend="nccl", num_gpus_per_node=4, num_processes_per_node=4), RUN, 1)
    assert "--multi_gpu" in launch.argv and option(launch.argv, "--mixed_precision") == "bf16"
    assert "ACCELERATE_USE_CPU" not in launch.env
    assert option(launch.argv, "--gpu_ids") == "all", "what CUDA_VISIBLE_DEVICES leaves is what there is"


def test_several_machines_meet_at_an_address():
    how = preset(backend="nccl", num_gpus_per_node=4, num_processes_per_node=4, num_nodes=2, main_address="10.0.0.1", main_port=29501,
                 network_interface="ens5", join_timeout_s=15)
    launch = launch_command(how, RUN, 1, node_rank=1)
    argv = launch.argv
    assert option(argv, "--num_processes") == "8" and option(argv, "--num_machines") == "2"
    assert option(argv, "--machine_rank") == "1" and option(argv, "--main_process_ip") == "10.0.0.1"
    assert option(argv, "--main_process_port") == "29501" and option(argv, "--rdzv_backend") == "static"
    assert option(argv, "--rdzv_conf") == "timeout=15"
    assert launch.env["GLOO_SOCKET_IFNAME"] == "ens5" and launch.env["NCCL_SOCKET_IFNAME"] == "=ens5"
    assert (launch.first_rank, launch.local_ranks) == (4, 4)
    with pytest.raises(ValueError):
        launch_command(how, RUN, 1, node_rank=2)


@pytest.mark.parametrize(("gpus", "backend", "kind"), [(2, "nccl", "MULTI_GPU"), (0, "gloo", "MULTI_CPU")])
def test_accelerate_is_told_nothing_of_fsdp(gpus, backend, kind):
    """It would make DDP of it on a CPU; the engine shards the model in a plain group of processes."""
    launch = launch_command(preset("bf16", backend=backend, strategy="fsdp", num_gpus_per_node=gpus), RUN, 1)
    assert "--multi_gpu" in launch.argv and launch.accelerate_config["distributed_type"] == kind
    assert not [word for word in (*launch.argv, *launch.accelerate_config) if "fsdp" in word.lower()]


def test_configurations_are_accepted_by_accelerate(tmp_path):
    """accelerate refuses a file with a key it does not know."""
    config_args = Path(next(iter(__import__("importlib.util").util.find_spec("accelerate").submodule_search_locations)))
    source = (config_args / "commands" / "config" / "config_args.py").read_text()
    for kind in (preset(), preset(backend="nccl", strategy="fsdp", num_gpus_per_node=2),
                 preset(backend="nccl", num_gpus_per_node=2, num_nodes=2, main_address="10.0.0.1", main_port=29500)):
        for key in launch_command(kind, RUN, 1).accelerate_config:
            assert f"\n    {key}:" in source, key
    assert yaml.safe_load(yaml.safe_dump(launch_command(preset(), RUN, 1).accelerate_config))["use_cpu"] is True


def test_the_shown_command_can_be_pasted_and_hides_secrets():
    launch = launch_command(preset(env={"NCCL_DEBUG": "INFO", "MY_TOKEN": "abc"}), RUN, 1)
    words = shlex.split(launch.shell())
    assert "NCCL_DEBUG=INFO" in words and "MY_TOKEN=***" in words and "abc" not in launch.shell()
    assert words[-len(launch.argv):] == launch.argv


def test_what_another_launcher_left_is_taken_out():
    left = {"ACCELERATE_MIXED_PRECISION": "fp16", "ACCELERATE_USE_FSDP": "true", "FSDP_VERSION": "1", "DEEPSPEED_X": "1", "PET_NNODES": "2",
            "RANK": "3", "LOCAL_RANK": "3", "WORLD_SIZE": "8", "MASTER_ADDR": "x", "MASTER_PORT": "1", "OMP_NUM_THREADS": "64",
            "OMPI_COMM_WORLD_SIZE": "4", "PMI_SIZE": "4", "TORCHELASTIC_RESTART_COUNT": "1", "PYTHONSAFEPATH": ""}
    kept = {"PATH": "/bin", "HOME": "/h", "CUDA_VISIBLE_DEVICES": "1,2", "NCCL_DEBUG": "INFO", "HF_TOKEN": "s", "HF_HOME": "/c"}
    assert child_environment({**left, **kept}, {"PYTHONSAFEPATH": "1"}) == {**kept, "PYTHONSAFEPATH": "1"}
    assert stripped({**left, **kept}) == sorted(left)
    assert noted({**left, **kept}) == {"CUDA_VISIBLE_DEVICES": "1,2", "NCCL_DEBUG": "INFO", "HF_HOME": "/c"}
    assert is_reserved("ACCELERATE_USE_CPU") and not is_reserved("NCCL_DEBUG")
    assert is_secret("HF_TOKEN") and is_secret("WANDB_API_KEY") and not is_secret("TOKENIZERS_PARALLELISM")


def test_the_current_folder_never_comes_onto_the_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = child_environment({"PYTHONPATH": os.pathsep.join(["", "/own", "relative", "/first"])}, {"PYTHONPATH": "/first"})["PYTHONPATH"]
    assert path.split(os.pathsep) == ["/first", "/own", str(tmp_path / "relative")]


def test_linked_packages_are_ours(tmp_path):
    import engine

    link_packages(tmp_path / "path")
    link_packages(tmp_path / "path")
    assert sorted(os.listdir(tmp_path / "path")) == ["engine", "wizard"]
    assert (tmp_path / "path" / "engine").resolve() == Path(engine.__file__).resolve().parent
