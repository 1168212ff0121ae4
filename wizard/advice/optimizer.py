"""The learning rate to start from."""

from __future__ import annotations

from engine.contract.findings import Decision
from wizard.advice.reasons import asked, kept, other
from wizard.facts.model import ModelFacts
from wizard.questions.needs import TrainingNeeds

#: (parameters up to, rate) from scratch. From 125 million on: Brown et al. 2020, table 2.1; smaller ones after the
#: practice of small open trainers, where rates rise as models shrink.
_FROM_SCRATCH = (
    (20e6, 3e-3),
    (90e6, 1e-3),
    (250e6, 6e-4),
    (1e9, 3e-4),
    (2e9, 2e-4),
    (4e9, 1.6e-4),
    (float("inf"), 1.2e-4),
)


def decide_learning_rate(needs: TrainingNeeds, model: ModelFacts | None) -> Decision:
    best = _best(needs, model)
    if asked(needs.learning_rate):
        rate = float(needs.learning_rate)
        far = rate > best.value * 20 or rate < best.value / 50
        return kept(rate, f"{best.value:g} would be usual: {best.reason}" if far else f"usual is {best.value:g}")
    return best


def _best(needs: TrainingNeeds, model: ModelFacts | None) -> Decision:
    parameters = model.parameters if model else None
    size = f"{parameters / 1e6:,.0f} M parameters" if parameters else "a model of unknown size"
    if needs.optimizer == "sgd":
        return Decision(
            value=1e-2,
            confidence="low",
            reason="a common start for SGD with momentum; language models usually train with AdamW",
        )
    if needs.adapter:
        large = parameters is not None and parameters > 20e9
        return Decision(
            value=1e-4 if large else 2e-4,
            confidence="fair",
            reason=f"adapters take ten times the rate of a full fine-tune; {size}",
            facts=["Dettmers et al. 2023 (QLoRA), table 9"],
            alternative=other(1e-4, "the loss jumps up and down"),
        )
    if needs.from_scratch:
        rate = next(rate for limit, rate in _FROM_SCRATCH if (parameters or 100e6) <= limit)
        return Decision(
            value=rate,
            confidence="fair" if parameters else "low",
            reason=f"from scratch, {size}: smaller models take higher rates",
            alternative=other(rate / 3, "the loss jumps up or diverges"),
        )
    small = parameters is not None and parameters < 1e9
    return Decision(
        value=5e-5 if small else 2e-5,
        confidence="fair",
        reason=f"full fine-tune of {size}: low, so that what it knows is kept",
        alternative=other(1e-5, "it forgets or overfits"),
    )
