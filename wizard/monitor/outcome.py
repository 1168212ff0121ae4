"""What a run came to: the exit code of a command, and the words it closes with."""

from __future__ import annotations

import textwrap

from engine.contract.run_dir import RunDir, Status
from wizard import formatting
from wizard.errors import ExitCode
from wizard.monitor import logs, words
from wizard.monitor.plain import shown_model, shown_path
from wizard.monitor.reader import RunReader
from wizard.monitor.state import RunState, told_loss
from wizard.monitor.tail import plain_text

_SAMPLE_CHARACTERS = 400
_SAMPLE_LINES = 10
_SAMPLE_WIDTH = 90


def exit_code(status: Status) -> ExitCode:
    """The code a command ends with. A run that goes on (detached, left) is OK; a failed one never is."""
    if status.state == "failed":
        kind = status.exit_reason.kind if status.exit_reason else "exception"
        if kind in ("preset", "data", "model"):
            return ExitCode.INVALID
        return ExitCode.LOST if kind in ("hung", "lost") else ExitCode.TRAINING_FAILED
    return {"stopped": ExitCode.STOPPED, "lost": ExitCode.LOST}.get(status.state, ExitCode.OK)


def summary(run: RunDir, status: Status, state: RunState | None = None) -> str:
    """The closing words of a command, several lines. `state` spares reading the events again."""
    if state is None:
        reader = RunReader(run)
        state = reader.poll(budget_s=10.0)
    lines = [words.where_words(status, state) + _trained(state)]
    if status.state == "finished":
        if model := shown_model(run, status, state.task):
            lines.append(f"  model   {model}")
        lines += result(state) + sample(state)
    elif status.state in ("failed", "lost"):
        lines += cause(status) + log_end(run, status)
    elif status.state not in ("stopped",):
        lines[0] = f"the run goes on: {words.one_line(status.state)}, step {state.step:,}"
        lines.append(f"  watch   autotrain-wizard watch {shown_path(run.root)}")
        lines.append(f"  stop    autotrain-wizard stop {shown_path(run.root)}")
    if status.state in ("stopped", "failed", "lost"):
        lines += resume(run)
    return "\n".join(lines)


def cause(status: Status) -> list[str]:
    """Why a run failed or is lost: the kind, the rank, the message."""
    reason = status.exit_reason
    lines = [f"  cause   {words.reason_words(reason)}"]
    if reason is not None and reason.message.strip():
        first, *rest = reason.message.strip().splitlines()
        lines += [f"          {first}"] + [f"          {line}" for line in rest[:6]]
    return lines


def resume(run: RunDir) -> list[str]:
    """The command that goes on with the run, where there is a checkpoint to go on from."""
    steps = run.checkpoint_steps()
    if not steps:
        return []
    return [f"  resume  from step {steps[-1]:,}:", f"          autotrain-wizard run --resume {shown_path(run.root)}"]


def log_end(run: RunDir, status: Status, count: int = 8) -> list[str]:
    """What the log of the rank at fault ends with, and where it is."""
    path, found = logs.failure_lines(run, status.exit_reason.rank if status.exit_reason else None, count)
    return [] if path is None else [f"  log     {shown_path(path)}", *(f"          {line}" for line in found)]


def _trained(state: RunState) -> str:
    if state.last_step is None:
        return ""
    parts = [f"{state.step:,} steps"]
    if state.last_step.has_loss:
        parts.append(f"loss {formatting.loss(state.loss.last)}")
    if state.evaluation is not None:
        parts += [f"evaluation {formatting.loss(state.evaluation.get('loss'))}"] if told_loss(state.evaluation) else []
        if not (state.task or "").startswith("llm-"):  # perplexity is the loss in another dress
            parts += [f"{name} {value}" for name, value in words.metrics(state.evaluation)[:3]]
    if state.throughput.mean() is not None:
        parts.append(f"mean {words.speed_mean(state)}")
    return ": " + ", ".join(parts)


def result(state: RunState) -> list[str]:
    """What the final model is where it is not simply the last step's, and where else it went."""
    exported, lines = state.exported or {}, []
    if exported.get("best") and exported.get("step") != state.step:
        how = f"{words.one_line(exported.get('metric'))} {formatting.loss(exported.get('value'))}"
        lines.append(f"          of step {exported['step']:,}, the best evaluation ({how})")
    if state.pushed:
        lines.append(f"  hub     {words.one_line(state.pushed.get('url'), 200)}")
    return lines


def sample(state: RunState) -> list[str]:
    """What the model wrote, without its empty lines and without control codes."""
    written = state.generation
    if not written:
        return []
    text = str(written.get("text") or "")
    text = text if len(text) <= _SAMPLE_CHARACTERS else text[: _SAMPLE_CHARACTERS - 1] + "…"
    prompt = words.one_line(written.get("prompt"), 60)
    lines = [part for line in text.split("\n") if line.strip()
             for part in textwrap.wrap(plain_text(line), _SAMPLE_WIDTH, replace_whitespace=False, drop_whitespace=False)]
    goes_on = "is taken for" if state.task == "text-classification" else "goes on"
    return [f"  sample  `{prompt}` {goes_on}:" if prompt else "  sample  the model writes:",
            *(f"          {line}" for line in lines[:_SAMPLE_LINES])]
