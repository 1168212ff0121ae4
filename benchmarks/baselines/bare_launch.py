"""What any training under `accelerate launch` does before it can begin: the imports, and joining the ranks."""

import os
import sys
import time
from datetime import timedelta
from pathlib import Path

import psutil  # noqa: F401
import torch  # noqa: F401
from accelerate import Accelerator
from accelerate.utils import InitProcessGroupKwargs
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM  # noqa: F401

Accelerator(cpu=True, kwargs_handlers=[InitProcessGroupKwargs(backend="gloo", timeout=timedelta(seconds=60))])
Path(sys.argv[1], f"{os.environ['RANK']}.txt").write_text(repr(time.time()))
os._exit(0)
