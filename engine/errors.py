"""Errors of the engine that a person can act on; anything else is a fault of ours and keeps its traceback."""

from __future__ import annotations


class EngineError(Exception):
    """Ends the training with one clear message. `kind` is one of those of `ExitReason`."""

    kind = "exception"


class PresetMismatch(EngineError):
    """What was started is not what the preset says."""

    kind = "preset"


class DataError(EngineError):
    """The data cannot be used; names the file, and the row where one row is at fault."""

    kind = "data"


class ModelError(EngineError):
    """The model cannot be loaded or does not fit the task."""

    kind = "model"


class NonFiniteError(EngineError):
    """Loss or gradients are no longer numbers."""

    kind = "non_finite"


class DiskError(EngineError):
    """Something could not be written: full disk, no permission."""

    kind = "disk"
