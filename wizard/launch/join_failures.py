"""Why ranks on several machines, or a launcher and its port, did not come together: the launcher's words in plain ones."""

from __future__ import annotations

import re

#: What the launcher's log says (torch 2.6 to 2.13), and what it means. Groups of the pattern fill the words.
_KNOWN = (
    (r"validate to host (?P<host>\S+):(?P<port>\d+) - timed out.*Ping failed",
     "what answers at {host} port {port} is no training.\n"
     "set another distributed.main_port, the same on every machine, and check distributed.main_address"),
    (r"Timed out after (?P<s>\d+) seconds waiting for clients\. (?P<here>\d+)/(?P<all>\d+) clients joined",
     "only {here} of {all} machines joined within {s} s.\n"
     "start `run` on every machine, each with its own --node-rank and the same distributed.main_address and main_port; "
     "where they are, a firewall may hold them off (distributed.join_timeout_s is how long to wait)"),
    (r"timed out after (?P<ms>\d+)\s*ms while trying to connect to \(?(?P<host>[^,)]+), (?P<port>\d+)\)?",
     "the first machine did not answer at {host} port {port} within {s} s.\n"
     "start `run --node-rank 0` there; where it runs, check distributed.main_address and main_port, and its firewall"),
    (r"failed to connect to any network address of \(?(?P<host>[^,)]+), (?P<port>\d+)\)?",
     "the first machine cannot be reached at {host} port {port}.\n"
     "check distributed.main_address and main_port, the network between the machines, and the first one's firewall"),
    (r"Unable to find address for:? (?P<name>\S+)",
     "the network interface {name} has no address on this machine.\nset distributed.network_interface"),
    (r"connectFullMesh failed.*remote=\[127\.",
     "the ranks could not connect: a machine offered its loopback address to the others.\n"
     "set distributed.network_interface on every machine to the interface that leads to the others"),
)
_PORT = re.compile(r"EADDRINUSE|address already in use|Tried to launch distributed communication on port", re.IGNORECASE)
_PORT_NUMBER = re.compile(r"port:? `?(\d+)")


def explained(log: str) -> str | None:
    """What went wrong and, on a second line, what to do; None when the log says nothing known."""
    for pattern, words in _KNOWN:
        found = re.search(pattern, log)
        if found:
            groups = found.groupdict()
            if "ms" in groups:
                groups["s"] = f"{int(groups['ms']) / 1000:g}"
            return words.format(**groups)
    taken = _PORT.search(log)
    if taken:
        number = _PORT_NUMBER.search(log, max(0, taken.start() - 200))
        return (f"{f'port {number.group(1)}' if number else 'the port'} is in use on this machine.\n"
                "set another distributed.main_port, the same on every machine")
    return None
