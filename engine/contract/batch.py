"""Global batch, micro-batch and gradient accumulation: any two give the third."""

from __future__ import annotations

from engine.contract.problems import PresetError, Problem


def derive_batch(global_batch: int | None, micro_batch: int | None, gradient_accumulation: int | None,
                 world_size: int) -> tuple[int, int, int]:
    """(global_batch, micro_batch, gradient_accumulation) with global = micro x accumulation x world_size.

    At least two of the three must be given. Raises PresetError when they do not divide or do not agree.
    """
    if None not in (global_batch, micro_batch, gradient_accumulation):
        if global_batch != micro_batch * gradient_accumulation * world_size:
            _fail("training.global_batch", f"{global_batch}, but micro_batch {micro_batch} x gradient_accumulation "
                  f"{gradient_accumulation} x {world_size} ranks is {micro_batch * gradient_accumulation * world_size}",
                  "three numbers that agree, or two of them")
        return global_batch, micro_batch, gradient_accumulation
    if global_batch is None:
        return micro_batch * gradient_accumulation * world_size, micro_batch, gradient_accumulation
    given = "gradient_accumulation" if micro_batch is None else "micro_batch"
    per_rank = (gradient_accumulation if micro_batch is None else micro_batch) * world_size
    if global_batch % per_rank:
        _fail("training.global_batch", f"{global_batch}, which {given} x {world_size} ranks = {per_rank} does not divide",
              f"a multiple of {per_rank} (for example {max(1, round(global_batch / per_rank)) * per_rank})")
    other = global_batch // per_rank
    return (global_batch, other, gradient_accumulation) if micro_batch is None else (global_batch, micro_batch, other)


def _fail(key: str, found: str, expected: str) -> None:
    raise PresetError([Problem(key=key, found=found, expected=expected)])
