"""What the screens, the prompts and `new` do besides asking: reading, planning, saving. No screen knows how."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from engine.contract import yaml_text
from engine.contract.load import preset_from_data, read_preset_text
from engine.contract.preset import Preset
from engine.contract.problems import PresetError, Problem
from wizard.errors import WizardError
from wizard.hardware.inventory import HardwareInventory
from wizard.paths import runs_root, shipped_presets
from wizard.questions.flow import Facts, Flow
from wizard.questions.needs import flatten
from wizard.questions.question import Question

STARTER = "quickstart"


def read_machine() -> HardwareInventory:
    """The hardware of this machine; may take a few seconds where drivers have to be asked."""
    from wizard.hardware.probe import read_inventory

    return read_inventory()


def starter() -> dict[str, Any]:
    """The training any machine can do at once, as dotted keys."""
    return flatten(_starter_data())


def _starter_data() -> dict[str, Any]:
    return yaml_text.load(read_preset_text(shipped_presets() / f"{STARTER}.yaml"))[0]


def new_flow(inventory: HardwareInventory, ref: str | Path | None = None,
             overrides: Mapping[str, Any] | None = None) -> tuple[Flow, Path]:
    """The questions, and the folder from which relative paths in the answers are seen.

    `ref` names a preset to begin from, `overrides` are values given with `--set`. Raises PresetError or InvalidError
    for a preset that cannot be used.
    """
    overrides = dict(overrides or {})
    if ref is None:
        if overrides:  # all that is wrong with them, before any of it is reckoned with
            preset_from_data(_starter_data(), overrides=overrides)
        return Flow(inventory, starter(), overrides, opened=False), Path.cwd()
    from wizard.presets.find import find_preset

    found = find_preset(ref)
    text = read_preset_text(found.path)
    data, lines = yaml_text.load(text, str(found.path))
    preset = preset_from_data(data, lines, str(found.path), overrides)
    # exactly the keys that were written, so that what was left out stays open
    flat = flatten(data if not overrides else preset.model_dump(exclude_unset=True))
    flat.pop("version", None)
    return Flow(inventory, starter(), flat, text=text), found.base


def read_facts(flow: Flow, kind: Facts, base: Path) -> tuple[Any, Any]:
    """(source, facts) of the model or the data that is chosen now. Raises InvalidError when it cannot be used."""
    source = flow.source(kind)
    return source, look_at(kind, source, base)


def look_at(kind: Facts, source: Any, base: Path) -> Any:
    """Facts of `source`, read off the disk without torch. Raises InvalidError when it cannot be used."""
    if source is None:
        return None
    if kind == "model":
        from wizard.facts.model import read_model_facts

        return read_model_facts(source[0], source[1], base)
    from wizard.facts.data import read_data_facts

    return read_data_facts(source, base)


def typed(question: Question, value: Any, base: Path) -> Any:
    """A path that a person types starts from the current folder, whatever folder the opened preset lies in."""
    if question.kind != "path" or not isinstance(value, str) or base.absolute() == Path.cwd():
        return value
    from wizard.facts.locate import is_path, resolve

    here = Path.cwd()
    is_data = question.reads == "data"
    return str(resolve(value, here)) if is_path(value, here, is_data) and not is_path(value, base, is_data) else value


def near(text: str, base: Path) -> Path:
    """The folder a file browser starts in, when `text` stands on the line."""
    path = Path(os.path.expanduser(text)) if text and not text.startswith("builtin:") else Path.cwd()
    path = path if path.is_absolute() else base / path
    while not path.is_dir():
        path = path.parent
    return path


def learn_all(flow: Flow, base: Path) -> None:
    """Read what has to be read, until nothing is stale. Raises InvalidError."""
    while stale := flow.stale():
        for kind in stale:
            flow.learn(kind, *read_facts(flow, kind, base))


def finished(flow: Flow, base: Path, folder: Path | None = None, overrides: Mapping[str, Any] | None = None) -> str:
    """The preset as YAML, valid, its relative paths made to lead from `folder` where that is not `base`.

    Raises PresetError with every problem.
    """
    preset = preset_from_data(flow.preset_data(), overrides=dict(overrides or {}))
    moved: dict[str, Any] = {}
    if folder is not None and folder.absolute() != base.absolute():
        from wizard.facts.locate import absolute

        was, now = flatten(preset.model_dump()), flatten(absolute(preset, base).model_dump())
        moved = {key: value for key, value in now.items() if value != was.get(key)}
    return flow.preset_text(moved)


def refuse_problems(flow: Flow) -> None:
    """Raises PresetError with every answer that is missing or does not fit the others."""
    problems = flow.problems()
    if problems:
        raise PresetError([Problem(key=question.decides[0], found="nothing" if flow.answer(question.key).value is None
                                   else question.text(flow.answer(question.key).value),
                                   expected=f"an answer: {question.title} ({question.placeholder})"
                                   if flow.answer(question.key).value is None else message)
                           for question, message in problems])


@dataclass
class Plan:
    """What a launch would be. Without a `prepared`, `problems` say why; a problem with a `line` is on it in `text`."""

    text: str
    problems: list[Problem] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    prepared: Any = None
    command: str = ""
    resolved_text: str = ""


def plan(flow: Flow, base: Path) -> Plan:
    """Check everything a launch would check and show its exact command; starts nothing, raises nothing of ours."""
    text = flow.preset_text()
    made = Plan(text=text)
    _, lines = yaml_text.load(text)
    made.problems += [Problem(key=question.decides[0], found=message, expected="", line=_line(lines, question.decides[0]))
                      for question, message in flow.problems()]
    try:
        preset = preset_from_data(flow.preset_data(), lines)
    except PresetError as error:
        made.problems += [problem for problem in error.problems if problem.key not in {p.key for p in made.problems}]
        return made
    if made.problems:
        return made
    try:
        _prepare(made, preset, base)
    except PresetError as error:
        made.problems += [_placed(problem, lines) for problem in error.problems]
    except WizardError as error:
        key = error.message.partition(":")[0]
        made.problems.append(Problem(key=key, found=error.message, expected=error.todo or "", line=_line(lines, key)))
    return made


def _prepare(made: Plan, preset: Preset, base: Path) -> None:
    from engine.contract.load import dump_preset
    from engine.contract.run_dir import RunDir
    from wizard.launch.checks import check_launch
    from wizard.launch.command import launch_command
    from wizard.launch.prepare import prepare

    # the run keeps the text with its comments, not only the values
    made.prepared = replace(prepare(preset, {}, base), preset_text=made.text)
    check_launch(made.prepared.resolved, made.prepared.model, runs_root(), 0)
    where = RunDir(runs_root() / preset.name / "DATE-TIME")
    made.command = launch_command(made.prepared.resolved, where, 1).shell()
    made.resolved_text = dump_preset(made.prepared.resolved, full=True)
    nodes = made.prepared.resolved.distributed.num_nodes
    if nodes > 1:
        made.remarks.append(f"this starts machine 0 of {nodes}; save the preset and `run FILE --node-rank N` on the others, N from 1")
    made.remarks += [finding.summary for finding in made.prepared.recommendation.findings]


def _placed(problem: Problem, lines: Mapping[tuple, int]) -> Problem:
    return Problem(key=problem.key, found=problem.found, expected=problem.expected, nearest=problem.nearest,
                   line=_line(lines, problem.key))


def _line(lines: Mapping[tuple, int], key: str) -> int | None:
    """The line of a dotted key, or of the nearest section above it that is written."""
    path = tuple(key.split("."))
    while path:
        if path in lines:
            return lines[path]
        path = path[:-1]
    return None


def refresh(flow: Flow, base: Path, on_main: Callable[..., Any]) -> None:
    """Read stale facts from a thread; `on_main(function, *arguments)` hands them over. What cannot be read is left to
    the plan, which says so."""
    for kind in flow.stale():
        source = flow.source(kind)
        try:
            facts = look_at(kind, source, base)
        except WizardError:
            facts = None
        on_main(flow.learn, kind, source, facts)


def start(prepared: Any) -> Any:
    """Start the training that was planned; the run's folder. Raises WizardError."""
    from wizard.launch.start import start_run

    return start_run(prepared)


