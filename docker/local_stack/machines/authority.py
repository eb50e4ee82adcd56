"""
The stack's own authority, which other machines trust, and the certificate of its address.

Unlike the authority of the training service for Vertex AI's names, its key stays: machines that have joined
trust the authority for years, and the certificate is renewed under it.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

import httpx
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from local_stack.people.credentials import write_private

_AUTHORITY_LIFETIME = timedelta(days=3650)
#: Clients refuse certificates of servers of more than 398 days.
_LIFETIME = timedelta(days=365)
#: A registry reads it when it starts, and may then run for as long.
_RENEW_BEFORE = timedelta(days=180)
#: For machines whose clock is behind.
_EARLIER = timedelta(days=1)
_OTHERS = 0o077


@dataclass(frozen=True, slots=True)
class AuthorityFiles:
    """The PEM files, in a folder that is its owner's alone."""

    folder: Path

    @property
    def authority(self) -> Path:
        """The certificate of the authority, which is public."""
        return self.folder / "authority.pem"

    @property
    def authority_key(self) -> Path:
        """The authority's key."""
        return self.folder / "authority-key.pem"

    @property
    def certificate(self) -> Path:
        """The certificate of the address."""
        return self.folder / "certificate.pem"

    @property
    def key(self) -> Path:
        """Its key."""
        return self.folder / "key.pem"

    @property
    def bundle(self) -> Path:
        """The authorities that this machine trusts, and this one."""
        return self.folder / "bundle.pem"


def ensure_certificate(folder: Path, address: IPv4Address, now: datetime | None = None) -> AuthorityFiles:
    """
    Return the files of a certificate for ``address`` that is good for half a year at least.

    The authority stays while the address does. What a killed command has left is made anew; a certificate
    without its key, or of another authority, counts as none. One process at a time, under the stack's lock.

    :param now: for tests.
    """
    files = AuthorityFiles(folder)
    now = now or datetime.now(UTC)
    authority = _read_authority(files, address, now)
    if authority is None:
        _make_authority(files, address, now)
    if authority is None or not _is_good(files, address, now):
        _make_certificate(files, address, now)
    bundle = _trusted_here() + files.authority.read_text("ascii")
    if not files.bundle.exists() or files.bundle.read_text("ascii") != bundle:
        write_private(files.bundle, bundle)
    return files


def _read_authority(files: AuthorityFiles, address: IPv4Address, now: datetime) -> x509.Certificate | None:
    """Return the authority that is there; ``None``: none that is whole, and for this address."""
    try:
        if files.authority_key.stat().st_mode & _OTHERS:
            return None
        key = load_pem_private_key(files.authority_key.read_bytes(), password=None)
        authority = x509.load_pem_x509_certificate(files.authority.read_bytes())
        allowed = authority.extensions.get_extension_for_class(x509.NameConstraints).value
    except (OSError, ValueError, TypeError, x509.ExtensionNotFound):
        return None
    is_whole = key.public_key() == authority.public_key()
    is_for_it = allowed.permitted_subtrees == [x509.IPAddress(IPv4Network(address))]
    return authority if is_whole and is_for_it and now <= authority.not_valid_after_utc - _LIFETIME else None


def _make_authority(files: AuthorityFiles, address: IPv4Address, now: datetime) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name(f"training stack at {address}")
    authority = (
        _begin(name, name, key, now, _AUTHORITY_LIFETIME)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(key_cert_sign=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        # A stolen key of the authority is good for this one address.
        .add_extension(x509.NameConstraints([x509.IPAddress(IPv4Network(address))], None), critical=True)
        .sign(key, hashes.SHA256())
    )
    write_private(files.authority_key, _pem(key))
    write_private(files.authority, authority.public_bytes(Encoding.PEM).decode("ascii"))


def _make_certificate(files: AuthorityFiles, address: IPv4Address, now: datetime) -> None:
    authority_key = load_pem_private_key(files.authority_key.read_bytes(), password=None)
    authority = x509.load_pem_x509_certificate(files.authority.read_bytes())
    if not isinstance(authority_key, ec.EllipticCurvePrivateKey):
        raise TypeError(f"the key in {files.authority_key} must be of an elliptic curve; remove the file")
    key = ec.generate_private_key(ec.SECP256R1())
    issuer = x509.SubjectKeyIdentifier.from_public_key(authority_key.public_key())
    certificate = (
        _begin(_name(str(address)), authority.subject, key, now, _LIFETIME)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(digital_signature=True), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(issuer), critical=False)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(address)]), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    write_private(files.key, _pem(key))
    write_private(files.certificate, certificate.public_bytes(Encoding.PEM).decode("ascii"))


def _is_good(files: AuthorityFiles, address: IPv4Address, now: datetime) -> bool:
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
        and names.get_values_for_type(x509.IPAddress) == [address]
        and certificate.not_valid_before_utc <= now <= certificate.not_valid_after_utc - _RENEW_BEFORE
    )


def _begin(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    now: datetime,
    lifetime: timedelta,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLIER)
        .not_valid_after(now + lifetime)
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _usage(*, digital_signature: bool = False, key_cert_sign: bool = False) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=digital_signature,
        key_cert_sign=key_cert_sign,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode("ascii")


def _trusted_here() -> str:
    """Return what clients trust without the bundle: OpenSSL's authorities, and httpx's."""
    contexts = (ssl.create_default_context(), httpx.create_ssl_context())
    found = dict.fromkeys(each for context in contexts for each in context.get_ca_certs(binary_form=True))
    return "".join(map(ssl.DER_cert_to_PEM_cert, found))
