"""accelerate's own configuration file: how many processes on how many machines somebody planned, and on what."""

from __future__ import annotations

from collections.abc import Iterator

from wizard.hardware.reading.lines import Fact, Paste

SOURCE = "accelerate configuration"


def read_config(paste: Paste) -> Iterator[Fact]:
    if not paste.has(r"^\W*(compute_environment|distributed_type|num_machines|use_cpu)\s*:"):
        return
    for line, match in paste.find(r"^\W*num_machines\s*:\s*(\d+)"):
        yield Fact(("nodes",), int(match[1]), line, SOURCE)
    for line, match in paste.find(r"^\W*num_processes\s*:\s*(\d+)"):
        yield Fact(("ranks",), int(match[1]), line, SOURCE)
    for line, _ in paste.find(r"^\W*use_cpu\s*:\s*true|^\W*distributed_type\s*:\s*MULTI_CPU"):
        yield Fact(("cpu_only",), True, line, SOURCE)
    for line, match in paste.find(r"^\W*main_process_ip\s*:\s*['\"]?([\d.]+)"):
        yield Fact(("main_address",), match[1], line, SOURCE)