def save(flow: Flow, base: Path, path: Path | None = None, overwrite: bool = False) -> Path:
    """Write the preset to `path`, or under its name among the user's presets. Raises PresetError or WizardError."""
    from wizard.paths import user_presets
    from wizard.presets.save import save_preset

    path = path or user_presets() / f"{flow.answer('name').value}.yaml"
    return save_preset(finished(flow, base, path.parent), path, overwrite)


def short_command(command: str) -> str:
    """What a glance at the command needs: strategy, ranks, precision, entry. The exact one is always a key away."""
    words = command.split(" ")
    python = next(i for i, word in enumerate(words) if word == "-m")
    plain = [words[i] for i in range(python, len(words)) if "--config_file" not in words[i - 1:i + 1]]
    return " ".join(["python", *plain])


@dataclass(frozen=True)
class ShelfPreset:
    """A preset to begin from, as the first screen lists it."""

    name: str
    path: str
    about: str


@dataclass(frozen=True)
class ShelfRun:
    """A run to look at, as the first screen lists it."""

    name: str
    run: Any
    state: str | None
    started_unix_s: float | None


def presets() -> list[ShelfPreset]:
    """The user's presets and the shipped ones; those that cannot be read are still listed, and say so when opened."""
    from wizard.presets.find import list_presets

    found = []
    for item in list_presets():
        try:
            text = read_preset_text(item.path)
            data, _ = yaml_text.load(text)
            about = data.get("task", "") if isinstance(data, dict) else ""
        except PresetError:
            text, about = "", "cannot be read"
        # a shipped preset says in its first line what it is for; one of a person's own seldom does
        said = text.partition("\n")[0] if item.origin == "shipped" else ""
        about = said.removeprefix("# ") if said.startswith("# ") else f"{about}, {item.origin}"
        found.append(ShelfPreset(item.name, str(item.path), about))
    return found


def recent_runs(limit: int = 6) -> list[ShelfRun]:
    """The newest runs with the state they are in."""
    from wizard.launch.index import all_runs, short_name
    from wizard.launch.liveness import current_status

    found = []
    for run in all_runs()[:limit]:
        status = current_status(run)
        found.append(ShelfRun(short_name(run), run, status.state if status else None,
                              status.started_unix_s if status else None))
    return found
