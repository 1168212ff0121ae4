"""One tree of errors that a person can act on, and the exit codes they end in."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    OK = 0
    INTERNAL = 1
    USAGE = 2
    INVALID = 3
    PREFLIGHT = 4
    TRAINING_FAILED = 5
    STOPPED = 6
    LOST = 7
    HANGUP = 129
    INTERRUPTED = 130
    TERMINATED = 143


class WizardError(Exception):
    """Ends a command with `message` on stderr and `code`; never with a traceback.

    `message` says what happened and where; `todo` what to do next.
    """

    code = ExitCode.INTERNAL

    def __init__(self, message: str, todo: str | None = None, code: ExitCode | None = None):
        super().__init__(message)
        self.message, self.todo = message, todo
        if code is not None:
            self.code = code

    def __str__(self) -> str:
        return f"{self.message}\n  {self.todo}" if self.todo else self.message


class UsageError(WizardError):
    code = ExitCode.USAGE


class InvalidError(WizardError):
    """The preset, the data or the model cannot be used."""

    code = ExitCode.INVALID


class PreflightError(WizardError):
    """Found before the launch: it would fail."""

    code = ExitCode.PREFLIGHT
