"""Labels: names or whole numbers in the data, class numbers in the model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from engine.contract.problems import nearest_key, shown
from engine.data.order import permutation
from engine.data.rejects import RowProblem
from engine.data.workspace import VALID_STREAM
from engine.errors import DataError

#: More classes than this, each with hardly a row, are no classes but a number or a text in the wrong column.
_FEW_CLASSES = 50


def read_label(value: Any, column: str, names: list[str] | None) -> str:
    """A label as the name of its class. `names`: the data set's own names of whole numbers.

    Raises RowProblem when it is missing, or neither a name nor a whole number.
    """
    if value is None or (isinstance(value, str) and not value.strip()):
        raise RowProblem(f"its {column} is empty: it has no label")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int):
        if names is None:
            return str(value)
        if not 0 <= value < len(names):
            raise RowProblem(f"its {column} is {value}; the data set has names for 0 to {len(names) - 1}")
        return names[value]
    if isinstance(value, str):
        return value.strip()
    raise RowProblem(f"its {column} is {shown(value)}, neither a name nor a whole number")


def ordered_classes(names: Iterable[str], known: Mapping[str, Any] | None) -> list[str]:
    """The classes in the order of their numbers.

    `known` is the model's own label2id: a model that already tells these classes keeps its numbers, and so what its
    head has learned. Otherwise whole numbers are in their order, names in that of the alphabet.
    """
    found = set(names)
    if known and found <= set(known) and sorted(known.values()) == list(range(len(known))):
        return sorted(known, key=lambda name: known[name])
    if all(_is_number(name) for name in found):
        return sorted(found, key=lambda name: (int(name), name))
    return sorted(found)


def check_classes(counts: Counter[str], column: str, source: str) -> None:
    """Raises DataError when there is nothing to tell apart, or hardly a row for each class."""
    rows = sum(counts.values())
    if len(counts) == 1:
        raise DataError(f"data.train: all {rows:,} rows of {source} have the same {column}, {shown(next(iter(counts)))}; "
                        "classification needs rows of at least two classes.")
    if len(counts) > _FEW_CLASSES and len(counts) * 2 > rows:
        examples = ", ".join(shown(name, 30) for name in list(counts)[:3])
        raise DataError(f"data.train: the column {column!r} of {source} has {len(counts):,} different values in {rows:,} rows "
                        f"({examples}, ...), so it hardly holds classes. Name the right one with data.columns: "
                        "{label: NAME}.")


def class_number(name: str, numbers: Mapping[str, int], column: str) -> int:
    """The number of a class. Raises RowProblem for one that the training rows do not have."""
    if name in numbers:
        return numbers[name]
    near = nearest_key(name, list(numbers))
    listed = ", ".join(shown(known, 30) for known in list(numbers)[:10]) + (", ..." if len(numbers) > 10 else "")
    raise RowProblem(f"its {column} is {shown(name)}, which no row of data.train has; the classes are {listed}"
                     f"{f' (did you mean {shown(near)}?)' if near else ''}")


def stratified(labels: np.ndarray, share: float, seed: int) -> np.ndarray:
    """Which rows to hold out (bool): about `share` of each class, at least one of each that has two, never all of one.

    Rounded by the largest remainders, so that the classes together come as near to `share` as each allows.
    """
    counts = np.bincount(labels)
    wanted = counts * share
    take = np.floor(wanted).astype(np.int64)
    missing = round(float(wanted.sum())) - int(take.sum())
    take[np.argsort(take - wanted, kind="stable")[:missing]] += 1
    take = np.minimum(np.maximum(take, counts >= 2), np.maximum(counts - 1, 0))
    order = permutation(len(labels), seed, VALID_STREAM)
    held = np.zeros(len(labels), dtype=bool)
    for number, count in enumerate(take):
        held[order[labels[order] == number][:count]] = True
    return held


def _is_number(name: str) -> bool:
    return name.removeprefix("-").isdecimal()
