"""What happens to a row that cannot be used: it ends the run, or it is left out and counted."""

from __future__ import annotations

from engine.errors import DataError

#: Reasons kept word for word; the rest is only counted.
_EXAMPLES = 5


class RowProblem(Exception):
    """Why one row cannot be used; whoever knows the row's place turns it into a message."""


class Rejects:
    """Applies `data.on_bad_row`."""

    def __init__(self, on_bad_row: str):
        self.skip = on_bad_row == "skip"
        self.count = 0
        self.examples: list[str] = []

    def add(self, place: str, problem: str) -> None:
        """Count the row at `place`, or raise DataError when bad rows are not to be skipped."""
        message = f"{place}: {problem}"
        if not self.skip:
            raise DataError(f"{message}\nMend the row, or leave such rows out with data.on_bad_row: skip.")
        self.count += 1
        if len(self.examples) < _EXAMPLES:
            self.examples.append(message)
