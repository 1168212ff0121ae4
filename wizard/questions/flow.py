"""Walking through the questions: what was answered, what holds for the rest, and the preset that comes of it.

Only what a person really changed is kept as an answer; everything else follows from the machine, the files, the
advice and those answers, and is worked out again after each change. So an answer that a condition hides is not lost,
and a recommendation that was accepted changes with what it rests on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from wizard.questions.catalog import QUESTIONS
from wizard.questions.context import Context
from wizard.questions.needs import TrainingNeeds
from wizard.questions.outcome import flat_preset, nested, yaml_of
from wizard.questions.question import Answer, Invalid, Question

if TYPE_CHECKING:
    from wizard.advice.recommend import Recommendation
    from wizard.hardware.inventory import HardwareInventory

Facts = Literal["model", "data"]
Advise = Callable[..., "Recommendation"]


class Flow:
    """The state of one session of questions. Every method is pure computation and takes milliseconds.

    `starter` and `preset` are flat (dotted key: value); `text` is the opened preset as written, whose comments are
    kept. `opened` is False for values that were only given with `--set`. `advise` is `wizard.advice.recommend.recommend` unless a test gives its own.
    """

    def __init__(self, inventory: HardwareInventory, starter: Mapping[str, Any], preset: Mapping[str, Any] | None = None,
                 text: str | None = None, opened: bool | None = None, advise: Advise | None = None, questions: Sequence[Question] = QUESTIONS):
        if advise is None:
            from wizard.advice.recommend import recommend as advise
        self.questions = list(questions)
        self.answers: dict[str, Any] = {}
        self.drafts: dict[str, str] = {}
        self._advise, self._text = advise, text
        self._facts: dict[Facts, tuple[Any, Any]] = {}
        self._context = Context(inventory=inventory, starter=dict(starter), preset=dict(preset or {}),
                                opened=bool(preset) if opened is None else opened)
        self.asked: list[Question] = []
        self.current: dict[str, Answer] = {}
        self._seen: dict[str, Context] = {}
        self._defaults: dict[str, Answer] = {}
        self._settle()
        self.at = self.asked[0].key

    # -- what holds now -------------------------------------------------------------------------------------------

    @property
    def recommendation(self) -> Recommendation | None:
        return self._context.recommendation

    @property
    def context(self) -> Context:
        """Everything known, with the answers to all questions that are asked."""
        return self._context

    @property
    def question(self) -> Question:
        return next((question for question in self.asked if question.key == self.at), self.asked[-1])

    @property
    def position(self) -> tuple[int, int]:
        """(n, m) of `question n of m`, from 1."""
        return self.asked.index(self.question) + 1, len(self.asked)

    def answer(self, key: str) -> Answer:
        """The answer that holds for a question that is asked. Raises KeyError for one that is not."""
        return self.current[key]

    def seen_from(self, key: str) -> Context:
        """What the question `key` may look at."""
        return self._seen[key]

    # -- answering ------------------------------------------------------------------------------------------------

    def check(self, key: str, text: str) -> Any:
        """The value that `text` means as an answer to `key`. Raises Invalid with one message; changes nothing."""
        question = self._find(key)
        value = question.read(text)
        self._check(question, value)
        return value

    def set(self, key: str, value: Any) -> None:
        """Answer `key`. A value equal to the default is no answer of one's own: it goes on following the default."""
        self.clear(key)  # the advice keeps to what was answered, so the default is known only without it
        if key not in self._defaults or value != self._defaults[key].value:
            self.answers[key] = value
            self._settle()

    def choose(self, key: str, value: Any) -> None:
        """Answer a question of choices. Raises Invalid for what is impossible here."""
        question = self._find(key)
        context = self._seen.get(key, self._context)
        impossible = next((c.impossible for c in question.choices(context) if c.value == value), None)
        if impossible:
            raise Invalid(f"Not possible here: {impossible}.")
        self._check(question, value)
        self.set(key, value)

    def clear(self, key: str) -> None:
        """Take one's own answer to `key` back, and what was left half-typed."""
        self.drafts.pop(key, None)
        self.answers.pop(key, None)
        self._settle()

    def next(self) -> bool:
        """Go on to the next question; False when this was the last."""
        return self._move(1)

    def back(self) -> bool:
        """Go back to the question before; False when this is the first."""
        return self._move(-1)

    def go_to(self, key: str) -> bool:
        """Go to a question; False when it is not asked."""
        found = any(question.key == key for question in self.asked)
        if found:
            self.at = key
        return found

    def deciding(self, key: str) -> Question | None:
        """The question that decides a preset key, or a key above or below it; None when none is asked that does."""
        for question in self.asked:
            if any(key == own or key.startswith(own + ".") for own in question.decides):
                return question
        return next((q for q in self.asked if any(own.startswith(key + ".") for own in q.decides)), None)

    def problems(self) -> list[tuple[Question, str]]:
        """Questions whose answer is missing or no longer fits the others, each with its message."""
        found = []
        for question in self.asked:
            value = self.current[question.key].value
            if value is None:
                if question.required and question.kind != "choice":
                    found.append((question, "This has no answer yet."))
                continue
            message = question.check(value, self._seen[question.key])
            if message:
                found.append((question, message))
        return found

    # -- facts from outside ---------------------------------------------------------------------------------------

    def source(self, kind: Facts) -> Any:
        """What the facts are wanted of: (path, from_config) of the model, the training data; None when open."""
        flat = self._flat()
        if kind == "model":
            path, config = flat.get("model.path"), flat.get("model.from_config")
            return (path, config) if path or config else None
        return flat.get("data.train")

    def stale(self) -> list[Facts]:
        """The kinds of facts that have to be read (again)."""
        return [kind for kind in ("model", "data")
                if (wanted := self.source(kind)) is not None and self._facts.get(kind, (None, None))[0] != wanted]

    def learn(self, kind: Facts, source: Any, facts: Any) -> None:
        """Take in facts that were read of `source`; they count while it is still what is wanted."""
        self._facts[kind] = (source, facts)
        self._settle()

    def forget(self, kind: Facts) -> None:
        """Have facts read again."""
        self._facts.pop(kind, None)

    # -- what comes of it -----------------------------------------------------------------------------------------

    def needs(self) -> TrainingNeeds:
        """What the advice has to respect. Backend and strategy of the starter are no wish of the person's: there the
        advice comes to the same by itself, with the real reason."""
        flat = self._flat()
        backend = self.current.get("distributed.backend")
        if backend and backend.origin == "default":
            flat.pop("distributed.backend", None)
            flat.pop("distributed.strategy", None)
        if self._context.gpus == 0:  # no GPU to use is a fact, not a choice
            flat.pop("distributed.num_gpus_per_node", None)
        return TrainingNeeds.from_answers(flat)

    def preset_data(self) -> dict[str, Any]:
        """The preset as nested plain values, for `preset_from_data`; what was recommended is left to `auto`."""
        return nested(self._flat())

    def preset_text(self, paths: Mapping[str, Any] | None = None) -> str:
        """The preset as YAML, with the comments of the one that was opened. `paths` (dotted key: value) replace some."""
        return yaml_of(self._flat() | dict(paths or {}), self._text)

    def origins(self) -> dict[str, Answer]:
        """For each preset key that a question decides: its answer."""
        return {key: self.current[question.key] for question in self.asked for key in question.decides}

    # -- inside ---------------------------------------------------------------------------------------------------

    def _find(self, key: str) -> Question:
        return next(question for question in self.questions if question.key == key)

    def _check(self, question: Question, value: Any) -> None:
        message = question.check(value, self._seen.get(question.key, self._context)) if value is not None else None
        if message:
            raise Invalid(message)

    def _move(self, by: int) -> bool:
        index = self.asked.index(self.question) + by
        if not 0 <= index < len(self.asked):
            return False
        self.at = self.asked[index].key
        return True

    def _flat(self) -> dict[str, Any]:
        return flat_preset(self.questions, self.asked, self.current, self._seen, self._context)

    def _settle(self) -> None:
        """Work out who is asked and what holds.

        Defaults look at later answers too (the ranks of the quickstart belong to its model), hence two passes before
        the advice, which needs to know what is fixed, and two after it.
        """
        self._context = replace(self._context, recommendation=None, model=None, data=None)
        self._pass()
        self._pass()
        facts = {kind: found for kind, (source, found) in self._facts.items() if source == self.source(kind)}
        self._context = replace(self._context, model=facts.get("model"), data=facts.get("data"))
        self._pass()
        self._pass()
        advice = self._advise(self._context.inventory, self.needs(), self._context.model, self._context.data)
        self._context = replace(self._context, recommendation=advice)
        self._pass()
        self._pass()

    def _pass(self) -> None:
        values = dict(self._context.values)
        self.asked, self.current, self._seen, self._defaults = [], {}, {}, {}
        for question in self.questions:
            context = replace(self._context, values=dict(values))
            if not question.when(context):
                values.pop(question.key, None)
                continue
            default = question.default(context)
            answer = default
            if question.key in self.answers:
                answer = Answer(self.answers[question.key], "yours", default.note)
            self.asked.append(question)
            self.current[question.key], self._defaults[question.key] = answer, default
            self._seen[question.key] = context
            values[question.key] = answer.value
        self._context = replace(self._context, values=values)
