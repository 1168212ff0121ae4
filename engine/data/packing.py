"""How documents become sequences: cut, split or packed. Pure arithmetic on lengths."""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass

import numpy as np

from engine.data.order import permutation

#: Measured against padding to the longest of the batch, packing trains nearly full sequences at 0.89 of the speed
#: (its attention needs a mask) and gains in proportion to the padding it saves, so it pays below a fill of 0.89;
#: below this one it pays by a margin.
FILL_TO_PACK = 0.8
#: A smaller batch leaves a device idle, so that what it does not pad is not worth much.
_SMALLEST_BATCH = 4
#: Packing must leave an epoch at least this many steps, else a small data set trains in one or two huge ones.
FEWEST_STEPS = 8


@dataclass(frozen=True)
class Layout:
    """Sequences as slices of documents, in the order in which they are stored.

    Slice i takes `lengths[i]` tokens from position `starts[i]` of the flat documents. The slices follow each other,
    and sequence s holds the stored positions `edges[s]` to `edges[s + 1]`. All int64.
    """

    starts: np.ndarray
    lengths: np.ndarray
    edges: np.ndarray


def cut(starts: np.ndarray, lengths: np.ndarray, max_length: int) -> Layout:
    """All documents joined and cut every `max_length` tokens, wherever that falls: nothing is padded.

    The last sequence is shorter and stays: a small text needs every token, and collating pads it. Documents hold at
    least two tokens, so only that last one could be without a target, and is then left out.
    """
    total = int(lengths.sum())
    edges = np.arange(0, total, max_length, dtype=np.int64)
    end = total - 1 if total % max_length == 1 else total
    lengths = lengths.copy()
    if end < total:
        lengths[-1] -= 1
        edges = edges[:-1]
    return Layout(starts, lengths, np.append(edges, end))


def split(starts: np.ndarray, lengths: np.ndarray, max_length: int) -> Layout:
    """Each document by itself, in pieces of at most `max_length`; a last piece of one token has no target and is left out."""
    counts = -(-lengths // max_length)
    document = np.repeat(np.arange(len(lengths)), counts)
    number = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    piece_lengths = np.minimum(max_length, lengths[document] - number * max_length)
    kept = piece_lengths > 1
    return each((starts[document] + number * max_length)[kept], piece_lengths[kept])


def each(starts: np.ndarray, lengths: np.ndarray) -> Layout:
    """Each slice is a sequence."""
    return Layout(starts, lengths, np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64))


def best_fit(starts: np.ndarray, lengths: np.ndarray, max_length: int) -> Layout:
    """Whole documents, each of at most `max_length` tokens, packed into sequences of at most `max_length`.

    Best fit decreasing: the longest first, each into the sequence where it leaves the least room (Johnson,
    "Near-optimal bin packing algorithms", 1973: at most 11/9 of the optimum; on real lengths a few percent).
    """
    order = np.argsort(-lengths, kind="stable")
    open_by_room: dict[int, list[int]] = {}
    rooms: list[int] = []  # those with an open sequence, ascending; never more than max_length
    bins: list[list[int]] = []
    for document in order.tolist():
        length = int(lengths[document])
        at = bisect_left(rooms, length)
        if at < len(rooms):
            room = rooms[at]
            stack = open_by_room[room]
            chosen = stack.pop()
            if not stack:
                del rooms[at], open_by_room[room]
            bins[chosen].append(document)
        else:
            chosen, room = len(bins), max_length
            bins.append([document])
        left = room - length
        if left:
            if left not in open_by_room:
                open_by_room[left] = []
                insort(rooms, left)
            open_by_room[left].append(chosen)
    placed = np.array([document for members in bins for document in members], dtype=np.int64)
    sizes = np.array([len(members) for members in bins], dtype=np.int64)
    ends = np.cumsum(lengths[placed])
    return Layout(starts[placed], lengths[placed], np.concatenate([[0], ends[np.cumsum(sizes) - 1]]).astype(np.int64))


def fill_unpacked(lengths: np.ndarray, micro_batch: int, seed: int) -> float:
    """The share of computed positions that are not padding when batches are padded to their longest sequence."""
    batch = max(micro_batch, _SMALLEST_BATCH)
    shuffled = lengths[permutation(len(lengths), seed, 0)[:200_000]]
    whole = len(shuffled) // batch * batch
    if not whole:
        return float(shuffled.mean() / shuffled.max())
    table = shuffled[:whole].reshape(-1, batch)
    return float(table.sum() / (table.max(axis=1) * batch).sum())


def decide(lengths: np.ndarray, max_length: int, micro_batch: int, global_batch: int, seed: int) -> tuple[bool, str]:
    """Whether to pack, and why. `lengths` are those of the sequences without packing."""
    fill = fill_unpacked(lengths, micro_batch, seed)
    if fill >= FILL_TO_PACK:
        return False, f"batches are {fill:.0%} full without it, and its attention mask costs more than that padding"
    steps = int(lengths.sum()) / max_length / global_batch
    if steps < FEWEST_STEPS:
        return False, (f"the data is small: packed, an epoch would be {steps:.1f} steps of {global_batch} sequences")
    return True, f"without it {1 - fill:.0%} of each batch would be padding"
