"""Versions of what a training runs on, read from package metadata: importing torch would cost seconds."""

from __future__ import annotations

import platform
import re
import sys
from importlib import metadata
from pathlib import Path

from wizard.hardware.inventory import Software, TorchBuild
from wizard.hardware.sources import Probed, Sources

_PACKAGES = (
    "torch",
    "accelerate",
    "transformers",
    "datasets",
    "peft",
    "bitsandbytes",
    "deepspeed",
    "safetensors",
    "nvidia-nccl-cu12",
    "nvidia-nccl-cu13",
    "nvidia-nccl-cu11",
    "flash-attn",
    "autotrain-wizard",
)
#: Variables that steer devices, threads and communication. An allow list: the environment also holds secrets.
_VARIABLES = re.compile(
    r"^(NCCL_|RCCL_|GLOO_|UCX_|FI_|CUDA_VISIBLE_DEVICES$|CUDA_DEVICE_ORDER$|HIP_VISIBLE_DEVICES$|"
    r"ROCR_VISIBLE_DEVICES$|GPU_DEVICE_ORDINAL$|ZE_AFFINITY_MASK$|OMP_|KMP_|MKL_NUM_THREADS$|"
    r"TORCH_NCCL_|TORCH_DISTRIBUTED_DEBUG$|PYTORCH_(CUDA_|HIP_)?ALLOC_CONF$|HSA_|HF_HUB_OFFLINE$|"
    r"SLURM_(JOB_ID|NNODES|GPUS_ON_NODE|CPUS_ON_NODE)$)"
)
_SECRET = re.compile(r"TOKEN|SECRET|PASSWORD|CREDENTIAL|_KEY", re.I)


def probe_software(sources: Sources) -> Probed:
    packages, unknown = {}, {}
    for name in _PACKAGES:
        try:
            packages[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    build = torch_build(_torch_version_file())
    if "torch" not in packages:
        unknown["software.torch"] = "torch is not installed in this Python"
    elif build is None:
        unknown["software.torch"] = "torch's version file cannot be read"
    return Probed(
        {
            "software": Software(python=platform.python_version(), packages=packages, torch=build),
            "environment": steering_variables(sources.environ),
        },
        unknown,
    )


def steering_variables(environ: dict[str, str]) -> dict[str, str]:
    return {key: value for key, value in sorted(environ.items()) if _VARIABLES.match(key) and not _SECRET.search(key)}


def torch_build(text: str | None) -> TorchBuild | None:
    """Read `torch/version.py` as text: `cuda: Optional[str] = '12.8'`."""
    if not text:
        return None
    values: dict[str, str | None] = {}
    for key, quoted in re.findall(r"^(\w+)(?:\s*:[^=\n]*)?\s*=\s*(None|'[^']*'|\"[^\"]*\")", text, re.M):
        values[key] = None if quoted == "None" else quoted[1:-1]
    if "__version__" not in values:
        return None
    return TorchBuild(
        version=values["__version__"],
        cuda=values.get("cuda"),
        hip=values.get("hip") or values.get("rocm"),
        xpu=values.get("xpu"),
    )


def _torch_version_file() -> str | None:
    for folder in sys.path:
        path = Path(folder or ".") / "torch" / "version.py"
        try:
            return path.read_text(encoding="utf-8")
        except OSError:
            continue
    return None
