"""Makes the pictures in `pictures/` again, from the real app: `python docs/pictures.py [wizard] [monitor]`.

The wizard's screens are those of a recorded machine with four A100s, since most machines have none. The monitor's are
of a real training: the quickstart is launched here, photographed while it runs, and at last one of its ranks is
killed. That takes a few minutes. Run it from a checkout with the development packages.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncIterator
from html import unescape
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent
FOLDER = DOCS / "pictures"
MACHINE = DOCS.parent / "tests" / "recorded" / "machines" / "4x-a100-nvlink.json"
WIDE, SMALL = (120, 40), (80, 24)
#: A space as Rich writes it, the width of a character, and a piece of text.
_SPACE, _CELL = "&#160;", 12.2
_TEXT = re.compile(r'(<text class="[^"]*-r\d+") x="([\d.]+)"'
                   r'( y="[\d.]+") textLength="[\d.]+"( [^>]*>)([^<]*)</text>')
#: Words with single spaces between them; the dots of a chart one by one, since their font is another and its width too.
_WORD = re.compile("[\u2801-\u28ff]|[^\\s\u2800-\u28ff]+( [^\\s\u2800-\u28ff]+)*")
#: Background work of the app that must be done before a picture is taken.
_WORKERS = ("machine", "shelf", "facts", "plan")
#: The shape of a model of 1.1 billion parameters, for the screens that reckon with one.
_MODEL = {"model_type": "llama", "vocab_size": 32000, "hidden_size": 2048, "intermediate_size": 5632,
          "num_hidden_layers": 22, "num_attention_heads": 32, "num_key_value_heads": 4,
          "max_position_embeddings": 2048, "torch_dtype": "bfloat16"}


async def wizard_pictures() -> None:
    """Welcome, a question beside its advice, all decisions, the review."""
    async with _app(WIDE) as (app, pilot):
        await _shoot(app, pilot, "welcome")
    _write_examples()
    answers = {"name": "my-dialogues", "task": "llm-sft", "model.path": "./models/chat-1b", "data.train": "./dialogues.jsonl"}
    for size, ending in ((WIDE, ""), (SMALL, "-80x24")):
        async with _app(size, start="new", overrides=answers) as (app, pilot):
            for _ in range(20):
                if app.flow.question.key == "data.train":
                    break
                await pilot.press("enter")
                await _settle(app, pilot)
            await _shoot(app, pilot, f"question{ending}")
            if ending:
                continue
            await pilot.press("f2")
            await _shoot(app, pilot, "advice")
            await pilot.press("escape")
            await _settle(app, pilot)
            await pilot.press("f5")
            await _shoot(app, pilot, "review")


async def monitor_pictures() -> None:
    """A training while it runs, at both sizes, and after one of its ranks was killed."""
    from engine.contract.run_dir import ENDED
    from wizard.launch.liveness import current_status
    from wizard.launch.prepare import prepare
    from wizard.launch.start import start_run
    from wizard.launch.stop import stop_run

    run = start_run(prepare("quickstart"))
    try:
        await _wait_for(lambda: _step(run) >= 120 or current_status(run).state in ENDED)
        for size, ending in ((WIDE, ""), (SMALL, "-80x24")):
            async with _app(size, start=run) as (app, pilot):
                await _wait_for(lambda app=app: app.screen.view is not None)
                await _shoot(app, pilot, f"monitor{ending}")
        victim = next(process for process in run.read_status().processes if process.rank == 1)
        os.kill(victim.pid, signal.SIGKILL)
        await _wait_for(lambda: current_status(run).state in ENDED)
        async with _app(SMALL, start=run) as (app, pilot):
            await _wait_for(lambda: app.screen.view is not None)
            await _shoot(app, pilot, "failed-80x24")
    finally:
        if current_status(run).state not in ENDED:
            stop_run(run, now=True)


def _write_examples() -> None:
    """A model and data in the current folder: only what the wizard looks at, a configuration and rows."""
    model = Path("models/chat-1b")
    model.mkdir(parents=True)
    (model / "config.json").write_text(json.dumps(_MODEL))
    rows = [{"messages": [{"role": "user", "content": f"What is {a} times {b}?"},
                          {"role": "assistant", "content": f"{a} times {b} is {a * b}. " + "One can check it by adding. " * (a % 9)}]}
            for a in range(60) for b in range(60)]
    Path("dialogues.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


@contextlib.asynccontextmanager
async def _app(size: tuple[int, int], **options: Any) -> AsyncIterator[tuple[Any, Any]]:
    from wizard.tui.app import WizardApp

    app = WizardApp(**options)
    async with app.run_test(size=size) as pilot:
        await _settle(app, pilot)
        yield app, pilot


async def _settle(app: Any, pilot: Any) -> None:
    for _ in range(50):
        await pilot.pause(0.05)
        waiting = [worker for worker in app.workers if worker.group in _WORKERS and not worker.is_finished]
        if not waiting:
            break
        await app.workers.wait_for_complete(waiting)
    await pilot.pause(0.2)


async def _shoot(app: Any, pilot: Any, name: str) -> None:
    await _settle(app, pilot)
    FOLDER.mkdir(exist_ok=True)
    svg = _own_fonts(app.export_screenshot(title="autotrain-wizard", simplify=True))
    (FOLDER / f"{name}.svg").write_text(svg + "\n", encoding="utf-8")
    print(f"{name}.svg")


def _own_fonts(svg: str) -> str:
    """The picture with fonts that are there: it must not load one from elsewhere when it is looked at."""
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.S)
    svg = svg.replace("Fira Code", "DejaVu Sans Mono, Menlo, Consolas")
    return _TEXT.sub(_anchored, svg)


def _anchored(match: re.Match[str]) -> str:
    """A piece of text as words that each start where they belong: renderers differ in what they make of spaces."""
    head, x, y, rest, text = match.groups()
    text = text.replace(_SPACE, " ")
    return "".join(
        f'{head} x="{float(x) + len(unescape(text[: word.start()])) * _CELL:g}"{y} '
        f'textLength="{len(unescape(word.group())) * _CELL:g}"{rest}{word.group()}</text>'
        for word in _WORD.finditer(text))


def _step(run: Any) -> int:
    from wizard.monitor.reader import RunReader

    return RunReader(run).poll(budget_s=5.0).step


async def _wait_for(condition: Any, limit_s: float = 600) -> None:
    async with asyncio.timeout(limit_s):
        while not condition():
            await asyncio.sleep(0.5)


def main(names: list[str]) -> None:
    from wizard import session
    from wizard.hardware.inventory import load_inventory
    from wizard.launch import prepare

    # a plain name: it is seen in the pictures
    work = Path(tempfile.gettempdir(), "trainings")
    work.mkdir()
    try:
        os.chdir(work)
        for variable in ("XDG_STATE_HOME", "XDG_CONFIG_HOME"):
            os.environ[variable] = str(work / variable.lower())
        os.environ.pop("AUTOTRAIN_WIZARD_RUNS", None)
        if not names or "monitor" in names:
            asyncio.run(monitor_pictures())
        if not names or "wizard" in names:
            # the app's look at the machine, and the launch's own check of it
            session.read_machine = prepare.read_inventory = lambda: load_inventory(MACHINE)
            sys.executable = "python"  # seen in the exact command, and another one everywhere
            asyncio.run(wizard_pictures())
    finally:
        os.chdir(DOCS)
        shutil.rmtree(work)


if __name__ == "__main__":
    sys.path.insert(0, str(DOCS.parent))
    main(sys.argv[1:])
