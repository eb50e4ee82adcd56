"""Secrets do not show in the output of a build."""

from __future__ import annotations

import pytest

from container_training.work.images.builders.redaction import Redaction


def test_a_secret_and_its_lines_are_hidden() -> None:
    hide = Redaction([b"-----BEGIN-----\nabcdefgh\nij\n", b"token", b"token-and-more", b"\n"])

    assert hide("say token-and-more: token, abcdefgh, ij") == "say ***: ***, ***, ij"
    assert hide("nothing of it") == "nothing of it"


@pytest.mark.parametrize(
    ("secret", "text", "shown"),
    [
        (b"", "abc", "abc"),
        (b"  token\n", "token", "***"),
        (b"a.b*c", "a.b*c axbbc", "*** axbbc"),
        (b"\xff\xfetoken", "\ufffd\ufffdtoken", "***"),
        (b"user\npassword", "password=password", "***=***"),
    ],
)
def test_a_secret_is_hidden_as_it_stands_and_nothing_else(secret: bytes, text: str, shown: str) -> None:
    assert Redaction([secret])(text) == shown


def test_without_secrets_nothing_changes() -> None:
    assert Redaction([])("*** token") == "*** token"
