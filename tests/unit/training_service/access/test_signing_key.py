"""The key that signs tokens: made once, its owner's alone, with a certificate of it."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from training_service.access.signing_key import CERTIFICATE_FILE, KEY_FILE, InvalidSigningKey, SigningKey


def test_the_key_is_made_once_for_its_owner_with_a_certificate_of_it(tmp_path: Path) -> None:
    folder = tmp_path / "keys"
    key = SigningKey.load_or_make(folder)
    again = SigningKey.load_or_make(folder)

    assert again.id == key.id
    assert stat.S_IMODE((folder / KEY_FILE).stat().st_mode) == 0o600
    certificate = x509.load_pem_x509_certificate((folder / CERTIFICATE_FILE).read_bytes())
    assert certificate.public_key() == key.private.public_key()
    assert sorted(path.name for path in folder.iterdir()) == [CERTIFICATE_FILE, KEY_FILE]


def test_a_certificate_of_another_key_is_replaced(tmp_path: Path) -> None:
    (tmp_path / CERTIFICATE_FILE).write_bytes(SigningKey.generate().certificate())

    key = SigningKey.load_or_make(tmp_path)

    certificate = x509.load_pem_x509_certificate((tmp_path / CERTIFICATE_FILE).read_bytes())
    assert certificate.public_key() == key.private.public_key()


def test_a_key_that_others_may_read_and_a_file_that_is_no_key_are_refused(tmp_path: Path) -> None:
    SigningKey.load_or_make(tmp_path)
    (tmp_path / KEY_FILE).chmod(0o644)
    with pytest.raises(InvalidSigningKey, match="must be its owner's alone"):
        SigningKey.load_or_make(tmp_path)
    (tmp_path / KEY_FILE).write_text("nonsense")
    (tmp_path / KEY_FILE).chmod(0o600)
    with pytest.raises(InvalidSigningKey, match="holds no private key"):
        SigningKey.load_or_make(tmp_path)


def test_a_key_of_another_kind_is_refused(tmp_path: Path) -> None:
    other = rsa.generate_private_key(65537, 2048)
    (tmp_path / KEY_FILE).write_bytes(other.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    (tmp_path / KEY_FILE).chmod(0o600)

    with pytest.raises(InvalidSigningKey, match="on the curve P-256"):
        SigningKey.load_or_make(tmp_path)


def test_a_keys_id_is_its_own_and_as_long_as_the_registry_wants_it() -> None:
    one, other = SigningKey.generate(), SigningKey.generate()

    assert one.id == SigningKey(one.private).id != other.id
    assert [len(part) for part in one.id.split(":")] == [4] * 12
