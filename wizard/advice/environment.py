"""Environment variables: each with its reason, none by superstition."""

from __future__ import annotations

from engine.contract.findings import Decision
from wizard.advice.devices import Devices
from wizard.questions.needs import TrainingNeeds

#: What the launcher sets by itself on every machine, from keys of the preset: shown here, not copied into the preset.
BY_LAUNCHER = ("OMP_NUM_THREADS", "GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")
_VISIBLE = {"nvidia": "CUDA_VISIBLE_DEVICES", "amd": "HIP_VISIBLE_DEVICES", "intel": "ZE_AFFINITY_MASK"}


def decide_env(
    devices: Devices, needs: TrainingNeeds, processes: int, threads: int, backend: str, interface: str | None
) -> Decision:
    """The person's own variables win; reasons are in `facts`, one a variable."""
    wanted: dict[str, tuple[str, str]] = {}
    if devices.subset and devices.used and devices.kind in _VISIBLE:
        name = _VISIBLE[devices.kind]
        if devices.slice is not None:
            wanted[name] = (devices.slice.uuid, "a MIG slice is chosen by its UUID")
        else:
            # an index means another device once CUDA sorts by speed; the UUID means the same one always
            by_uuid = devices.kind == "nvidia" and all(device.uuid for device in devices.used)
            chosen = ",".join(device.uuid if by_uuid else str(device.index) for device in devices.used)
            wanted[name] = (chosen, "only the chosen devices are used")
    if processes > 1 or devices.kind == "cpu":
        wanted["OMP_NUM_THREADS"] = (
            str(threads),
            "without it the launcher gives each rank one thread"
            if processes > 1
            else "the usable cores, not those of the whole machine",
        )
    if needs.num_nodes > 1 and interface:
        if backend in ("nccl", "hccl"):
            wanted["NCCL_SOCKET_IFNAME"] = (
                f"={interface}",
                "the interface that leads to the other machines; `=` means this name exactly",
            )
        wanted["GLOO_SOCKET_IFNAME"] = (interface, "the interface that leads to the other machines")
    value = {name: text for name, (text, _) in wanted.items()} | needs.env
    facts = [f"{name}: {why}" for name, (_, why) in wanted.items() if name not in needs.env]
    facts += [f"{name}: as set" for name in needs.env]
    reason = "; ".join(facts) if facts else "nothing: the libraries' own choices are right here"
    return Decision(value=value, reason=reason, confidence="high", facts=facts)
