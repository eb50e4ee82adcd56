"""
The service's own key, which signs tokens.

The registry trusts the certificate beside it.
"""

from __future__ import annotations

import base64
import hashlib
import os
import secrets
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import NameOID

from training_api.errors import TrainingError

ALGORITHM = "ES256"
KEY_FILE, CERTIFICATE_FILE = "token-key.pem", "token-certificate.pem"
#: The key is made once and lives as long as the state folder; nothing checks the certificate's dates against
#: a person's.
_LIFETIME = timedelta(days=3650)


class InvalidSigningKey(TrainingError):
    """The key's file cannot be used."""


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A key on the curve P-256."""

    private: ec.EllipticCurvePrivateKey

    @classmethod
    def generate(cls) -> Self:
        """Return a new key, kept nowhere."""
        return cls(ec.generate_private_key(ec.SECP256R1()))

    @classmethod
    def load_or_make(cls, folder: Path) -> Self:
        """
        Return the key of ``folder``; make it, with its certificate, if it does not exist.

        Two processes may ask at once.

        :raises InvalidSigningKey: the file is no such key, or others may read it.
        """
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / KEY_FILE
        if not path.exists():
            pem = cls.generate().private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
            with suppress(FileExistsError):
                create_private(path, pem)
        if path.stat().st_mode & 0o077:
            raise InvalidSigningKey(f"key {str(path)!r} must be its owner's alone: chmod 600 {path}")
        try:
            found = load_pem_private_key(path.read_bytes(), password=None)
        except ValueError as error:
            raise InvalidSigningKey(
                f"{str(path)!r} holds no private key; remove it, and a new one is made"
            ) from error
        if not isinstance(found, ec.EllipticCurvePrivateKey):
            raise InvalidSigningKey(f"{str(path)!r} must hold a key on the curve P-256")
        key = cls(found)
        if not key._is_in(folder / CERTIFICATE_FILE):
            fresh = folder / f"{CERTIFICATE_FILE}.{secrets.token_hex(4)}"
            fresh.write_bytes(key.certificate())
            fresh.replace(folder / CERTIFICATE_FILE)
        return key

    @property
    def id(self) -> str:
        """
        The key's id as the registry derives it (libtrust).

        240 bits of the public key's hash, in groups of four.
        """
        public = self.private.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        text = base64.b32encode(hashlib.sha256(public).digest()[:30]).decode()
        return ":".join(text[place : place + 4] for place in range(0, len(text), 4))

    def certificate(self) -> bytes:
        """Return a certificate that the key itself signs, PEM."""
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "training-service-tokens")])
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(self.private.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + _LIFETIME)
            .sign(self.private, hashes.SHA256())
            .public_bytes(Encoding.PEM)
        )

    def _is_in(self, certificate: Path) -> bool:
        try:
            found = x509.load_pem_x509_certificate(certificate.read_bytes())
        except (OSError, ValueError):
            return False
        return found.public_key() == self.private.public_key()


def create_private(path: Path, content: bytes) -> None:
    """
    Write a file for its owner alone, whole or not at all.

    :raises FileExistsError: another process was first.
    """
    fresh = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.link(fresh, path)
    finally:
        fresh.unlink()
