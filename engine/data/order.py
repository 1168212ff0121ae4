"""Which sequences each optimizer step sees: a pure function of the seed and the step.

The order is decided for the whole group before it is shared out to ranks, so it depends neither on how many ranks
there are nor on what was done before: the position in the data is the step number alone, and a resumed run needs
nothing else to go on exactly where it stopped.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

#: Steps whose examples are sorted by length together: enough to find like ones, few enough to stay a random mix.
WINDOW_STEPS = 32
_WINDOW_STREAM = 2**41
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def permutation(n: int, seed: int, stream: int) -> np.ndarray:
    """A pseudo-random order of 0..n-1 (int64), the same on every machine and with every version of numpy.

    `stream` gives independent orders for one seed. numpy promises stability of its generators' bits but not of
    `permutation`, and nodes that disagree would train on wrong shares without any error; so the keys are those of
    the splitmix64 generator (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014),
    sorted.
    """
    with np.errstate(over="ignore"):
        start = _mix(_mix(np.array([seed], dtype=np.uint64)) + np.uint64(stream) * _GOLDEN)
        keys = _mix(start + (np.arange(n, dtype=np.uint64) + np.uint64(1)) * _GOLDEN)
    return np.argsort(keys, kind="stable").astype(np.int64, copy=False)


def _mix(z: np.ndarray) -> np.ndarray:
    """The output function of splitmix64: every input bit reaches every output bit."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def grouped_step_indices(lengths: np.ndarray, seed: int, step: int, global_batch: int) -> np.ndarray:
    """Like `step_indices`, with examples of like length together, so that little of a batch is padding.

    Steps that lie whole within an epoch are taken by windows of `WINDOW_STEPS`: the examples of a window are those of
    `step_indices`, sorted by length and cut into its steps, whose order is drawn anew. So an epoch still holds every
    example exactly once, and no step waits for one long text. Within every step the longest come first: ranks that
    compute at the same time have like lengths, and memory is at its peak at once.
    """
    n = len(lengths)
    epoch = step * global_batch // n
    first_whole, beyond = -(-epoch * n // global_batch), (epoch + 1) * n // global_batch
    if not first_whole <= step < beyond:  # it holds the end of one epoch and the beginning of the next
        chosen = step_indices(n, seed, step, global_batch)
        return chosen[np.argsort(-lengths[chosen], kind="stable")]
    first = first_whole + (step - first_whole) // WINDOW_STEPS * WINDOW_STEPS
    steps = min(WINDOW_STEPS, beyond - first)
    window = np.concatenate([step_indices(n, seed, first + at, global_batch) for at in range(steps)])
    by_length = window[np.argsort(-lengths[window], kind="stable")]
    at = int(permutation(steps, seed, _WINDOW_STREAM + first)[step - first])
    return by_length[at * global_batch: (at + 1) * global_batch]


@lru_cache(maxsize=3)
def _epoch(n: int, seed: int, epoch: int) -> np.ndarray:
    order = permutation(n, seed, epoch)
    order.flags.writeable = False
    return order


def step_indices(n: int, seed: int, step: int, global_batch: int) -> np.ndarray:
    """The `global_batch` sequences (int64 indices below `n`) of optimizer step `step`, counted from 0.

    The steps cut an endless stream of epochs, each its own order of all `n` sequences, so every sequence is seen
    exactly once per epoch; a step may hold the end of one epoch and the beginning of the next.
    """
    if n < 1 or global_batch < 1 or step < 0:
        raise ValueError(f"no sequences for step {step}: n={n}, global_batch={global_batch}")
    first = step * global_batch
    parts, missing = [], global_batch
    while missing:
        epoch, at = divmod(first + global_batch - missing, n)
        part = _epoch(n, seed, epoch)[at: at + missing]
        parts.append(part)
        missing -= len(part)
    return np.concatenate(parts)
