"""
The token of node agents.

It follows from the service's key, so that every service with that key takes it, no file keeps it, and a new
key makes a new one.
"""

from __future__ import annotations

import base64
import hmac

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from training_service.access.signing_key import SigningKey

_PURPOSE = b"container-training node agent 1"
_BYTES = 32


def agent_token(key: SigningKey) -> str:
    """Return the token that agents show; it opens nothing but their own routes."""
    secret = key.private.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    derived = HKDF(algorithm=SHA256(), length=_BYTES, salt=None, info=_PURPOSE).derive(secret)
    return base64.urlsafe_b64encode(derived).decode().rstrip("=")


def is_agent(token: str, authorization: str | None) -> bool:
    """Tell whether an ``Authorization`` header has the token; takes as long for a wrong one."""
    expected = f"Bearer {token}".encode()
    return hmac.compare_digest(expected, (authorization or "").encode("utf-8", "replace"))
