"""A machine made of files below a folder and of what its commands print."""

from __future__ import annotations

from pathlib import Path

from wizard.hardware.sources import Output, Sources


def machine(
    root: Path,
    files: dict[str, str] | None = None,
    commands: dict[str, str] | None = None,
    environ: dict[str, str] | None = None,
    system: str = "Linux",
) -> Sources:
    """`commands` maps the beginning of a command line to its output; all others are not installed."""
    for name, text in (files or {}).items():
        path = root / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def run(argv: list[str], timeout_s: float) -> Output:
        line = " ".join(argv)
        for start, text in (commands or {}).items():
            if line.startswith(start):
                return Output(text)
        return Output(None, f"{argv[0]} is not installed")

    return Sources(root=root, run=run, environ=environ or {}, system=system)


def cpuinfo(
    sockets: int, cores: int, threads: int = 1, flags: str = "fpu avx2 hypervisor", model: str = "AMD EPYC 7543"
) -> str:
    blocks = []
    for socket in range(sockets):
        for core in range(cores):
            for _ in range(threads):
                blocks.append(
                    f"processor\t: {len(blocks)}\nmodel name\t: {model}\nphysical id\t: {socket}\n"
                    f"core id\t\t: {core}\nflags\t\t: {flags}"
                )
    return "\n\n".join(blocks) + "\n"
