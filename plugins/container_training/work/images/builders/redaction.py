"""Keeping secrets out of text that is shown."""

from __future__ import annotations

from collections.abc import Iterable

_MASK = "***"
#: A line of a secret that is shorter than this is no secret by itself, and would hide parts of other words.
_MIN_LINE_LENGTH = 4


class Redaction:
    """
    Replaces secrets in text by ``***``: the whole value, and each line of it.

    A step that prints a secret in another form, such as Base64, is not seen through.
    """

    def __init__(self, secrets: Iterable[bytes]) -> None:
        words: set[str] = set()
        for secret in secrets:
            text = secret.decode("utf-8", "replace").strip()
            words |= {
                text,
                *(line.strip() for line in text.splitlines() if len(line.strip()) >= _MIN_LINE_LENGTH),
            }
        #: The longest first, so that no part of it is left.
        self._words = sorted(words - {""}, key=len, reverse=True)

    def __call__(self, text: str) -> str:
        """Return ``text`` without secrets."""
        for word in self._words:
            text = text.replace(word, _MASK)
        return text
