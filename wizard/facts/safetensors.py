"""The header of safetensors files, read directly: names, types and shapes of all weights, without loading one.

Format: 8 bytes little-endian header length, then JSON {name: {dtype, shape, data_offsets}}.
Source: https://github.com/huggingface/safetensors#format
"""

from __future__ import annotations

import json
import math
import struct
from dataclasses import dataclass
from pathlib import Path

#: A header is kilobytes to a few megabytes; more is not a safetensors file.
_MOST_BYTES = 100_000_000
_NAMES = {
    "F32": "fp32",
    "F16": "fp16",
    "BF16": "bf16",
    "F64": "fp64",
    "I8": "int8",
    "U8": "uint8",
    "F8_E4M3": "fp8",
    "F8_E5M2": "fp8",
}


@dataclass(frozen=True)
class Weights:
    """All weights of one model folder. `embedding` counts the elements of input look-up tables alone."""

    parameters: int
    embedding: int
    dtype: str | None
    bytes: int
    files: int


def read_weights(folder: Path) -> Weights | None:
    """Totals over the safetensors files of a model folder; None when there are none or one is cut off.

    Raises OSError when a file cannot be read.
    """
    files = _files(folder)
    if not files:
        return None
    parameters = embedding = size = 0
    by_type: dict[str, int] = {}
    for file in files:
        header = _header(file)
        if header is None:
            return None
        size += file.stat().st_size
        for name, entry in header.items():
            if name == "__metadata__" or not isinstance(entry, dict) or "shape" not in entry:
                continue
            count = math.prod(entry["shape"])
            parameters += count
            by_type[entry.get("dtype", "?")] = by_type.get(entry.get("dtype", "?"), 0) + count
            if name.endswith(
                ("embed_tokens.weight", "wte.weight", "wpe.weight", "embed_in.weight", "word_embeddings.weight")
            ):
                embedding += count
    most = max(by_type, key=by_type.get) if by_type else None
    return Weights(parameters, embedding, _NAMES.get(most, most) if most else None, size, len(files))


def _files(folder: Path) -> list[Path]:
    """The shards the index names, else all files. An adapter's own file is not the model's."""
    index = folder / "model.safetensors.index.json"
    try:
        names = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
        files = [folder / name for name in names]
        return files if all(file.is_file() for file in files) else []
    except (OSError, ValueError, KeyError, AttributeError):
        return sorted(file for file in folder.glob("*.safetensors") if not file.name.startswith("adapter_"))


def _header(file: Path) -> dict | None:
    with open(file, "rb") as handle:
        start = handle.read(8)
        if len(start) < 8:
            return None
        length = struct.unpack("<Q", start)[0]
        if length > min(_MOST_BYTES, file.stat().st_size):
            return None
        try:
            header = json.loads(handle.read(length))
        except ValueError:
            return None
    return header if isinstance(header, dict) else None
