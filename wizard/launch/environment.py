"""The environment of the launcher and its ranks: what is taken out, what is added, what merely passes through."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

#: Left by another launcher, a notebook or `accelerate config`: each of these would change how ranks are started,
#: or make accelerate believe in a strategy, a precision or a world that the preset does not name.
_STRIPPED = re.compile(
    r"ACCELERATE_.*|FSDP_.*|DEEPSPEED_.*|MEGATRON_LM_.*|PARALLELISM_CONFIG_.*|PET_.*|TORCHELASTIC_.*|TORCH_ELASTIC_.*"
    r"|OMPI_.*|PMI_.*|PMIX_.*|MV2_COMM_.*|MPI_LOCAL.*|ROLE_(RANK|WORLD_SIZE|NAME)"
    r"|(LOCAL_|GROUP_|NODE_|CROSS_)?RANK|(LOCAL_|GROUP_)?WORLD_SIZE|MASTER_(ADDR|PORT)|NPROC|FORK_LAUNCHED|USE_TORCH_XLA"
    r"|OMP_NUM_THREADS|PYTHONSAFEPATH|PYTHONPATH"
)
#: A person's own settings of the network and the devices: they pass, and are written down with the launch.
_NOTED = re.compile(r"(NCCL|RCCL|GLOO|TORCH_NCCL|TORCH_DISTRIBUTED|UCX|FI|OMP|MKL|KMP|CUDA|HIP|ROCR|HSA|ZE|HF)_.*")
#: What an access token of the hub looks like, whatever variable it is in.
_TOKEN = re.compile(r"hf_\w{8,}")
_SECRET = re.compile(r"(^|_)(TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?|API_?KEY|ACCESS_KEY|PRIVATE_KEY)$", re.IGNORECASE)


def stripped(environment: Mapping[str, str]) -> list[str]:
    """Names of inherited variables that the launch takes out, sorted."""
    return sorted(name for name in environment if _STRIPPED.fullmatch(name))


def noted(environment: Mapping[str, str]) -> dict[str, str]:
    """Inherited variables that ranks will see and that may matter to communication, without secrets."""
    return {name: value for name, value in sorted(environment.items())
            if _NOTED.fullmatch(name) and not _STRIPPED.fullmatch(name) and not is_secret(name) and not _TOKEN.search(value)}


def is_secret(name: str) -> bool:
    """Whether a variable of this name holds what must not be written down or shown."""
    return bool(_SECRET.search(name))


def child_environment(inherited: Mapping[str, str], added: Mapping[str, str]) -> dict[str, str]:
    """What the launcher runs with: the inherited environment, cleaned, and the launch's own variables on top.

    An added PYTHONPATH goes before the inherited one instead of replacing it.
    """
    environment = {name: value for name, value in inherited.items() if not _STRIPPED.fullmatch(name)} | dict(added)
    if "PYTHONPATH" in added:
        environment["PYTHONPATH"] = python_path(added["PYTHONPATH"], inherited.get("PYTHONPATH"))
    return environment


def is_reserved(name: str) -> bool:
    """Whether the launch itself decides this variable, so that a preset must not set it."""
    return bool(_STRIPPED.fullmatch(name))


def python_path(first: str, inherited: str | None) -> str:
    """`first`, then the person's own PYTHONPATH entries, absolute and without the empty ones.

    An empty entry means the current folder, and a file `engine.py` there would replace the engine.
    """
    entries = [first]
    for entry in (inherited or "").split(os.pathsep):
        if entry and os.path.abspath(entry) not in entries:
            entries.append(os.path.abspath(entry))
    return os.pathsep.join(entries)


def link_packages(folder: Path) -> None:
    """Make `folder` hold the packages `engine` and `wizard`, and nothing else, as links.

    First on a child's path it leads to these two from any folder, from a checkout as from an installed wheel, and
    unlike the site-packages folder itself it can hide no module of the standard library. Raises OSError.
    """
    import engine.contract
    import wizard

    packages = {"engine": Path(engine.contract.__file__).resolve().parents[1], "wizard": Path(wizard.__file__).resolve().parent}
    folder.mkdir(mode=0o700, exist_ok=True)
    for name, package in packages.items():
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(package, target_is_directory=True)
