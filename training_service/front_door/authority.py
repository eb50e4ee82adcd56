"""A certificate for the names of Vertex AI, and the authority that clients trust for it."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from ipaddress import ip_address

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from training_service.front_door.names import ADDRESSES, NAMES

#: Clients refuse certificates of more than 398 days.
LIFETIME = timedelta(days=365)
#: For clients whose clock is behind.
_EARLIER = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Issued:
    """Three PEM texts: of the authority, of the server's certificate, of its key."""

    authority: bytes
    certificate: bytes
    key: bytes


def issue(now: datetime) -> Issued:
    """
    Return a new authority, and the only certificate that it ever signs.

    Its key is dropped here. Beyond that it is constrained to the names. Not to the addresses: BoringSSL, and
    so gRPC, refuses a certificate with addresses whose authority has a constraint on any.
    """
    authority_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    # A name of its own, so that no client takes it for an earlier one.
    authority_name = _name(f"training service, local authority {secrets.token_hex(4)}")
    key_id = x509.SubjectKeyIdentifier.from_public_key(authority_key.public_key())

    authority = (
        _begin(authority_name, authority_name, authority_key, now)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(key_cert_sign=True), critical=True)
        .add_extension(key_id, critical=False)
        .add_extension(x509.NameConstraints([x509.DNSName(name) for name in NAMES], None), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    names = [
        *(x509.DNSName(name) for name in NAMES),
        *(x509.IPAddress(ip_address(address)) for address in ADDRESSES),
    ]
    certificate = (
        _begin(_name("training service"), authority_name, key, now)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(digital_signature=True), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(key_id), critical=False)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    return Issued(
        authority=authority.public_bytes(Encoding.PEM),
        certificate=certificate.public_bytes(Encoding.PEM),
        key=key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
    )


def _begin(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLIER)
        .not_valid_after(now + LIFETIME)
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
