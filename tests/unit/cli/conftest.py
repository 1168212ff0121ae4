"""A home, a state folder and a current folder of its own for each test."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.delenv("AUTOTRAIN_WIZARD_RUNS", raising=False)
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    return work
