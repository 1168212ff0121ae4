"""How much of this machine the training gets."""

from __future__ import annotations

from wizard import formatting
from wizard.questions import wording
from wizard.questions.context import Context
from wizard.questions.question import Answer, Choice, Question, whole


def _machine(context: Context) -> str:
    return wording.found(wording.machine(context.inventory))


def _gpu_default(context: Context) -> Answer:
    return (context.given("distributed.num_gpus_per_node", starter=False)
            or context.recommended("distributed.num_gpus_per_node", "devices", otherwise=context.gpus))


def _gpu_choices(context: Context) -> list[Choice]:
    counts = sorted({context.gpus, *(n for n in (1, 2, 4, 8, 16) if n < context.gpus)}, reverse=True)
    given = context.preset.get("distributed.num_gpus_per_node")
    if isinstance(given, int) and given not in (0, *counts):
        counts.insert(0, given)
    found = []
    for number in counts:
        detail = "all of them" if number == context.gpus > 1 else ""
        impossible = f"this machine has {context.gpus}" if number > context.gpus else None
        found.append(Choice(number, f"{number} GPU" + ("s" if number > 1 else ""), detail, impossible))
    return [*found, Choice(0, "CPU only", "leaves the GPUs to others; much slower")]


def _process_default(context: Context) -> Answer:
    given = context.given("distributed.num_processes_per_node")
    if given and given.origin == "default":
        return Answer(given.value, "default", "as in the quickstart: to see ranks work together, not because it is faster")
    return given or context.recommended("distributed.num_processes_per_node", "processes", otherwise=1)


def _process_check(value: int, context: Context) -> str | None:
    cores = context.cores
    if cores and value > 2 * cores:
        return f"{value} ranks on {formatting.count(cores)} cores would wait for each other; give at most {2 * cores}."
    return None


GPUS = Question(
    key="distributed.num_gpus_per_node", section="Machine", kind="choice",
    title="How many of the GPUs may it use?",
    help="One training process (a rank) runs on each GPU. More GPUs share the batch and have to exchange gradients after "
         "every step, so a small model can be faster on fewer of them.",
    default=_gpu_default, choices=_gpu_choices, when=lambda c: c.gpus > 0, note=_machine,
)

PROCESSES = Question(
    key="distributed.num_processes_per_node", section="Machine", kind="number",
    title="How many processes (ranks) share this CPU?",
    help="Each rank holds a copy of the model and trains on its share of the batch. On one small machine two ranks are "
         "not faster than one, since they share the same cores; they do show how several machines would work together.",
    default=_process_default, when=lambda c: c.on_cpu, check=_process_check, note=_machine, parse=whole(1, 1024),
    placeholder="2", keys=("distributed.num_processes_per_node", "distributed.num_gpus_per_node"),
    # without GPUs here there is nothing to say about them: the preset stays usable on a machine that has some
    preset=lambda value, c: {"distributed.num_gpus_per_node": 0, "distributed.num_processes_per_node": value},
)
