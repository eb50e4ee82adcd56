"""What another machine runs to take part: a script for a shell of root."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from local_stack.machines.swarm import GOSSIP_PORT, MANAGER_PORT

_SCRIPT = Path(__file__).with_name("join.sh")
#: No quote, so that it stays one word of a shell, and no end of the text around it.
_PEM = re.compile(r"^[A-Za-z0-9+/=\n -]+$")


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinCommand:
    """
    The values that the script gets.

    :param address: of the first machine.
    :param gate_url: where its token is exchanged for Swarm's.
    :param registry: ``HOST:PORT``.
    :param ports: TCP ports that must be reached, beside those of Swarm.
    :param authority: certificate of the stack's authority, PEM.
    :param token: good once.
    :param agent_folder: what the machine makes for its agent.
    :param certificates: where engines look for the authorities of registries.
    """

    address: str
    gate_url: str
    registry: str
    ports: tuple[int, ...]
    authority: str
    token: str
    agent_folder: str
    certificates: str = "/etc/docker/certs.d"

    def script(self) -> str:
        """
        Return the script; all that it does stands in it, and nothing of it is fetched.

        :raises ValueError: the authority is no PEM text.
        """
        if not _PEM.match(self.authority):
            raise ValueError("the certificate of the authority must be PEM")
        told = {
            "address": self.address,
            "gate": self.gate_url,
            "registry": self.registry,
            "ports": " ".join(map(str, (*self.ports, MANAGER_PORT, GOSSIP_PORT))),
            "certificates": self.certificates,
            "metrics": self.agent_folder,
            "token": self.token,
            "authority": self.authority.strip(),
        }
        lines = [f"{name}={shlex.quote(text)}" for name, text in told.items()]
        return "\n".join(["sh <<'JOIN'", *lines, _SCRIPT.read_text("utf-8").rstrip("\n"), "JOIN"])
