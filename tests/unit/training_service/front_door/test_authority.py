"""What is issued, as OpenSSL and its library in Python judge it."""

from __future__ import annotations

import ssl
import subprocess
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding

from training_service.front_door import authority as module
from training_service.front_door.authority import LIFETIME, Issued, issue
from training_service.front_door.names import NAMES

NOW = datetime.now(UTC)
CENTRAL = "us-central1-aiplatform.googleapis.com"


def shake_hands(issued: Issued, folder: Path, name: str) -> None:
    """Complete a handshake with a client that trusts the authority alone, and asks for ``name``."""
    (folder / "server.pem").write_bytes(issued.certificate + issued.key)
    of_server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    of_server.load_cert_chain(folder / "server.pem")
    of_client = ssl.create_default_context(cadata=issued.authority.decode())
    # As from Python 3.13 on.
    of_client.verify_flags |= ssl.VERIFY_X509_STRICT
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = of_client.wrap_bio(to_client, to_server, server_hostname=name)
    server = of_server.wrap_bio(to_server, to_client, server_side=True)
    for each in (client, server, client, server):
        try:
            each.do_handshake()
        except ssl.SSLWantReadError:
            continue
    assert client.version() == "TLSv1.3"


@pytest.mark.parametrize("name", [CENTRAL, "aiplatform.googleapis.com", "localhost", "127.0.0.1", "::1"])
def test_a_client_that_trusts_the_authority_takes_the_certificate(name: str, tmp_path: Path) -> None:
    shake_hands(issue(NOW), tmp_path, name)


def test_a_client_does_not_take_it_for_another_name(tmp_path: Path) -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        shake_hands(issue(NOW), tmp_path, "storage.googleapis.com")


def test_each_authority_vouches_for_its_own_certificate_alone(tmp_path: Path) -> None:
    first, second = issue(NOW), issue(NOW)

    with pytest.raises(ssl.SSLCertVerificationError, match="unable to get local issuer"):
        shake_hands(Issued(first.authority, second.certificate, second.key), tmp_path, CENTRAL)


def test_the_certificate_lives_for_a_year(tmp_path: Path) -> None:
    certificate = x509.load_pem_x509_certificate(issue(NOW).certificate)

    assert certificate.not_valid_before_utc < NOW
    assert certificate.not_valid_after_utc == (NOW + LIFETIME).replace(microsecond=0)
    with pytest.raises(ssl.SSLCertVerificationError, match="expired"):
        shake_hands(issue(NOW - LIFETIME - timedelta(seconds=1)), tmp_path, CENTRAL)


def test_openssl_refuses_what_the_authority_signs_for_another_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[ec.EllipticCurvePrivateKey] = []
    generate = ec.generate_private_key

    def keep(curve: ec.EllipticCurve) -> ec.EllipticCurvePrivateKey:
        kept.append(generate(curve))
        return kept[-1]

    # What the service itself never has: the key of the authority, whose certificate is made first.
    monkeypatch.setattr(module.ec, "generate_private_key", keep)
    issued = issue(NOW)
    authority = x509.load_pem_x509_certificate(issued.authority)
    authority_key = next(key for key in kept if key.public_key() == authority.public_key())
    (tmp_path / "authority.pem").write_bytes(issued.authority)

    for name, is_taken in [(CENTRAL, True), ("storage.googleapis.com", False), ("example.com", False)]:
        forged = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([]))
            .issuer_name(authority.subject)
            .public_key(authority_key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(NOW - timedelta(days=1))
            .not_valid_after(NOW + timedelta(days=1))
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=True)
            .sign(authority_key, hashes.SHA256())
        )
        (tmp_path / "forged.pem").write_bytes(forged.public_bytes(Encoding.PEM))
        done = subprocess.run(
            ["openssl", "verify", "-CAfile", "authority.pem", "forged.pem"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode == 0) == is_taken, done.stderr
        assert is_taken or "permitted subtree violation" in done.stderr


def test_the_certificate_signs_nothing_and_the_authority_no_other_authority() -> None:
    issued = issue(NOW)
    authority, certificate = map(x509.load_pem_x509_certificate, (issued.authority, issued.certificate))

    def constraints(of: x509.Certificate) -> x509.BasicConstraints:
        return of.extensions.get_extension_for_class(x509.BasicConstraints).value

    assert constraints(authority) == x509.BasicConstraints(ca=True, path_length=0)
    assert constraints(certificate) == x509.BasicConstraints(ca=False, path_length=None)
    named = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert named.get_values_for_type(x509.DNSName) == [*NAMES]
    assert named.get_values_for_type(x509.IPAddress) == [ip_address("127.0.0.1"), ip_address("::1")]
