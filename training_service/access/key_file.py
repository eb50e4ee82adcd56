"""
The key file of a service account, in the form that Google's libraries read.

Its token endpoint is this service's, so that a library that wants a token asks here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from training_api.errors import TrainingError
from training_service.access.account_keys import MIN_KEY_BITS
from training_service.access.signing_key import create_private

#: Of an account in a project [IAM: "Create service accounts"].
_ACCOUNT = re.compile(r"(?P<name>[a-z0-9-]+)@(?P<project>[a-z0-9-]+)\.iam\.gserviceaccount\.com")


class InvalidKeyFile(TrainingError):
    """The file, or the account that it shall be for, cannot be used."""


def make_key_file(path: Path, account: str, token_uri: str) -> None:
    """
    Make the key file of ``account``, for its owner alone; one that is there stays.

    :param token_uri: URL of the service's ``/token``.
    :raises InvalidKeyFile: ``account`` is no email of a service account.
    """
    found = _ACCOUNT.fullmatch(account)
    if not found:
        raise InvalidKeyFile(
            f"the account must be NAME@PROJECT.iam.gserviceaccount.com, got {account!r}; give the email of a service account"
        )
    key = rsa.generate_private_key(public_exponent=65537, key_size=MIN_KEY_BITS)
    content = {
        "type": "service_account",
        "project_id": found["project"],
        "private_key": key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode(),
        "client_email": account,
        "token_uri": token_uri,
        "universe_domain": "googleapis.com",
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        create_private(path, json.dumps(content, indent=2).encode())


def public_key_of(path: Path) -> str:
    """Return the public half of a key file, PEM. :raises InvalidKeyFile: it has no key."""
    try:
        content: Mapping[str, Any] = json.loads(path.read_text("utf-8"))
        key = load_pem_private_key(str(content["private_key"]).encode(), password=None)
    except (OSError, ValueError, KeyError, TypeError):
        raise InvalidKeyFile(
            f"{str(path)!r} is no key file of a service account; remove it, and a new one is made"
        ) from None
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
