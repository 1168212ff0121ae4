"""The launcher's words, as torch writes them, in plain ones."""

from __future__ import annotations

import pytest

from wizard.launch.join_failures import explained


@pytest.mark.parametrize(("log", "words"), [
    ("torch.distributed.DistStoreError: Timed out after 7 seconds waiting for clients. 1/2 clients joined.",
     "only 1 of 2 machines joined within 7 s"),
    ("torch.distributed.DistNetworkError: The client socket has timed out after 6000ms while trying to connect to (10.0.0.1, 29500).",
     "did not answer at 10.0.0.1 port 29500 within 6 s"),
    ("The client socket has failed to connect to any network address of (head, 29500). The client socket has failed (errno: 111)",
     "cannot be reached at head port 29500"),
    ("[c10d] TCP client failed to connect/validate to host 10.0.0.1:29778 - timed out (try=4, timeout=2000ms): Ping failed, invalid value",
     "what answers at 10.0.0.1 port 29778 is no training"),
    ("The server socket has failed to listen on any local network address. port: 29777, useIpv6: false, code: -98, name: EADDRINUSE, "
     "message: address already in use", "port 29777 is in use"),
    ("ConnectionError: Tried to launch distributed communication on port `29500`, but another process is utilizing it.", "port 29500 is in use"),
    ("RuntimeError: Gloo connectFullMesh failed with [...] Connection refused, remote=[127.0.1.1]:4711", "loopback address"),
    ("RuntimeError: Unable to find address for: eth7", "interface eth7 has no address"),
])
def test_what_is_known_is_explained_with_what_to_do(log, words):
    first, todo = explained(f"Traceback (most recent call last):\n{log}\n").split("\n")
    assert words in first and todo


def test_the_unknown_and_the_harmless_are_left_alone():
    assert explained("ValueError: nothing of ours") is None
    assert explained("[c10d] The hostname of the client socket cannot be retrieved. err=-3") is None
