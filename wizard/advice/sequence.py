"""How long sequences are, and whether short rows share one."""

from __future__ import annotations

from engine.contract.findings import Decision
from wizard.advice.devices import Devices
from wizard.advice.reasons import asked, kept, other
from wizard.facts.data import DataFacts
from wizard.facts.model import ModelFacts
from wizard.questions.needs import TrainingNeeds

#: Characters in one token of English text for vocabularies of 30 to 150 thousand; small vocabularies cut finer.
CHARACTERS_PER_TOKEN, CHARACTERS_SMALL_VOCABULARY = 4.0, 3.2
#: A chat template adds marks to each turn, and often a system prompt of its own.
_TEMPLATE_TOKENS = 64
_SHORTEST = 256
_LONGEST_GPU, _LONGEST_CPU, _LONGEST_APPLE = 2048, 512, 1024
#: Packing gains where rows fill less than this much of a sequence: measured x2.07 for chats, x1.75 for instructions,
#: x0.89 for rows that are nearly as long as the sequence.
_FULL = 0.7


def characters_per_token(model: ModelFacts | None) -> float:
    small = model is not None and model.vocab_size is not None and model.vocab_size < 16000
    return CHARACTERS_SMALL_VOCABULARY if small else CHARACTERS_PER_TOKEN


def decide_max_length(
    devices: Devices, needs: TrainingNeeds, model: ModelFacts | None, data: DataFacts | None
) -> Decision:
    positions = model.max_positions if model else None
    if asked(needs.max_length):
        length = int(needs.max_length)
        return kept(
            length, f"the model has {positions:,} positions" if positions else "the model's own limit is not known"
        )
    usual = {"cpu": _LONGEST_CPU, "apple": _LONGEST_APPLE}.get(devices.kind, _LONGEST_GPU)
    limit = min(usual, positions or usual)
    where = "a CPU" if devices.kind == "cpu" else "a GPU"
    why = (
        f"the model's {positions} positions"
        if positions and positions <= usual
        else f"usual on {where}: activations and time grow with it"
    )
    classes = needs.task == "text-classification"
    known = data is not None and data.lengths is not None and (data.kind != "unknown" or classes)
    if needs.task != "llm-pretrain" and known:
        per_token = characters_per_token(model)
        frame = 0 if data.kind == "text" or classes else _TEMPLATE_TOKENS
        longest, most = (value / per_token * 1.15 + frame for value in (data.lengths.longest, data.lengths.p95))
        # short batches are padded to their own longest row, so room costs nothing, and a cut row loses its answer
        needed = max(_SHORTEST, -(-int(longest) // 64) * 64)
        facts = [
            f"{data.lengths.rows} rows sampled: 95 % within {data.lengths.p95:,.0f} characters, "
            f"the longest {data.lengths.longest:,.0f}",
            f"about {per_token:g} characters a token",
        ]
        if needed <= limit:
            return Decision(
                value=needed,
                confidence="fair",
                facts=facts,
                reason=f"the longest row seen takes about {longest:,.0f} tokens, the chat template's included"
                if frame
                else f"the longest row seen takes about {longest:,.0f} tokens",
            )
        cut = (
            " (longer rows are cut)"
            if most <= limit
            else f"; 5 % of the rows are longer than about {most:,.0f} tokens and are cut"
        )
        return Decision(
            value=limit,
            confidence="fair",
            facts=facts,
            reason=f"{why}{cut}",
            alternative=other(needed, "no row may be cut, at the price of memory"),
        )
    return Decision(
        value=limit,
        confidence="fair",
        reason=why,
        alternative=other("longer", "the texts hang together over longer stretches")
        if not positions or positions > limit
        else None,
    )


def decide_packing(needs: TrainingNeeds, model: ModelFacts | None, data: DataFacts | None, max_length: int) -> Decision:
    """Whether rows are packed.

    For rows `auto` stays: the engine settles it on their real lengths and number, and packs no data so small that a
    few full sequences would be all of it.
    """
    if asked(needs.packing):
        return kept(
            bool(needs.packing),
            "packed rows do not see each other" if needs.packing else "each row is a sequence of its own",
        )
    if needs.task == "text-classification":
        return Decision(value=False, confidence="high", reason="each text has its own label; texts of like length share a batch")
    if needs.task == "llm-pretrain":
        return Decision(
            value=True, confidence="high", reason="plain text has no rows to keep apart: every sequence is full"
        )
    if data is None or data.lengths is None:
        return Decision(
            value="auto",
            confidence="fair",
            reason="decided when the rows are tokenized: their lengths are not known yet",
        )
    tokens = data.lengths.mean / characters_per_token(model)
    share = min(1.0, tokens / max_length)
    facts = [f"mean row about {tokens:,.0f} tokens of {max_length}"]
    expected = "packing leaves no gaps" if share < _FULL else "packing would only cost"
    return Decision(value="auto", confidence="fair", facts=facts,
                    reason=f"a row fills about {share:.0%} of a sequence, so {expected}; settled on the tokens themselves")
