"""
``$(NAME)`` in the variables, the command and the arguments of a container. Pure.

discovery: EnvVar.value "Variables that reference a $(VAR_NAME) are expanded using the previous defined
environment variables in the container and any service environment variables. If a variable cannot be
resolved, the reference in the input string will be unchanged. The $(VAR_NAME) syntax can be escaped with a
double $$, ie: $$(VAR_NAME)."
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

#: Characters of all variables, the command and the arguments of one container, once they are expanded.
MAX_EXPANDED = 1024**2
#: The longest variables of the service name every replica of a job; all others are short.
_LONG = frozenset({"CLUSTER_SPEC", "TF_CONFIG"})
_LONGEST, _LONG_ENOUGH = 64 * 1024, 1024
_REFERENCE = re.compile(r"\$\$|\$\(([A-Za-z_][A-Za-z0-9_.-]*)\)")


def expanded(text: str, known: Mapping[str, str]) -> str:
    """Return ``text`` with the values of what it refers to; an unknown name stays as it is."""

    def value(found: re.Match[str]) -> str:
        if found[1] is None:
            return "$"  # $$ is one $, and so $$(NAME) is no reference
        return known.get(found[1], found[0])

    return _REFERENCE.sub(value, text)


def expanded_length(given: Iterable[Mapping[str, Any]], words: Iterable[str]) -> int:
    """
    Return how many characters ``given`` and ``words`` have at most when they are expanded.

    Each variable may refer twice to the one before it, so that a hundred of them would not fit into memory.
    """
    lengths: dict[str, int] = {}
    total = 0
    for each in given:
        lengths[each.get("name", "")] = length = _length(each.get("value", ""), lengths)
        total += length
    return total + sum(_length(word, lengths) for word in words)


def _length(text: str, lengths: Mapping[str, int]) -> int:
    total = len(text)
    for found in _REFERENCE.finditer(text):
        if found[1] is not None:
            own = _LONGEST if found[1] in _LONG else _LONG_ENOUGH
            total += lengths.get(found[1], own)
    return total


def variables_of(given: Iterable[Mapping[str, Any]], known: Mapping[str, str]) -> dict[str, str]:
    """
    Return ``known`` and the variables ``given`` on top, each expanded by those before it.

    :param given: ``env`` of a container: ``{"name": ..., "value": ...}``.
    """
    variables = dict(known)
    for each in given:
        variables[each["name"]] = expanded(each.get("value", ""), variables)
    return variables
