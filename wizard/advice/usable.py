"""Which devices a training could use at all: visible, of one maker, and known to the installed torch."""

from __future__ import annotations

from engine.contract.findings import Finding
from wizard.advice.reasons import count_of, finding, short_name
from wizard.hardware.inventory import Accelerator, HardwareInventory

#: torch's CUDA wheels carry no kernels below this. Source: the release notes of torch 2.0 (Kepler dropped) and of
#: CUDA 13 (Maxwell, Pascal, Volta dropped).
_OLDEST = (5, 0)
_OLDEST_CUDA_13 = (7, 5)
#: Architectures in torch's ROCm wheels. Source: PYTORCH_ROCM_ARCH in the wheels' build scripts.
_ROCM_WHEELS = (
    "gfx900", "gfx906", "gfx908", "gfx90a", "gfx94", "gfx95", "gfx1030", "gfx1100", "gfx1101", "gfx1102", "gfx115", "gfx12",
)  # fmt: skip
#: Relatives whose kernels run on them, as HSA_OVERRIDE_GFX_VERSION is written.
_ROCM_RELATIVES = {gfx: "10.3.0" for gfx in ("gfx1031", "gfx1032", "gfx1034", "gfx1035", "gfx1036")} | {"gfx1103": "11.0.0"}


def usable_devices(inventory: HardwareInventory, findings: list[Finding]) -> list[Accelerator]:
    """Devices of one kind that are visible and that the installed torch can drive."""
    visible = [device for device in inventory.accelerators if device.visible]
    hidden = len(inventory.accelerators) - len(visible)
    if hidden:
        findings.append(
            finding(
                "devices-hidden",
                "certain",
                f"{count_of(hidden, 'GPU')} of {len(inventory.accelerators)} hidden by the environment",
                "environment",
                ", ".join(f"{key}={value}" for key, value in inventory.environment.items() if "VISIBLE" in key)
                or "a *_VISIBLE_DEVICES variable",
                ["unset the variable to use all of them; leave it if that is what you want"],
            )
        )
    # one communication library drives one maker's devices
    order = [
        vendor
        for vendor in ("nvidia", "amd", "habana", "intel", "ascend", "apple")
        if any(device.vendor == vendor for device in visible)
    ]
    findings += _not_for_torch([device for device in visible if device.vendor in ("tpu", "trainium")])
    devices = [device for device in visible if device.vendor == order[0]] if order else []
    if devices and not _torch_can(devices[0].vendor, inventory, findings):
        return []
    return [device for device in devices if _kernels_for(device, inventory, findings)]


def _torch_can(vendor: str, inventory: HardwareInventory, findings: list[Finding]) -> bool:
    build = inventory.software.torch
    if build is None or vendor in ("apple", "ascend", "habana"):  # not installed here: another machine, or an unknown build
        return True
    have = {"nvidia": build.cuda, "amd": build.hip, "intel": build.xpu}[vendor]
    if have:
        return True
    names = {"nvidia": "CUDA", "amd": "ROCm", "intel": "XPU"}
    makers = {"nvidia": "NVIDIA", "amd": "AMD", "intel": "Intel"}
    findings.append(
        finding(
            "torch-build-without-gpu",
            "certain",
            f"the installed torch cannot use the {makers[vendor]} GPU of this machine",
            "torch/version.py",
            f"torch {build.version}: no {names[vendor]}",
            [f"install a {names[vendor]} build of torch (pytorch.org shows the command for this machine)"],
        )
    )
    return inventory.from_text  # a text asks how to do it, and this is the first step; here it has to be done first


def _not_for_torch(devices: list[Accelerator]) -> list[Finding]:
    if not devices:
        return []
    return [
        finding(
            "gpu-arch-unsupported",
            "certain",
            f"{short_name(devices[0])} needs torch-xla or the maker's own stack, which this program does not launch",
            "inventory",
            ", ".join(f"{device.index}: {device.name}" for device in devices[:4]),
            ["train on NVIDIA, AMD or Intel GPUs, or with the maker's own launcher"],
        )
    ]


def _kernels_for(device: Accelerator, inventory: HardwareInventory, findings: list[Finding]) -> bool:
    if device.vendor == "amd":
        return _rocm_kernels_for(device, findings)
    capability = device.capability
    if device.vendor != "nvidia" or capability is None:
        return True
    build = inventory.software.torch
    cuda = _version(build.cuda if build else None)
    said = f"GPU {device.index}: compute capability {device.compute_capability}; torch " + (
        f"{build.version}" if build else "not known"
    )
    if capability >= (10, 0) and (cuda is None or cuda < (12, 8)):
        return _needs_newer_cuda(device, cuda, said, inventory, findings)
    if capability >= _OLDEST_CUDA_13 or (capability >= _OLDEST and not (cuda and cuda >= (13, 0))):
        return True
    if capability >= _OLDEST:
        summary = f"{short_name(device)} (compute capability {device.compute_capability}) has no kernels in CUDA 13 wheels"
        findings.append(
            finding(
                "gpu-arch-unsupported", "certain", summary, "compute capability", said,
                ["install a torch wheel for cu126 or cu128, which still have them"],
            )
        )  # fmt: skip
        return inventory.from_text
    findings.append(
        finding(
            "gpu-arch-unsupported",
            "certain" if build else "likely",
            f"{short_name(device)} (compute capability {device.compute_capability}) is too old for present torch",
            "compute capability",
            said,
            [
                "train on the CPU, or on another GPU",
                "a torch of 1.12 or older still has kernels for it, but this program does not run on that",
            ],
        )
    )
    return False


def _needs_newer_cuda(device, cuda, said: str, inventory: HardwareInventory, findings: list[Finding]) -> bool:
    """Blackwell came with CUDA 12.8; older wheels start and then find no kernel image."""
    findings.append(
        finding(
            "needs-cuda-12.8",
            "certain" if cuda else "possible",
            f"{short_name(device)} needs a torch built for CUDA 12.8 or newer",
            "compute capability",
            said,
            ["choose a torch wheel for cu128 or newer (torch 2.7 on)"],
        )
    )
    return cuda is None or inventory.from_text


def _rocm_kernels_for(device: Accelerator, findings: list[Finding]) -> bool:
    """ROCm wheels carry kernels for a short list; a near relative of a listed GPU runs under its name."""
    gfx = device.architecture
    relative = _ROCM_RELATIVES.get(gfx or "")
    if gfx is None or gfx.startswith(_ROCM_WHEELS):
        return True
    fix = (
        [f"set HSA_OVERRIDE_GFX_VERSION={relative}: it then runs as its near relative, which is not supported by AMD"]
        if relative
        else ["train on the CPU, or on another GPU"]
    )
    findings.append(
        finding(
            "gpu-arch-unsupported",
            "likely",
            f"torch's ROCm wheels have no kernels for {short_name(device)} ({gfx})",
            "architecture",
            f"GPU {device.index}: {gfx}",
            fix,
        )
    )
    return relative is not None


def _version(text: str | None) -> tuple[int, ...] | None:
    parts = (text or "").split(".")[:2]
    return tuple(int(part) for part in parts) if parts[0].isdigit() and all(part.isdigit() for part in parts) else None
