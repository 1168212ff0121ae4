"""Global batch, micro-batch and accumulation: the global batch is kept as asked, the rest follows from memory."""

from __future__ import annotations

from collections.abc import Callable

from engine.contract.batch import derive_batch
from engine.contract.findings import Decision, Finding
from engine.contract.problems import PresetError
from wizard.advice.reasons import asked, finding
from wizard.facts.data import DataFacts
from wizard.questions.needs import TrainingNeeds

#: Tokens in one forward pass beyond which a device gains nothing more from a larger micro-batch.
_TOKENS_GPU, _TOKENS_CPU = 16384, 4096
#: Tokens a step to aim at when training from scratch on GPUs.
_TOKENS_A_STEP = 65536
#: Optimizer steps an epoch should have at least, so that the schedule has room.
_STEPS_AN_EPOCH = 20
#: Micro-batch where memory cannot be foreseen.
_CAREFUL = 2


def default_global(
    needs: TrainingNeeds, cpu: bool, world: int, max_length: int, data: DataFacts | None, packing: object
) -> tuple[int, str]:
    """(sequences a step, reason), a multiple of `world`."""
    if cpu:
        base, why = 16, "usual for small machines"
    elif needs.task == "llm-pretrain" and needs.from_scratch:
        base, why = max(32, _TOKENS_A_STEP // max_length), f"about {_TOKENS_A_STEP:,} tokens a step, from scratch"
    else:
        base, why = 32, "usual for fine-tuning"
    if data is not None and data.rows and packing is not True and data.rows // base < _STEPS_AN_EPOCH:
        base = max(1, data.rows // _STEPS_AN_EPOCH)
        why = f"{data.rows:,} rows are few: at least {_STEPS_AN_EPOCH} steps an epoch"
    return max(world, -(-base // world) * world), why


def largest_micro(per_rank: int | None, max_length: int, cpu: bool, fits: Callable[[int], bool | None]) -> int:
    """The largest micro-batch that divides `per_rank` (any power of two where None), is worth it, and fits."""
    most = max(1, (_TOKENS_CPU if cpu else _TOKENS_GPU) // max_length)
    if per_rank is None:
        candidates = [2**power for power in range(10) if 2**power <= most]
    else:
        candidates = [size for size in range(1, min(most, per_rank) + 1) if per_rank % size == 0]
    known = [size for size in candidates if fits(size)]
    if known:
        return known[-1]
    unknown = [size for size in candidates if fits(size) is None]
    return max([size for size in unknown if size <= _CAREFUL], default=1)


def plan_batch(
    needs: TrainingNeeds,
    world: int,
    cpu: bool,
    max_length: int,
    data: DataFacts | None,
    packing: object,
    fits: Callable[[int], bool | None],
) -> tuple[tuple[int, int, int], str]:
    """((global, micro, accumulation), reason). Numbers that the person fixed stay, also where they do not agree."""
    given_global, given_micro, given_steps = (
        int(value) if asked(value) else None
        for value in (needs.global_batch, needs.micro_batch, needs.gradient_accumulation)
    )
    if sum(value is not None for value in (given_global, given_micro, given_steps)) >= 2:
        try:
            return derive_batch(given_global, given_micro, given_steps, world), "as set"
        except PresetError:  # reported by `batch_findings`; the numbers stay as they are
            micro = given_micro or max(1, given_global // (world * given_steps))
            steps = given_steps or max(1, given_global // (world * micro))
            return (
                given_global or micro * steps * world,
                micro,
                steps,
            ), "as set, though the numbers do not agree"
    if given_global is not None:
        if given_global % world:
            micro = 1
            return (
                given_global,
                micro,
                max(1, given_global // world),
            ), f"{given_global} as set, which {world} ranks do not divide"
        per_rank = given_global // world
        micro = largest_micro(per_rank, max_length, cpu, fits)
        return (given_global, micro, per_rank // micro), f"{given_global} as set"
    target, why = default_global(needs, cpu, world, max_length, data, packing)
    if given_micro is not None:
        steps = max(1, round(target / (given_micro * world)))
        return (given_micro * steps * world, given_micro, steps), f"micro-batch as set; {why}"
    if given_steps is not None:
        per_rank = max(1, target // (world * given_steps))
        micro = largest_micro(per_rank, max_length, cpu, fits)
        return (micro * given_steps * world, micro, given_steps), f"accumulation as set; {why}"
    per_rank = target // world
    micro = largest_micro(per_rank, max_length, cpu, fits)
    return (target, micro, per_rank // micro), why


def decide_batch(plan: tuple[int, int, int], why: str, world: int, max_length: int, fits: bool | None) -> Decision:
    total, micro, steps = plan
    room = {
        True: "the micro-batch fits into memory",
        False: "even so it does not fit into memory",
        None: "whether a larger micro-batch fits is not known",
    }[fits]
    parts = f"{micro} x {steps} accumulation" + (f" x {world} ranks" if world > 1 else "")
    return Decision(
        value={"global_batch": total, "micro_batch": micro, "gradient_accumulation": steps, "world_size": world},
        reason=f"{parts} = {micro * steps * world} sequences a step ({why}); {room}",
        confidence="high" if why.startswith("as set") and fits else "fair" if fits is not False else "low",
        facts=[f"at most {micro * steps * world * max_length:,} tokens a step"],
    )


def batch_findings(needs: TrainingNeeds, plan: tuple[int, int, int], world: int) -> list[Finding]:
    total, micro, steps = plan
    if micro * steps * world == total:
        return []
    nearest = max(1, round(total / world)) * world
    return [
        finding(
            "batch-not-divisible",
            "certain",
            f"global batch {total} is not micro-batch {micro} x accumulation {steps} x {world} ranks"
            f" = {micro * steps * world}",
            "preset",
            f"training.global_batch: {total}",
            [f"set training.global_batch to {nearest}, a multiple of {world}"]
            if not asked(needs.micro_batch) and not asked(needs.gradient_accumulation)
            else [f"set training.global_batch to {micro * steps * world}, or leave one of the three open"],
            {
                "training.global_batch": nearest
                if not (asked(needs.micro_batch) or asked(needs.gradient_accumulation))
                else micro * steps * world
            },
        )
    ]
