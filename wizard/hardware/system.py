"""The operating system: Linux, WSL, Windows or macOS; container; virtual machine; IOMMU."""

from __future__ import annotations

import platform
import re

from wizard.hardware.inventory import Platform
from wizard.hardware.sources import Probed, Sources

_NAMES = {"Linux": "linux", "Windows": "windows", "Darwin": "macos"}


def probe_platform(sources: Sources) -> Probed:
    system = _NAMES.get(sources.system or platform.system(), "other")
    release = sources.read("/proc/sys/kernel/osrelease") if system == "linux" else platform.release()
    flags = sources.read("/proc/cpuinfo") or ""
    return Probed(
        {
            "platform": Platform(
                system=system,
                release=release,
                architecture=platform.machine() or None,
                wsl=_wsl(release),
                container=_container(sources),
                virtual=" hypervisor" in flags if flags else None,
                iommu=_iommu(sources.read("/proc/cmdline")),
                **_limits(sources.read("/proc/self/limits")),
            )
        }
    )


def _wsl(release: str | None) -> int | None:
    """WSL2 runs a kernel named `...-microsoft-standard-WSL2`; WSL1 reports `...-Microsoft`."""
    if not release or "microsoft" not in release.lower():
        return None
    return 2 if "wsl2" in release.lower() or "microsoft-standard" in release.lower() else 1


def _container(sources: Sources) -> str | None:
    if "KUBERNETES_SERVICE_HOST" in sources.environ:
        return "kubernetes"
    if sources.exists("/.dockerenv"):
        return "docker"
    if sources.exists("/run/.containerenv"):
        return "podman"
    if "APPTAINER_CONTAINER" in sources.environ or "SINGULARITY_CONTAINER" in sources.environ:
        return "apptainer"
    groups = sources.read("/proc/1/cgroup") or ""
    found = re.search(r"(docker|kubepods|lxc|containerd|libpod)", groups)
    return {"kubepods": "kubernetes", "libpod": "podman"}.get(found[1], found[1]) if found else None


def _limits(text: str | None) -> dict[str, int]:
    """Soft limits of this process, which ranks inherit: locked memory (-1 for none) and open files."""
    found = {}
    for name, field in (("Max locked memory", "memlock_bytes"), ("Max open files", "open_files")):
        line = re.search(rf"^{name}\s+(unlimited|\d+)", text or "", re.M)
        if line:
            found[field] = -1 if line[1] == "unlimited" else int(line[1])
    return found


def _iommu(command_line: str | None) -> str | None:
    """`pt` (pass-through), `on`, `off`, `default` where the command line says nothing; None where it is not known."""
    if command_line is None:
        return None
    said = re.findall(r"(?:^|\s)(?:amd_|intel_)?iommu=(\S+)", command_line)
    values = [value for item in said for value in item.split(",")]
    return next((value for value in ("pt", "off", "on") if value in values), "default")
