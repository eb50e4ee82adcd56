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

_REFERENCE = re.compile(r"\$\$|\$\(([A-Za-z_][A-Za-z0-9_.-]*)\)")


def expanded(text: str, known: Mapping[str, str]) -> str:
    """Return ``text`` with the values of what it refers to; an unknown name stays as it is."""

    def value(found: re.Match[str]) -> str:
        if found[1] is None:
            return "$"  # $$ is one $, and so $$(NAME) is no reference
        return known.get(found[1], found[0])

    return _REFERENCE.sub(value, text)


def variables_of(given: Iterable[Mapping[str, Any]], known: Mapping[str, str]) -> dict[str, str]:
    """
    Return ``known`` and the variables ``given`` on top, each expanded by those before it.

    :param given: ``env`` of a container: ``{"name": ..., "value": ...}``.
    """
    variables = dict(known)
    for each in given:
        variables[each["name"]] = expanded(each.get("value", ""), variables)
    return variables
