import base64
from pathlib import Path

from local_stack.people.authorities import certificates_in, extra_authorities


def pem(content: bytes) -> str:
    body = base64.encodebytes(content).decode()
    return f"-----BEGIN CERTIFICATE-----\n{body}-----END CERTIFICATE-----\n"


def make_host(
    tmp_path: Path, *, trusted: list[bytes], packaged: list[bytes], added: list[bytes]
) -> tuple[Path, Path, Path]:
    """Lay out a machine's certificate files as Debian does."""
    bundle, packaged_dir, added_dir = tmp_path / "bundle.crt", tmp_path / "packaged", tmp_path / "added"
    bundle.write_text("".join(map(pem, trusted)))
    for folder, contents in ((packaged_dir / "mozilla", packaged), (added_dir, added)):
        folder.mkdir(parents=True)
        for number, content in enumerate(contents):
            (folder / f"{number}.crt").write_text(pem(content))
    return bundle, packaged_dir, added_dir


def test_a_machine_with_the_usual_authorities_has_no_extra_ones(tmp_path: Path) -> None:
    host = make_host(tmp_path, trusted=[b"a", b"b"], packaged=[b"a", b"b", b"not selected"], added=[])

    assert extra_authorities(*host) == frozenset()


def test_an_authority_that_only_the_bundle_has_is_extra(tmp_path: Path) -> None:
    host = make_host(tmp_path, trusted=[b"a", b"inspector"], packaged=[b"a"], added=[])

    assert extra_authorities(*host) == {b"inspector"}


def test_an_added_authority_is_extra_even_where_no_package_lists_the_usual_ones(tmp_path: Path) -> None:
    host = make_host(
        tmp_path, trusted=[b"a", b"inspector"], packaged=[], added=[b"inspector", b"not in the bundle"]
    )

    assert extra_authorities(*host) == {b"inspector"}


def test_without_a_bundle_there_is_nothing_to_copy(tmp_path: Path) -> None:
    assert extra_authorities(tmp_path / "none", tmp_path, tmp_path) == frozenset()


def test_what_is_not_a_certificate_is_left_out() -> None:
    text = (
        "# comment\n"
        + pem(b"one")
        + "-----BEGIN CERTIFICATE-----\n!!!\n-----END CERTIFICATE-----\n"
        + pem(b"two")
    )

    assert certificates_in(text) == {b"one", b"two"}
