from __future__ import annotations

import pytest

from tests.cluster.commands import Workshop
from tests.system.disk import small_disk
from tests.system.machines import Machines, MachinesWorkshop
from tests.system.needs import require


@pytest.fixture
def machines():
    require("network")
    with Machines() as two:
        yield two


@pytest.fixture
def cluster(tmp_path, machines):
    made = MachinesWorkshop(tmp_path, machines)
    yield made
    made.close()


@pytest.fixture
def workshop(tmp_path):
    made = Workshop(tmp_path)
    yield made
    made.close()


@pytest.fixture
def disk(tmp_path):
    """A small disk where the runs of `workshop` go."""
    require("mount")
    with small_disk(tmp_path / "runs") as made:
        yield made
