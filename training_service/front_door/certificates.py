"""The files of the service's certificate: made once, and anew before it expires."""

from __future__ import annotations

import fcntl
import os
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import structlog
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from training_api.errors import TrainingError
from training_service.front_door.authority import issue
from training_service.front_door.names import NAMES

#: A service looks only when it starts, and may then run for as long.
RENEW_BEFORE = timedelta(days=180)
_OWNER_ONLY = 0o600
_OTHERS = 0o077

logger = structlog.get_logger(__name__)


class CertificatesUnusable(TrainingError):
    """The folder of the certificate cannot be used."""


@dataclass(frozen=True, slots=True)
class CertificateFiles:
    """Where the PEM files are, in a folder that is its owner's alone."""

    folder: Path

    @property
    def certificate(self) -> Path:
        """The server's certificate."""
        return self.folder / "certificate.pem"

    @property
    def key(self) -> Path:
        """Its key."""
        return self.folder / "key.pem"

    @property
    def authority(self) -> Path:
        """The authority that clients trust."""
        return self.folder / "authority.pem"

    @property
    def bundle(self) -> Path:
        """The same authority after those that this machine trusts, for clients that take one file."""
        return self.folder / "bundle.pem"


def ensure_certificates(folder: Path, now: datetime | None = None) -> CertificateFiles:
    """
    Return the files of a certificate that is good for half a year at least.

    They are made if there are none, or none that fit together; two processes may ask at once. None is worth
    keeping: whatever a killed process has left is made anew as a whole.

    :param now: for tests.
    :raises CertificatesUnusable: the folder cannot be written.
    """
    files = CertificateFiles(folder.absolute())
    try:
        files.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        files.folder.chmod(0o700)
        descriptor = os.open(files.folder / "lock", os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, _OWNER_ONLY)
        with os.fdopen(descriptor, "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            _ensure(files, now or datetime.now(UTC))
    except OSError as error:
        raise CertificatesUnusable(
            f"the folder of certificates {str(folder)!r} must be this user's and writable: {error}; choose "
            "another one by TRAINING_CERTIFICATES_DIR"
        ) from error
    return files


def _ensure(files: CertificateFiles, now: datetime) -> None:
    if not _is_good(files, now):
        issued = issue(now)
        _write(files.key, issued.key)
        _write(files.certificate, issued.certificate)
        _write(files.authority, issued.authority)
        logger.info("made a certificate for the names of Vertex AI", authority=str(files.authority))
    bundle = _trusted_here() + files.authority.read_bytes()
    if not files.bundle.exists() or files.bundle.read_bytes() != bundle:
        _write(files.bundle, bundle)


def _is_good(files: CertificateFiles, now: datetime) -> bool:
    try:
        if files.key.stat().st_mode & _OTHERS:
            return False
        key = load_pem_private_key(files.key.read_bytes(), password=None)
        certificate = x509.load_pem_x509_certificate(files.certificate.read_bytes())
        certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(files.authority.read_bytes()))
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (OSError, ValueError, TypeError, InvalidSignature, x509.ExtensionNotFound):
        return False
    return (
        key.public_key() == certificate.public_key()
        and names.get_values_for_type(x509.DNSName) == [*NAMES]
        and certificate.not_valid_before_utc <= now <= certificate.not_valid_after_utc - RENEW_BEFORE
    )


def _trusted_here() -> bytes:
    """Return what the service's own clients trust: SSL_CERT_FILE, else certifi's authorities."""
    found = httpx.create_ssl_context().get_ca_certs(binary_form=True)
    return "".join(map(ssl.DER_cert_to_PEM_cert, found)).encode()


def _write(path: Path, content: bytes) -> None:
    """Replace ``path`` by a file for its owner alone, at once or not at all; under the lock."""
    fresh = path.with_name(f".{path.name}.new")
    fresh.unlink(missing_ok=True)
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _OWNER_ONLY), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
