from __future__ import annotations

import pytest

from tests.cluster.commands import Workshop


@pytest.fixture
def workshop(tmp_path):
    made = Workshop(tmp_path)
    yield made
    made.close()
