"""The wheel: what is in it, and that it works from an environment and a folder that have never seen the checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run([str(part) for part in command], cwd=cwd, env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, cwd=ROOT)
    return next(folder.glob("*.whl"))


def test_it_holds_the_packages_and_the_presets_and_nothing_else(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names if ".dist-info" not in name} == {"engine", "wizard"}
    assert "wizard/presets/shipped/quickstart.yaml" in names
    assert any(name.endswith(".tcss") for name in names)
    assert not [name for name in names if "test" in name or name.endswith(".pyc")]


def test_it_works_in_an_empty_environment_from_another_folder(wheel, tmp_path):
    environment = tmp_path / "env"
    run(sys.executable, "-m", "venv", environment, cwd=tmp_path)
    python = environment / "bin" / "python"
    run(python, "-m", "pip", "install", "-q", "--no-deps", "--no-index", wheel, cwd=tmp_path)
    # the dependencies are lent by path: only .pth files of the environment's own folder are obeyed, so the
    # checkout's editable installation stays unseen
    site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=tmp_path).stdout.strip())
    (site / "lent.pth").write_text(sysconfig.get_path("purelib") + "\n")
    where = run(python, "-c", "import engine, wizard; print(engine.__file__, wizard.__file__)", cwd=tmp_path).stdout
    assert str(ROOT) not in where
    command = environment / "bin" / "autotrain-wizard"
    assert "run" in run(command, "--help", cwd=tmp_path).stdout
    assert "quickstart" in run(command, "presets", "list", cwd=tmp_path).stdout
    plan = run(command, "run", "quickstart", "--dry-run", cwd=tmp_path)
    assert "accelerate.commands.launch" in plan.stdout and str(python) in plan.stdout
    done = run(command, "run", "quickstart", "--plain", "--runs", tmp_path / "runs", "--set", "training.max_steps=2",
               "--set", "training.eval_every=never", cwd=tmp_path)
    assert "finished" in done.stdout
    model = next((tmp_path / "runs").glob("quickstart/*/model"))
    assert (model / "model.safetensors").exists()
