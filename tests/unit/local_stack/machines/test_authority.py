"""The stack's authority stays while its address does; its certificates are renewed."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path

import pytest
from cryptography import x509

from local_stack.machines.authority import AuthorityFiles, ensure_certificate

ADDRESS = IPv4Address("10.0.0.5")
NOW = datetime(2026, 11, 25, tzinfo=UTC)


def contents(files: AuthorityFiles) -> tuple[bytes, bytes]:
    return files.authority.read_bytes(), files.certificate.read_bytes()


def test_a_second_time_nothing_is_made_anew(tmp_path: Path) -> None:
    before = contents(ensure_certificate(tmp_path, ADDRESS, NOW))

    assert contents(ensure_certificate(tmp_path, ADDRESS, NOW + timedelta(days=100))) == before


def test_a_certificate_is_renewed_under_the_authority_that_machines_trust(tmp_path: Path) -> None:
    authority, certificate = contents(ensure_certificate(tmp_path, ADDRESS, NOW))

    later = contents(ensure_certificate(tmp_path, ADDRESS, NOW + timedelta(days=200)))

    assert later[0] == authority
    assert later[1] != certificate
    made = x509.load_pem_x509_certificate(later[1])
    made.verify_directly_issued_by(x509.load_pem_x509_certificate(authority))
    assert made.not_valid_after_utc - made.not_valid_before_utc <= timedelta(days=398)


def test_the_authority_vouches_for_its_address_alone_and_another_address_gets_another(tmp_path: Path) -> None:
    files = ensure_certificate(tmp_path, ADDRESS, NOW)
    before = files.authority.read_bytes()
    extensions = x509.load_pem_x509_certificate(before).extensions
    constraints = extensions.get_extension_for_class(x509.NameConstraints)

    ensure_certificate(tmp_path, IPv4Address("10.0.0.6"), NOW)

    assert constraints.critical
    assert [str(each.value) for each in constraints.value.permitted_subtrees or ()] == ["10.0.0.5/32"]
    assert files.authority.read_bytes() != before


@pytest.mark.parametrize("name", ["authority.pem", "authority-key.pem", "certificate.pem", "key.pem"])
@pytest.mark.parametrize("content", [None, b"", b"half of"])
def test_what_a_killed_command_has_left_is_made_anew(
    tmp_path: Path, name: str, content: bytes | None
) -> None:
    ensure_certificate(tmp_path, ADDRESS, NOW)
    if content is None:
        (tmp_path / name).unlink()
    else:
        (tmp_path / name).write_bytes(content)

    files = ensure_certificate(tmp_path, ADDRESS, NOW)

    certificate = x509.load_pem_x509_certificate(files.certificate.read_bytes())
    certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(files.authority.read_bytes()))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate, files.key)


def test_keys_are_their_owners_alone_and_one_that_others_could_read_is_replaced(tmp_path: Path) -> None:
    files = ensure_certificate(tmp_path, ADDRESS, NOW)
    before = files.key.read_bytes()
    files.key.chmod(0o644)

    ensure_certificate(tmp_path, ADDRESS, NOW)

    assert files.key.read_bytes() != before
    assert {path.stat().st_mode & 0o077 for path in (files.key, files.authority_key)} == {0}


def test_the_bundle_has_the_authority_and_those_that_clients_trust_anyway(tmp_path: Path) -> None:
    files = ensure_certificate(tmp_path, ADDRESS, NOW)

    bundle = files.bundle.read_text()

    assert files.authority.read_text() in bundle
    assert bundle.count("BEGIN CERTIFICATE") > 10
