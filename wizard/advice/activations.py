"""What a forward pass leaves in memory for the backward pass, counted tensor by tensor.

The counts are those of autograd's saved tensors for transformers' decoders (Llama and its relatives) with SDPA, which
never writes the attention scores out; they were read off with `torch.autograd.graph.saved_tensors_hooks` and agree to
the byte in fp32 and bf16, for all weights and for LoRA.
"""

from __future__ import annotations

from wizard.facts.parameters import Shape

#: Scores over the vocabulary, in fp32, when the backward pass begins: log-probabilities, and two gradients of them.
LOGITS_BYTES = 12.0


def layer_bytes(shape: Shape, width: float, adapter_r: int | None, mask: float) -> float:
    """Bytes one token leaves behind in one block.

    `width`: bytes of a number in the forward pass (4, or 2 under autocast). `adapter_r`: rank of an adapter on every
    linear layer, None where all weights are trained. `mask`: bytes of one number of a dropout mask (an adapter drops
    its inputs); 4 on a CPU, 1 elsewhere.
    """
    hidden, queries, keys, inner = shape.hidden, shape.q_width, shape.kv_width, shape.intermediate
    attention = (2 * queries + 2 * keys) * width + shape.heads * 4.0  # q, result, k, v; the softmax's normaliser
    if adapter_r is None:
        if width == 4:
            norms = 2 * 3 * hidden * 4.0  # each norm's input, normalised input, and output
        else:  # input and normalised input in fp32; autocast makes a copy for each linear layer that reads the output
            norms = 2 * 2 * hidden * 4.0 + (5 if shape.gated else 2) * hidden * width
        return norms + attention + (4 if shape.gated else 3) * inner * width
    # frozen norms keep only their input; each adapter keeps what it dropped and the mask
    reads = ((5 if shape.gated else 2) * hidden) + queries + inner
    dropped = reads * (width + mask) + (7 if shape.gated else 4) * adapter_r * width
    return 2 * hidden * 4.0 + attention + (3 if shape.gated else 2) * inner * width + dropped


def between_blocks_bytes(shape: Shape, width: float, adapter: bool) -> float:
    """Bytes one token leaves between two blocks: all that recomputation keeps. fp32 unless the base is 16-bit."""
    return shape.hidden * (width if adapter else 4.0)
