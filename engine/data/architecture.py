"""What the type of a model says about packing."""

from __future__ import annotations

import re
from pathlib import Path

#: The attention masks that transformers derives from `position_ids`.
_MASKS = re.compile(r"create_causal_mask|create_masks_for_generate")
#: Layers that carry a state from token to token, and with it from one packed document into the next.
_STATEFUL = re.compile(r"selective_scan|chunk_gated_delta|causal_conv1d|mamba", re.I)


def keeps_documents_apart(model_type: str | None) -> bool:
    """Whether packed documents are known not to see each other in a model of this type.

    True for the decoder models of the installed transformers that take their attention mask from its common functions
    (these tell documents apart by `position_ids`) and have no recurrent layers. False where that cannot be known: a
    model that is not on this machine yet, or one with code of its own.
    """
    import transformers
    from transformers.models.auto.configuration_auto import model_type_to_module_name

    if not model_type:
        return False
    name = model_type_to_module_name(str(model_type))
    source = Path(transformers.__file__).with_name("models") / name / f"modeling_{name}.py"
    try:
        text = source.read_text(encoding="utf-8")
    except OSError:
        return False
    return bool(_MASKS.search(text)) and not _STATEFUL.search(text)
