"""From pasted text to an inventory: every reader in turn, then one merge."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pydantic import BaseModel, ConfigDict

from wizard.hardware.inventory import HardwareInventory
from wizard.hardware.reading.amd import read_amd
from wizard.hardware.reading.config import read_config
from wizard.hardware.reading.host import read_host
from wizard.hardware.reading.kernel import read_kernel
from wizard.hardware.reading.lines import Fact, Paste
from wizard.hardware.reading.matrices import read_matrices
from wizard.hardware.reading.merge import merge
from wizard.hardware.reading.nccl_log import read_nccl_log
from wizard.hardware.reading.network import read_network
from wizard.hardware.reading.nvidia_list import read_gpu_lines, read_query
from wizard.hardware.reading.nvidia_query import read_query_blocks
from wizard.hardware.reading.nvidia_table import read_table
from wizard.hardware.reading.others import read_others
from wizard.hardware.reading.plain import read_plain
from wizard.hardware.reading.software import read_software

#: In the order of trust: where two say different things, the first one counts.
READERS: list[Callable[[Paste], Iterator[Fact]]] = [
    read_table, read_query, read_query_blocks, read_matrices, read_amd, read_gpu_lines, read_others, read_nccl_log,
    read_host, read_network, read_kernel, read_software, read_config,
]  # fmt: skip
#: Places that explain the whole line they stand in: a name in it is no further device.
_EXPLAINS = ("gpu", "link", "rdma", "driver", "cpu", "interface", "torch", "package")
#: Nobody pastes more; a file this large is something else.
MOST_CHARACTERS = 4_000_000


class TextReading(BaseModel):
    """What a text says: the machine, and how many of it somebody means to use. None where it does not say."""

    model_config = ConfigDict(extra="forbid")

    inventory: HardwareInventory
    nodes: int | None = None
    ranks: int | None = None
    main_address: str | None = None
    cpu_only: bool = False


def read_text(text: str) -> TextReading:
    """Read any pasted text. Never raises; what nothing could be read from gives an empty inventory."""
    paste = Paste(text[:MOST_CHARACTERS])
    facts: list[Fact] = []
    failed: dict[str, str] = {}
    for reader in READERS:
        try:
            facts += list(reader(paste))
        except Exception as error:  # a fault of a reader must cost its facts, not the answer
            failed[f"text.{reader.__name__}"] = f"the reader failed ({type(error).__name__}: {error})"
    taken = {
        fact.line.number
        for fact in facts
        if fact.place[0] in _EXPLAINS and fact.source not in ("text", "processor's model") and _names_devices(fact)
    }
    facts += read_plain(paste, taken)
    first: dict[tuple, Fact] = {}
    for fact in facts:
        first.setdefault(fact.place, fact)

    def value(name: str):
        return first[name,].value if (name,) in first else None

    inventory = merge(facts)
    inventory.unknown |= failed
    if not facts:
        inventory.unknown["text"] = "nothing in it could be read as a description of a machine"
    return TextReading(
        inventory=inventory,
        nodes=value("nodes"),
        ranks=value("ranks"),
        main_address=value("main_address"),
        cpu_only=bool(value("cpu_only")) and not inventory.accelerators,
    )


def _names_devices(fact: Fact) -> bool:
    """A line of a list, table or matrix is explained; one that a driver's version was found in is not."""
    return fact.place[0] in ("gpu", "link", "rdma", "interface") or fact.source == "lscpu"
