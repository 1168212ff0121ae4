"""The two forms in which a checkpoint holds weights and optimizer state: whole, and in the shards of the ranks.

Either form goes into a model of either kind: a whole one is cut to the shards, shards are put together or cut anew,
so a training resumes on another number of ranks and under another strategy. Both hold nothing but tensors and plain
values, and reading one runs no code that came with it.
"""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.metadata import Metadata, StorageMeta, TensorStorageMetadata
from torch.distributed.tensor import DTensor

from engine.errors import DiskError
from engine.sharding import like, named_weights, whole

_WEIGHTS, _OPTIMIZER, _SHARDS = "weights.pt", "optimizer.pt", "shards"
_MODEL_KEY, _OPTIMIZER_KEY = "model/", "optimizer/"


def trained(model: Any) -> dict[str, torch.Tensor]:
    """What training changes, by name: trained weights, each once, and buffers. A frozen base is read again from where
    it came."""
    buffers = dict(model.named_buffers())
    saved = model.state_dict()  # buffers that are not persistent are not in it
    weights = {name: weight.detach() for name, weight in named_weights(model).items() if weight.requires_grad}
    return weights | {name: value for name, value in buffers.items() if name in saved}


def save_whole(folder: Path | None, model: Any, optimizer: Any) -> None:
    """Write everything to `folder`, or with None only help others who do; entered by all ranks when it is sharded."""
    keep = folder is not None
    weights = {name: _gathered(value, keep) for name, value in trained(model).items()}
    state = optimizer.state_dict()
    state["state"] = {index: {key: _gathered(value, keep) for key, value in entry.items()}
                      for index, entry in state["state"].items()}
    if folder is not None:
        torch.save(weights, folder / _WEIGHTS)
        torch.save(state, folder / _OPTIMIZER)


def _gathered(value: Any, keep: bool) -> Any:
    """The whole of `value` in host memory, or None where it is not kept; what is whole already stays where it is."""
    if not isinstance(value, DTensor):
        return value
    gathered = whole(value)
    return gathered.cpu() if keep else None


def save_shards(folder: Path, model: Any, optimizer: Any, group: Any) -> None:
    """Every rank writes its own part below `folder`; entered by all ranks, which coordinate over `group` (CPU)."""
    writer = dcp.FileSystemWriter(folder / _SHARDS, sync_files=False, overwrite=True)
    try:
        dcp.save(_by_name(model, optimizer), storage_writer=writer, process_group=group)
    except CheckpointException as error:  # no Exception, and the cause lies inside
        cause = next(iter(error.failures.values()))[0]
        raise cause if isinstance(cause, Exception) else RuntimeError(str(error)) from error


def load(folder: Path, model: Any, optimizer: Any) -> None:
    """Read what either function wrote; each rank takes what it needs. Raises DiskError when it does not fit."""
    if (folder / _SHARDS).is_dir():
        _load_shards(folder, model, optimizer)
    else:
        _load_whole(folder, model, optimizer)


def _load_whole(folder: Path, model: Any, optimizer: Any) -> None:
    targets = trained(model)
    weights = torch.load(folder / _WEIGHTS, map_location="cpu", weights_only=True, mmap=True)
    _compare(folder, targets.keys() - weights.keys(), weights.keys() - model.state_dict().keys())
    with torch.no_grad():
        for name, target in targets.items():
            target.copy_(like(target, weights[name]))
    state = torch.load(folder / _OPTIMIZER, map_location="cpu", weights_only=True, mmap=True)
    ordered = [weight for group in optimizer.param_groups for weight in group["params"]]
    for index, entry in state["state"].items():
        state["state"][index] = {key: like(ordered[index], value) if torch.is_tensor(value) else value for key, value in entry.items()}
    optimizer.load_state_dict(state)


def _load_shards(folder: Path, model: Any, optimizer: Any) -> None:
    reader = _Reader(folder / _SHARDS)
    stored = reader.read_metadata().state_dict_metadata
    targets = {_MODEL_KEY + name: value for name, value in trained(model).items()}
    weights = [key for key in stored if key.startswith(_MODEL_KEY)]
    _compare(folder, targets.keys() - set(weights), set(weights) - targets.keys())
    state: dict[int, dict[str, torch.Tensor]] = {}
    names = {id(weight): name for name, weight in named_weights(model).items()}
    ordered = [weight for group in optimizer.param_groups for weight in group["params"]]
    for index, weight in enumerate(ordered):
        prefix = f"{_OPTIMIZER_KEY}{names[id(weight)]}/"
        for key, facts in stored.items():
            if key.startswith(prefix) and isinstance(facts, TensorStorageMetadata):
                dtype = facts.properties.dtype
                fits = facts.size == weight.shape
                targets[key] = torch.zeros_like(weight, dtype=dtype) if fits else torch.zeros(facts.size, dtype=dtype)
                state.setdefault(index, {})[key.removeprefix(prefix)] = targets[key]
    # every rank reads by itself, so that nobody waits for one that cannot
    dcp.load(targets, storage_reader=reader, no_dist=True)
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def _by_name(model: Any, optimizer: Any) -> dict[str, torch.Tensor]:
    names = {id(weight): name for name, weight in named_weights(model).items()}
    entries = {_MODEL_KEY + name: value for name, value in trained(model).items()}
    for group in optimizer.param_groups:
        for weight in group["params"]:
            for key, value in optimizer.state.get(weight, {}).items():
                if torch.is_tensor(value):
                    entries[f"{_OPTIMIZER_KEY}{names[id(weight)]}/{key}"] = value
    return entries


def _compare(folder: Path, missing: set[str], unexpected: set[str]) -> None:
    if missing or unexpected:
        raise DiskError(f"{folder}: does not fit the model (missing {sorted(missing)[:3]}, unexpected {sorted(unexpected)[:3]})")


class _Reader(dcp.FileSystemReader):
    """torch's reader, which unpickles whatever the index of a checkpoint says; this one takes only what belongs there."""

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        metadata = _Unpickler(io.BytesIO(Path(self._get_metadata_path()).read_bytes())).load()
        metadata.storage_meta = metadata.storage_meta or StorageMeta()
        metadata.storage_meta.load_id = self.load_id
        return metadata


class _Unpickler(pickle.Unpickler):
    #: What the index is made of: descriptions of tensors and of the places where they lie.
    _NAMES = {
        "torch.distributed.checkpoint.metadata": {
            "Metadata", "MetadataIndex", "StorageMeta", "TensorStorageMetadata", "TensorProperties", "ChunkStorageMetadata",
            "BytesStorageMetadata", "_MEM_FORMAT_ENCODING"},
        "torch.distributed.checkpoint.filesystem": {"_StorageInfo"},
        "torch.serialization": {"_get_layout"},
        "pathlib": {"PosixPath", "WindowsPath"}, "pathlib._local": {"PosixPath", "WindowsPath"},
    }

    def find_class(self, module: str, name: str) -> Any:
        plain = module == "torch" and (name == "Size" or isinstance(getattr(torch, name, None), torch.dtype))
        if plain or name in self._NAMES.get(module, ()):
            return super().find_class(module, name)
        raise DiskError(f"the index of a checkpoint names {module}.{name}, which does not belong there; it is not read")
