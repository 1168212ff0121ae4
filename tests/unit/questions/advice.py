"""A recommendation that can be told from the real one, for tests of what the questions do with it."""

from __future__ import annotations

from types import SimpleNamespace


def decision(value, reason, confidence="high", alternative=None, facts=()):
    return SimpleNamespace(value=value, reason=reason, confidence=confidence, alternative=alternative, facts=list(facts))


def advise(inventory, needs, model, data):
    """One rank on a CPU, all GPUs otherwise, and numbers that occur nowhere else."""
    gpus = len(inventory.accelerators) if needs.num_gpus_per_node == "auto" else needs.num_gpus_per_node
    ranks = gpus or (1 if needs.num_processes_per_node == "auto" else needs.num_processes_per_node)
    backend = "none" if ranks == 1 else ("nccl" if gpus else "gloo")
    settings = {
        "distributed.num_gpus_per_node": gpus, "distributed.num_processes_per_node": ranks,
        "distributed.backend": backend, "distributed.strategy": "single" if ranks == 1 else "ddp",
        "training.global_batch": 24 * ranks if needs.global_batch == "auto" else needs.global_batch,
        "training.micro_batch": 3, "training.gradient_accumulation": 8,
        "training.learning_rate": 7e-5, "training.precision": "bf16" if gpus else "fp32", "data.max_length": 777,
    }
    decisions = {name: decision(value, f"reason for {name}") for name, value in
                 (("backend", backend), ("devices", gpus), ("processes", ranks), ("precision", "fp32"), ("batch", 24))}
    return SimpleNamespace(decisions=decisions, findings=[], unknown=[], settings=settings,
                           summary=lambda: (f"{backend} on {ranks} ranks", f"because {gpus} GPUs"))
