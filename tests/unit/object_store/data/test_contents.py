"""Files of bytes, and their hashes."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from object_store.data import contents as module
from object_store.data.contents import Contents, Hashes, check_hashes, new_key
from object_store.errors import Invalid, NoRoom


@given(st.lists(st.binary(max_size=50), max_size=8))
def test_hashes_are_those_of_the_whole(pieces: list[bytes]) -> None:
    hashes = Hashes()
    for piece in pieces:
        hashes.feed(piece)
    whole = b"".join(pieces)

    content = hashes.content("k")

    assert content.size == len(whole)
    assert content.md5 == base64.b64encode(hashlib.md5(whole, usedforsecurity=False).digest()).decode()
    assert base64.b64decode(content.crc32c) == google_crc32c.value(whole).to_bytes(4, "big")


def test_a_file_that_grows_further_has_the_hashes_of_all(tmp_path: Path) -> None:
    contents, key = Contents(tmp_path, 0), new_key()
    first = contents.grow(key)
    first.write(b"hello ")
    first.close()
    first.close()

    wrong = Hashes()
    wrong.feed(b"another size")
    for known in (None, first.hashes, wrong):
        again = contents.grow(key, known)
        assert (again.size, again.hashes.content("k")) == (6, first.hashes.content("k"))
        again.close()


def test_a_file_moves_and_is_shared_and_stays_readable_when_it_goes(tmp_path: Path) -> None:
    contents = Contents(tmp_path, 0)
    upload, key, other = new_key(), new_key(), new_key()
    file = contents.grow(upload)
    file.write(b"bytes")
    file.flush()
    file.close()
    contents.keep(upload, key)
    contents.share(key, other)

    assert sorted(contents.files()) == sorted([("contents", key), ("contents", other)])
    with contents.open(key) as reader:
        contents.remove(key)
        contents.remove(key)
        assert reader.read() == b"bytes"
    with pytest.raises(FileNotFoundError):
        contents.open(key)
    with contents.open(other) as reader:
        assert reader.read() == b"bytes"


def test_nothing_grows_below_the_floor(tmp_path: Path) -> None:
    with pytest.raises(NoRoom, match="--floor-bytes"):
        Contents(tmp_path, 1 << 60).grow(new_key())
    assert list((tmp_path / "uploads").iterdir()) == []


def test_a_long_upload_looks_at_the_disk_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    contents = Contents(tmp_path, 1)
    monkeypatch.setattr(module, "_LOOK_BYTES", 10)
    file = contents.grow(new_key())
    file.write(b"x" * 10)
    monkeypatch.setattr(contents, "free_bytes", lambda: 0)

    with pytest.raises(NoRoom):
        file.write(b"x")
    file.close()


def test_a_hash_that_differs_is_said() -> None:
    content = Hashes().content("k")

    check_hashes(content, {"crc32c": content.crc32c, "md5": content.md5 or ""})
    with pytest.raises(Invalid, match="Provided md5 hash 'x' doesn't match"):
        check_hashes(content, {"md5": "x"})
