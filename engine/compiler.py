"""torch.compile, and the question whether it can work here at all."""

from __future__ import annotations

from typing import Any

import torch

from engine.errors import PresetMismatch

#: The longest a compilation may take before it counts as hung, in seconds.
LIMIT_S = 3600.0


def check_compiler(device: torch.device) -> None:
    """Compile something tiny as the model will be. Raises PresetMismatch with the reason when that fails here.

    torch finds out at the first forward pass only, with a long traceback: no C++ compiler, no headers of Python, no
    Triton for the GPU.
    """
    try:
        torch.compile(lambda x: torch.nn.functional.gelu(x) * 2)(torch.ones(16, device=device))
    except Exception as error:
        needs = "a C++ compiler (g++ or clang++) and the headers of Python" if device.type == "cpu" else "Triton and a C compiler"
        raise PresetMismatch(f"training.compile: torch cannot compile on this machine: {_reason(error)}. It needs {needs}; "
                             "install what is missing, or set training.compile to false") from error


def forget(model: Any) -> None:
    """Go back to the model as it was written; what follows the training runs too seldom to be compiled."""
    for module in model.modules():
        module._compiled_call_impl = None


def _reason(error: BaseException) -> str:
    """The first telling line of the innermost error; torch wraps it twice and adds advice about its debugging."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = [line for line in lines if "error" in line.lower() or "not found" in line.lower()]
    return (telling or lines or [type(error).__name__])[0][:300]
