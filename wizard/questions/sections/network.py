"""How the ranks work together: machines, strategy, backend."""

from __future__ import annotations

from wizard.questions.context import Context
from wizard.questions.question import Answer, Choice, Invalid, Question, whole


def _several_ranks(context: Context) -> bool:
    return context.ranks is None or context.ranks > 1


def _several_nodes(context: Context) -> bool:
    return (context.values.get("distributed.num_nodes") or 1) > 1


def _address(text: str) -> str:
    if any(letter.isspace() for letter in text) or "/" in text:
        raise Invalid(f"{text!r} is not an address; give an IP like 10.0.0.2, or a host name.")
    if text.startswith("127.") or text in ("localhost", "::1"):
        raise Invalid(f"{text} is this machine for everyone; give the address the other machines reach it by.")
    return text


def _strategy_default(context: Context) -> Answer:
    given = context.given("distributed.strategy", starter=False)
    return given or context.recommended("distributed.strategy", "strategy", otherwise="auto")


def _strategy_choices(context: Context) -> list[Choice]:
    found = [
        Choice("ddp", "DDP", "a whole copy on each GPU; gradients are averaged"),
        Choice("fsdp", "FSDP", "weights, gradients and optimizer split over the GPUs; for models that do not fit"),
    ]
    default = _strategy_default(context).value
    if default not in [choice.value for choice in found]:
        found.insert(0, Choice(default, "single" if default == "single" else "decided at the launch"))
    return found


def _backend_default(context: Context) -> Answer:
    given = context.given("distributed.backend", starter=context.on_cpu)
    if given and given.origin == "default":
        reason = context.reason("backend")
        return Answer(given.value, "default", reason or given.note)
    return given or context.recommended("distributed.backend", "backend", otherwise="auto")


def _backend_choices(context: Context) -> list[Choice]:
    no_gpu = "needs a GPU for each rank" if context.on_cpu else None
    found = [
        Choice("nccl", "NCCL", "NVIDIA's library (on AMD: RCCL): GPU to GPU over NVLink, PCIe, InfiniBand", no_gpu),
        Choice("gloo", "Gloo", "general purpose, over TCP; right for CPUs, slow for GPUs"),
    ]
    default = _backend_default(context).value
    if default not in ("nccl", "gloo"):
        label = {"auto": "decided at the launch", "xccl": "oneCCL", "hccl": "HCCL"}.get(default, str(default))
        found.insert(0, Choice(default, label, "what this machine's accelerators need" if default != "auto" else ""))
    return found


def _backend_check(value: str, context: Context) -> str | None:
    if value == "nccl" and context.on_cpu:
        return "NCCL moves data between GPUs and none takes part here; Gloo is the one that works."
    return None


def _backend_preset(value: str, context: Context) -> dict[str, str]:
    """On CPUs there is one strategy to go with several ranks, and it is not asked for."""
    return {"distributed.backend": value} | ({"distributed.strategy": "ddp"} if context.on_cpu and value == "gloo" else {})


def _interfaces(context: Context) -> str:
    names = context.interfaces
    return f"Found: {', '.join(names)}." if names else ""


NODES = Question(
    key="distributed.num_nodes", section="Network", kind="number",
    title="How many machines train together?",
    help="1 is this machine alone. With more, each machine runs the same preset, they meet at the first one's address, and "
         "the network between them becomes part of every step.",
    default=lambda c: c.given("distributed.num_nodes", starter=False) or Answer(1, "default", "this machine alone"),
    parse=whole(1, 4096), placeholder="1", preset=lambda value, c: {"distributed.num_nodes": value if value > 1 else None},
)

ADDRESS = Question(
    key="distributed.main_address", section="Network", kind="text",
    title="At which address do they meet?",
    help="The address of the first machine, as the others reach it. An IP address is safest: many systems resolve their "
         "own host name to 127.0.1.1, and then nobody else can find them.",
    default=lambda c: c.given("distributed.main_address", starter=False) or Answer(None, "default"),
    when=_several_nodes, parse=_address, placeholder="10.0.0.2",
)

INTERFACE = Question(
    key="distributed.network_interface", section="Network", kind="text",
    title="Over which network interface?",
    help="The interface whose route leads to the other machines. Left empty, it is found at the launch. Naming it "
         "prevents the commonest failure of a cluster: ranks that offer an address nobody can reach.",
    default=lambda c: (c.given("distributed.network_interface", starter=False)
                       or c.recommended("distributed.network_interface", "network")),
    when=_several_nodes, note=_interfaces, required=False, keep_unasked=True, placeholder="found at the launch",
)

STRATEGY = Question(
    key="distributed.strategy", section="Network", kind="choice",
    title="How do the GPUs share the work?",
    help="DDP is the fastest where the model fits on each GPU with its gradients and optimizer. Sharding (FSDP) "
         "trades communication for memory, so it trains models that fit on none of them alone.",
    default=_strategy_default, choices=_strategy_choices, when=lambda c: _several_ranks(c) and not c.on_cpu,
)

BACKEND = Question(
    key="distributed.backend", section="Network", kind="choice",
    title="Which library carries the gradients?",
    help="After each step the ranks average their gradients; the backend moves them. NCCL goes straight from GPU to GPU. "
         "Gloo goes through main memory and TCP: the one for CPUs, and correct but slow between GPUs.",
    default=_backend_default, choices=_backend_choices, when=_several_ranks, check=_backend_check,
    keys=("distributed.backend", "distributed.strategy"), preset=_backend_preset,
)
