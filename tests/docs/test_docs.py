"""What README and docs/ say is held against the program: commands parse, presets load, links lead somewhere."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from engine.contract.load import known_keys, parse_preset
from wizard.cli import build_parser
from wizard.launch.supported import check_supported

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")


def fences(page: Path) -> list[tuple[str, str]]:
    """(language, text) of the page's fenced blocks."""
    return _FENCE.findall(page.read_text(encoding="utf-8"))


def commands(page: Path) -> list[str]:
    """Every `autotrain-wizard ...` line of shell blocks and inline code, continued lines joined."""
    blocks = [text for language, text in fences(page) if language in ("console", "sh", "bash", "")]
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    found = [line.removeprefix("$ ").strip() for line in lines]
    prose = _FENCE.sub("", page.read_text(encoding="utf-8"))
    found += re.findall(r"`(autotrain-wizard [^`]+)`", prose)
    return [line for line in found if line.startswith("autotrain-wizard")]


def words(command: str) -> list[str]:
    """The words that the program itself gets: without comment, pipe, redirection and chained commands."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars="|<>&;")
    lexer.whitespace_split = True
    kept: list[str] = []
    for word in lexer:
        if set(word) <= set("|<>&;"):
            if word.startswith(">") and kept[-1].isdigit():  # `2> file`
                kept.pop()
            break
        kept.append(word)
    return kept[1:]


def test_there_is_something_to_check():
    assert sum(len(commands(page)) for page in PAGES) > 30
    assert sum(language == "yaml" for page in PAGES for language, _ in fences(page)) > 5


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_parses(page):
    parser = build_parser()
    for command in commands(page):
        said = io.StringIO()
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
            try:
                parser.parse_args(words(command))
            except SystemExit as ended:
                assert not ended.code, f"{page.name}: {command}\n{said.getvalue()}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_preset_loads(page):
    for number, (language, text) in enumerate(fences(page), 1):
        if language != "yaml":
            continue
        if not re.search(r"^version:", text, re.M):  # a part of a preset, shown alone
            text = _completed(text)
        check_supported(parse_preset(text, file=f"{page.name}, block {number}"))


def _completed(part: str) -> str:
    head = ["version: 1", "name: part"]
    for key, line in (("task", "task: llm-sft"), ("model", "model: {path: any/model}"), ("data", "data: {train: rows.jsonl}")):
        if not re.search(rf"^{key}:", part, re.M):
            head.append(line)
    if re.search(r"^data:", part, re.M) and not re.search(r"\btrain:", part):
        part = re.sub(r"^data:\n", "data:\n  train: rows.jsonl\n", part, flags=re.M)
        part = re.sub(r"^data: \{", "data: {train: rows.jsonl, ", part, flags=re.M)
    return "\n".join(head) + "\n" + part


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page):
    for target in _LINK.findall(page.read_text(encoding="utf-8")):
        if "://" in target:
            continue
        file, _, anchor = target.partition("#")
        there = page.parent / file if file else page
        assert there.exists(), f"{page.name}: {target}"
        if anchor:
            assert anchor in _anchors(there), f"{page.name}: {target}"


def _anchors(page: Path) -> set[str]:
    """Anchors of headings, as the usual renderers make them."""
    titles = re.findall(r"^#+ (.+)$", _FENCE.sub("", page.read_text(encoding="utf-8")), re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_what_the_reference_adds_is_about_keys_that_exist():
    spec = importlib.util.spec_from_file_location("docs_reference", ROOT / "docs" / "reference.py")
    reference = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(reference)
    assert not (reference.RESERVED.keys() | reference.MORE.keys()) - set(known_keys())


def test_the_reference_is_that_of_the_schema():
    done = subprocess.run([sys.executable, ROOT / "docs" / "reference.py", "--check"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, f"docs/preset.md is out of date: python docs/reference.py\n{done.stderr}"
