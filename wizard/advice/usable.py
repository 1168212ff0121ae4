"""Which devices a training could use at all: visible, of one maker, and known to the installed torch."""

from __future__ import annotations

from engine.contract.findings import Finding
from wizard.advice.reasons import count_of, finding, short_name
from wizard.hardware.inventory import Accelerator, HardwareInventory

#: torch's CUDA wheels carry no kernels below this. Source: the release notes of torch 2.0 (Kepler dropped) and of
#: CUDA 13 (Maxwell, Pascal, Volta dropped).
_OLDEST = (5, 0)
_OLDEST_CUDA_13 = (7, 5)


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
        vendor for vendor in ("nvidia", "amd", "intel", "ascend", "apple") if any(d.vendor == vendor for d in visible)
    ]
    devices = [device for device in visible if device.vendor == order[0]] if order else []
    if devices and not _torch_can(devices[0].vendor, inventory, findings):
        return []
    return [device for device in devices if _kernels_for(device, inventory, findings)]


def _torch_can(vendor: str, inventory: HardwareInventory, findings: list[Finding]) -> bool:
    build = inventory.software.torch
    if build is None or vendor in ("apple", "ascend"):  # not installed here: another machine, or an unknown build
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
    return False


def _kernels_for(device: Accelerator, inventory: HardwareInventory, findings: list[Finding]) -> bool:
    capability = device.capability
    if device.vendor != "nvidia" or capability is None:
        return True
    build = inventory.software.torch
    cuda = _version(build.cuda if build else None)
    oldest = _OLDEST_CUDA_13 if cuda and cuda >= (13, 0) else _OLDEST
    too_new = cuda is not None and cuda < (12, 8) and capability >= (10, 0)
    if capability >= oldest and not too_new:
        if build is None and capability >= (10, 0):
            findings.append(
                finding(
                    "gpu-arch-not-in-torch-build",
                    "possible",
                    f"{short_name(device)} needs a torch built for CUDA 12.8 or newer",
                    "compute capability",
                    f"{device.compute_capability}",
                    ["choose a torch wheel for cu128 or newer"],
                )
            )
        return True
    summary = (
        f"{short_name(device)} (compute capability {device.compute_capability}) needs torch for CUDA 12.8 or newer"
        if too_new
        else f"{short_name(device)} (compute capability {device.compute_capability}) is too old for present torch"
    )
    findings.append(
        finding(
            "gpu-arch-not-in-torch-build",
            "certain" if build else "likely",
            summary,
            "compute capability",
            f"GPU {device.index}: {device.compute_capability}; "
            f"torch {build.version if build else 'not installed here'}",
            ["install a torch wheel for cu128 or newer"]
            if too_new
            else [
                "train on the CPU, or on another GPU",
                "a torch of 1.12 or older still has kernels for it, but this program does not run on that",
            ],
        )
    )
    return False


def _version(text: str | None) -> tuple[int, ...] | None:
    parts = (text or "").split(".")[:2]
    return tuple(int(part) for part in parts) if parts[0].isdigit() and all(part.isdigit() for part in parts) else None
