"""The files: made once, together, for their owner alone."""

from __future__ import annotations

import os
import signal
import ssl
import stat
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.support.speed import scaled
from training_service.front_door import certificates as module
from training_service.front_door.authority import LIFETIME
from training_service.front_door.certificates import (
    RENEW_BEFORE,
    CertificateFiles,
    CertificatesUnusable,
    ensure_certificates,
)

NOW = datetime.now(UTC)


def contents(files: CertificateFiles) -> list[bytes]:
    return [path.read_bytes() for path in (files.certificate, files.key, files.authority)]


def fits(files: CertificateFiles) -> bool:
    """Tell whether certificate and key are a pair that the authority vouches for."""
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(files.certificate, files.key)
    done = subprocess.run(
        ["openssl", "verify", "-x509_strict", "-CAfile", files.authority, files.certificate],
        check=False,
        capture_output=True,
    )
    return done.returncode == 0


def test_the_files_are_made_once_for_their_owner_alone(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "tls"
    before = os.umask(0)
    try:
        files = ensure_certificates(folder)
    finally:
        os.umask(before)

    assert fits(files)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {path.name for path in folder.iterdir()} == {
        *("certificate.pem", "key.pem", "authority.pem", "bundle.pem", "lock")
    }
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    made = contents(files)
    assert contents(ensure_certificates(folder)) == made


def test_no_key_of_an_authority_is_kept(tmp_path: Path) -> None:
    files = ensure_certificates(tmp_path)

    keys = [path.name for path in tmp_path.iterdir() if b"PRIVATE KEY" in path.read_bytes()]
    assert keys == [files.key.name]
    assert files.key.read_bytes().count(b"BEGIN") == 1


def test_the_bundle_has_what_this_machine_trusts_and_the_authority(tmp_path: Path) -> None:
    files = ensure_certificates(tmp_path)

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(files.bundle)
    alone = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    alone.load_verify_locations(files.authority)
    trusted = context.get_ca_certs(binary_form=True)
    assert len(trusted) > 50
    assert alone.get_ca_certs(binary_form=True)[0] in trusted


def test_the_bundle_follows_what_this_machine_trusts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = ensure_certificates(tmp_path / "other").authority
    files = ensure_certificates(tmp_path / "tls")
    made = contents(files)

    monkeypatch.setenv("SSL_CERT_FILE", str(other))
    ensure_certificates(tmp_path / "tls")

    assert contents(files) == made
    assert files.bundle.read_bytes() == other.read_bytes() + files.authority.read_bytes()


@pytest.mark.parametrize(
    ("later", "is_renewed"),
    [
        (timedelta(0), False),
        (LIFETIME - RENEW_BEFORE - timedelta(minutes=1), False),
        (LIFETIME - RENEW_BEFORE + timedelta(minutes=1), True),
        (LIFETIME * 2, True),
        (-timedelta(days=2), True),
    ],
)
def test_a_certificate_is_renewed_at_a_start_in_the_second_half_of_its_life(
    later: timedelta, is_renewed: bool, tmp_path: Path
) -> None:
    files = ensure_certificates(tmp_path, NOW)
    made = contents(files)

    ensure_certificates(tmp_path, NOW + later)

    assert (contents(files) != made) == is_renewed
    assert files.authority.read_bytes() in files.bundle.read_bytes()


def break_key(files: CertificateFiles) -> None:
    files.key.write_bytes(b"no key")


def open_key(files: CertificateFiles) -> None:
    files.key.chmod(0o640)


def remove_authority(files: CertificateFiles) -> None:
    files.authority.unlink()


def mix_with_another(files: CertificateFiles) -> None:
    files.certificate.write_bytes(ensure_certificates(files.folder / "other").certificate.read_bytes())


def take_authority_of_another(files: CertificateFiles) -> None:
    files.authority.write_bytes(ensure_certificates(files.folder / "other").authority.read_bytes())


def leave_half_a_file(files: CertificateFiles) -> None:
    files.certificate.write_bytes(files.certificate.read_bytes()[:500])
    (files.folder / ".key.pem.new").write_bytes(b"half")


@pytest.mark.parametrize(
    "damage",
    [
        break_key,
        open_key,
        remove_authority,
        mix_with_another,
        take_authority_of_another,
        leave_half_a_file,
    ],
)
def test_files_that_do_not_fit_together_are_made_anew(
    damage: Callable[[CertificateFiles], None], tmp_path: Path
) -> None:
    files = ensure_certificates(tmp_path)
    made = contents(files)
    damage(files)

    assert fits(ensure_certificates(tmp_path))

    assert all(new != old for new, old in zip(contents(files), made, strict=True))
    assert stat.S_IMODE(files.key.stat().st_mode) == 0o600


def test_other_names_than_today_make_new_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = ensure_certificates(tmp_path)
    made = contents(files)

    monkeypatch.setattr(module, "NAMES", (*module.NAMES, "mars-north1-aiplatform.googleapis.com"))

    assert contents(ensure_certificates(tmp_path)) != made


_KILLED = """
import os, signal, sys
from pathlib import Path
from training_service.front_door import certificates
writes = int(sys.argv[2])
write = certificates._write
def write_some(path, content):
    global writes
    if not writes:
        os.kill(os.getpid(), signal.SIGKILL)
    writes -= 1
    write(path, content)
certificates._write = write_some
certificates.ensure_certificates(Path(sys.argv[1]))
"""


@pytest.mark.parametrize("writes", range(4))
def test_a_killed_process_leaves_nothing_that_the_next_one_takes(writes: int, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _KILLED, tmp_path, str(writes)], check=False, timeout=scaled(60)
    )
    assert done.returncode == -signal.SIGKILL

    files = ensure_certificates(tmp_path)

    assert fits(files)
    assert files.authority.read_bytes() in files.bundle.read_bytes()


_RACER = """
import hashlib, sys
from pathlib import Path
from training_service.front_door.certificates import ensure_certificates
print("ready", flush=True)
sys.stdin.readline()
files = ensure_certificates(Path(sys.argv[1]))
read = b"".join(p.read_bytes() for p in (files.certificate, files.key, files.authority, files.bundle))
print(hashlib.sha256(read).hexdigest())
"""


def test_processes_that_start_at_once_have_the_same_files(tmp_path: Path) -> None:
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", _RACER, tmp_path / "tls"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    for racer in racers:
        assert racer.stdout is not None
        assert racer.stdout.readline() == "ready\n"
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("go\n")
        racer.stdin.flush()
    said = {racer.communicate(timeout=scaled(60))[0].splitlines()[-1] for racer in racers}

    assert len(said) == 1
    assert fits(CertificateFiles(tmp_path / "tls"))


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(CertificatesUnusable, match="TRAINING_CERTIFICATES_DIR"):
        ensure_certificates(tmp_path / "file" / "tls")


def test_the_lock_is_no_way_to_another_file(tmp_path: Path) -> None:
    folder = tmp_path / "tls"
    folder.mkdir()
    (folder / "lock").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(CertificatesUnusable):
        ensure_certificates(folder)

    assert not (tmp_path / "elsewhere").exists()
