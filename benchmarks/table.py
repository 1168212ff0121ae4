"""Results as a table for people and as JSON for programs."""

from __future__ import annotations

import json
import os
import platform
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from benchmarks.measure import Result
from engine.contract.atomic import write_text_atomic

_COLUMNS = ("benchmark", "what", "against", "ratio", "quartiles", "n", "aim", "")
_PACKAGES = ("torch", "accelerate", "transformers", "textual")


def lines(results: dict[str, list[Result] | str]) -> list[str]:
    """A Markdown table that also reads well in a terminal. A string instead of results says why there are none."""
    rows: list[tuple[str, ...]] = [_COLUMNS]
    for name, found in results.items():
        if isinstance(found, str):
            rows.append((name, found, "", "", "", "", "", ""))
            continue
        for result in found:
            low, high = result.spread
            rows.append((name, result.what, result.of, _number(result.middle, result), f"{_number(low, result)} to {_number(high, result)}",
                         str(len(result.ratios)), f"<= {_number(result.aim, result)}" if result.aim is not None else "", result.verdict))
    widths = [max(3, *(len(row[column]) for row in rows)) for column in range(len(_COLUMNS))]
    text = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows]
    text.insert(1, "| " + " | ".join("-" * width for width in widths) + " |")
    return text


def notes(results: dict[str, list[Result] | str]) -> list[str]:
    return [f"{name}: {result.what}: {result.note}" for name, found in results.items() if not isinstance(found, str)
            for result in found if result.note]


def write(path: Path, results: dict[str, list[Result] | str], load_before: list[float]) -> None:
    """Everything measured, with the machine it was measured on. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    record = {"v": 1, "t_unix_s": round(time.time(), 3), "machine": {**machine(), "load_before": load_before, "load_after": load()},
              "benchmarks": {name: {"skipped": found} if isinstance(found, str) else [result.record() for result in found]
                             for name, found in results.items()}}
    write_text_atomic(path, json.dumps(record, indent=1))


def machine() -> dict[str, Any]:
    versions = {}
    for name in _PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = None
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {"cpu": _cpu(), "cores": cores, "system": f"{platform.system()} {platform.machine()}",
            "python": platform.python_version(), "versions": versions}


def load() -> list[float]:
    """Processes that want to run, over 1, 5 and 15 minutes; empty where the system does not tell."""
    return [round(value, 2) for value in os.getloadavg()] if hasattr(os, "getloadavg") else []


def _number(value: float, result: Result) -> str:
    return f"{value * 100:.1f} %" if result.percent else f"{value:.3f}"


def _cpu() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            return next(line.partition(":")[2].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
