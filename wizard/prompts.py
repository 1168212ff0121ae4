"""The same questions line by line, for terminals that cannot show a full screen."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wizard import session
from wizard.errors import ExitCode, UsageError, WizardError
from wizard.questions.flow import Flow
from wizard.questions.question import Choice, Invalid, Question

if TYPE_CHECKING:
    from collections.abc import Callable

#: Typed alone, it goes back one question.
BACK = "<"
_BACK_WORDS = "go back"


def run_prompts(ref: str | Path | None = None, overrides: Mapping[str, Any] | None = None) -> int:
    """Ask, show the summary, then launch, save or leave. Raises UsageError without a terminal, and what
    `session.new_flow` raises."""
    if not sys.stdin or not sys.stdin.isatty():
        raise UsageError("nobody can be asked: standard input is not a terminal",
                         "write a preset without questions: `new --defaults -o FILE`, then `run FILE`")
    print("Looking at this machine ...")
    flow, base = session.new_flow(session.read_machine(), ref, overrides)
    print(f"Enter takes what is proposed; {BACK} goes back; Ctrl-C leaves.")
    try:
        while True:
            ask_all(flow, base)
            code = _conclude(flow, base)
            if code is not None:
                return code
    except KeyboardInterrupt:
        print("Left; nothing was started.", file=sys.stderr)
        return ExitCode.INTERRUPTED


def ask_all(flow: Flow, base: Path) -> None:
    """Ask from where the flow is to its end. Raises KeyboardInterrupt."""
    section, advice = "", ""
    while True:
        _refresh(flow, base)
        question = flow.question
        if question.section != section:
            section = question.section
            print(f"\n{section}")
        if flow.recommendation and flow.recommendation.summary()[0] != advice:
            advice = flow.recommendation.summary()[0]
            _say(f"advice: {advice}")
        forward = _ask(flow, question, base)
        if forward and not flow.next():
            return
        if not forward:
            flow.back()


def _ask(flow: Flow, question: Question, base: Path) -> bool:
    """Ask one question until its answer is good; False to go back."""
    import questionary

    context = flow.context
    answer = flow.answer(question.key)
    _say(question.help)
    for line in (question.note(context), answer.note):
        if line:
            _say(f"· {line}")
    prefix = "{} of {}  ".format(*flow.position)
    while True:
        if question.kind in ("choice", "yes/no"):
            value = _select(questionary, prefix + question.title, _choices(question, flow), answer.value)
            if value == _BACK_WORDS:
                return False
            try:
                flow.choose(question.key, value)
            except Invalid as error:
                _say(str(error))
                continue
        else:
            asker = questionary.path if question.kind == "path" else questionary.text
            text = asker(f"{prefix}{question.title}", default=question.text(flow.answer(question.key).value),
                         validate=_validator(flow, question)).unsafe_ask()
            if text.strip() == BACK:
                return False
            flow.set(question.key, session.typed(question, flow.check(question.key, text), base))
        problem = _read(flow, question, base)
        if problem is None:
            return True
        _say(problem)


def _say(text: str) -> None:
    """Print `text` indented, broken at words where the terminal ends."""
    width = max(40, min(shutil.get_terminal_size().columns, 100)) - 1
    for line in text.splitlines():
        print(textwrap.fill(line, width, initial_indent="  ", subsequent_indent="    " if line.startswith("· ") else "  "))


def _choices(question: Question, flow: Flow) -> list[Choice]:
    if question.kind == "yes/no":
        return [Choice(True, "Yes"), Choice(False, "No")]
    return question.choices(flow.seen_from(question.key))


def _select(questionary: Any, title: str, choices: list[Choice], current: Any) -> Any:
    width = max(len(choice.label) for choice in choices)
    room = shutil.get_terminal_size().columns - width - 6  # a line that wraps would break the list
    shown = [questionary.Choice(f"{choice.label:<{width}}  {textwrap.shorten(choice.detail, max(room, 10), placeholder=' ...')}".rstrip(),
                                value=choice.value, disabled=choice.impossible) for choice in choices]
    possible = [choice.value for choice in choices if not choice.impossible]
    shown.append(questionary.Choice(_BACK_WORDS, value=_BACK_WORDS))
    return questionary.select(title, choices=shown, default=current if current in possible else None).unsafe_ask()


def _validator(flow: Flow, question: Question) -> Callable[[str], bool | str]:
    def validate(text: str) -> bool | str:
        if text.strip() == BACK:
            return True
        try:
            flow.check(question.key, text)
        except Invalid as error:
            return str(error)
        return True

    return validate


def _refresh(flow: Flow, base: Path) -> None:
    """Read what can be read; what cannot is complained about where it is asked."""
    session.refresh(flow, base, lambda function, *arguments: function(*arguments))


def _read(flow: Flow, question: Question, base: Path) -> str | None:
    """Look at the model or data that was named; why it cannot be used, or None."""
    if question.reads is None:
        return None
    source = flow.source(question.reads)
    try:
        flow.learn(question.reads, source, session.look_at(question.reads, source, base))
    except WizardError as error:
        flow.forget(question.reads)
        return str(error)
    return None


def _conclude(flow: Flow, base: Path) -> int | None:
    """The summary and what to do with it; None to ask again."""
    import questionary

    plan = session.plan(flow, base)
    print(f"\n{plan.text}")
    for line in flow.recommendation.summary() if flow.recommendation else ():
        print(f"  {line}")
    for problem in plan.problems:
        print(f"  problem: {problem}")
    for remark in plan.remarks:
        print(f"  note: {remark}")
    if plan.command:
        print(f"\nWill run: {session.short_command(plan.command)}\n")
    options = [] if plan.problems else ["launch", "save and launch"]
    options += ["save", "change an answer", "leave"]
    chosen = questionary.select("What now?", choices=options).unsafe_ask()
    if chosen == "change an answer":
        first = next((question for problem in plan.problems if (question := flow.deciding(problem.key))), flow.asked[0])
        flow.go_to(first.key)
        return None
    if chosen == "leave":
        return ExitCode.OK
    if "save" in chosen:
        saved = _save(flow, base, questionary)
        if saved is None:
            return None
        print(f"Saved: {saved}")
        if chosen == "save":
            print(f"Start it: autotrain-wizard run {saved}")
            return ExitCode.OK
    return _launch(plan)


def _save(flow: Flow, base: Path, questionary: Any) -> Path | None:
    from wizard.paths import user_presets

    text = questionary.path("Save as", default=str(user_presets() / f"{flow.answer('name').value}.yaml")).unsafe_ask()
    path = Path(text).expanduser()
    if path.exists() and not questionary.confirm(f"{path} exists already. Replace it?", default=False).unsafe_ask():
        return None
    return session.save(flow, base, path, overwrite=True)


def _launch(plan: session.Plan) -> int:
    """Start it and follow it in plain lines, as `run --plain` does."""
    from wizard.launch.foreground import HungUp, StopSignals, follow_to_end

    try:
        with StopSignals().listening() as signals:
            run = session.start(plan.prepared)
            print(f"Started: {run.root}\nCtrl-C stops it with a checkpoint.")
            signals.attach(run)
            return int(follow_to_end(run, signals, as_json=False))
    except HungUp:
        return ExitCode.HANGUP
