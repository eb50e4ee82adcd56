"""
The tokens of node agents, one a machine.

They follow from the service's key, so that every service with that key takes them, no file keeps them, and a
new key makes new ones.
"""

from __future__ import annotations

import base64
import hmac

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from training_service.access.signing_key import SigningKey

_PURPOSE = b"container-training node agent 2"
_BYTES = 32
_SCHEME = "Bearer "


class AgentTokens:
    """
    Makes and reads the tokens of agents.

    A token is ``MACHINE.CODE``, where the code is an HMAC-SHA-256 of the machine. It opens nothing but the
    routes of agents, and speaks for its machine alone.
    """

    def __init__(self, key: SigningKey) -> None:
        secret = key.private.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
        self._key = HKDF(algorithm=SHA256(), length=_BYTES, salt=None, info=_PURPOSE).derive(secret)

    def of(self, machine: str) -> str:
        """
        Return the token of a machine's agent.

        :param machine: its id in the swarm.
        """
        code = hmac.digest(self._key, machine.encode(), "sha256")
        return f"{machine}.{base64.urlsafe_b64encode(code).decode().rstrip('=')}"

    def machine_of(self, authorization: str | None) -> str | None:
        """
        Return the machine of an ``Authorization`` header; ``None`` if its token is wrong.

        It takes as long for a wrong code as for the right one.
        """
        header = authorization or ""
        machine, dot, _ = header.removeprefix(_SCHEME).rpartition(".")
        expected = f"{_SCHEME}{self.of(machine)}".encode()
        is_right = hmac.compare_digest(expected, header.encode("utf-8", "replace"))
        return machine if dot and is_right else None
