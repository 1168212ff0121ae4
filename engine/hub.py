"""Upload of the finished model. It is safe on disk by then, so nothing that fails here fails the training."""

from __future__ import annotations

import os
import time
from typing import Any

from engine.contract.outside import token_of
from engine.contract.preset import Preset
from engine.contract.run_dir import RunDir
from engine.life import Life, say

#: Waits before each further try, in seconds; below them huggingface_hub repeats single requests itself.
_WAITS_S = (5.0, 20.0, 60.0)
#: Answers that a later try may not get: timeout, too many requests, and whatever is the server's fault.
_MAY_PASS = frozenset({408, 425, 429})


class Refused(Exception):
    """Trying again would not help."""


def push_model(run: RunDir, preset: Preset, life: Life) -> None:
    """Upload `model/` to `hub.repo`; entered by rank 0 alone. Writes `pushed`, or a warning that says what to do."""
    hub = preset.hub
    life.phase("pushing model", detail=hub.repo, s_limit=24 * 3600)
    token = token_of(hub, os.environ)
    for wait_s in (*_WAITS_S, None):
        try:
            life.events.write("pushed", repo=hub.repo, url=_upload(run, preset, token), private=hub.private)
            return
        except Exception as error:
            reason = _one_line(error, token)
            if wait_s is None or not _may_pass(error):
                break
            say(f"the upload to {hub.repo} failed ({reason}); again in {wait_s:.0f} s")
            time.sleep(wait_s)
    private = " --private" if hub.private else ""
    life.warn("hub", f"the model is in {run.model}, but it could not be pushed to {hub.repo}: {reason}. "
                     f"To push it later: hf upload {hub.repo} {run.model} .{private}")


def _upload(run: RunDir, preset: Preset, token: str | None) -> str:
    """Returns the address of the repository. Raises Refused, or an error of huggingface_hub."""
    from huggingface_hub import HfApi

    hub = preset.hub
    api = HfApi(endpoint=os.environ.get("HF_ENDPOINT") or None, token=token)
    url = api.create_repo(hub.repo, private=hub.private, exist_ok=True)
    if hub.private and not api.model_info(hub.repo).private:
        raise Refused("the repository is public and hub.private is true; make it private, or set hub.private to false")
    api.upload_folder(repo_id=hub.repo, folder_path=run.model, commit_message=f"{preset.name}, trained with autotrain-wizard")
    return str(url)


def _may_pass(error: Exception) -> bool:
    """Whether the same request may succeed later: anything but a clear no of the server, or of ours."""
    status = getattr(getattr(error, "response", None), "status_code", None)
    if status is not None:
        return status in _MAY_PASS or status >= 500
    # huggingface_hub refuses invalid names and an offline environment with errors of its own
    return not isinstance(error, Refused | ValueError) and type(error).__name__ != "OfflineModeIsEnabled"


def _one_line(error: Exception, token: str | None) -> str:
    words: Any = " ".join(str(error).split())[:300] or type(error).__name__
    return words.replace(token, "***") if token else words
