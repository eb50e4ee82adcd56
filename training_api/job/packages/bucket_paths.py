"""Words of a command that name objects of Cloud Storage as files. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

_BUCKET = r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]"
#: What ends a name within a word: a shell's own characters, quotes, and what separates values in a list.
_END = r"""\s'"`\\;&|<>(){}\[\]$*?,"""


def named_objects(folder: str, words: Iterable[str]) -> tuple[str, ...]:
    """
    Return ``BUCKET/NAME`` of each object that ``words`` name, once, in their order.

    :param folder: below which a dialect shows buckets.
    """
    return tuple(dict.fromkeys(name for word in words for name in _objects(folder).findall(word)))


def names_no_object(folder: str, word: str) -> bool:
    """Tell whether ``word`` names ``folder``, a bucket, a folder in it, or a path with ``..``."""
    mentions = re.findall(rf"{_beginning(folder)}(?=[/{_END}]|$)", word)
    return len(mentions) > len(_objects(folder).findall(word))


def _objects(folder: str) -> re.Pattern[str]:
    # A path with dots leads to another file than the object of that name.
    dots = rf"(?:[^{_END}]*/)?\.\.?(?:[/{_END}]|$)"
    return re.compile(rf"{_beginning(folder)}/({_BUCKET}/(?!{dots})[^{_END}]*[^{_END}/])(?=[{_END}]|$)")


def _beginning(folder: str) -> str:
    # Not in the middle of another path, or of a name.
    return rf"(?<![\w./-]){re.escape(folder)}"
