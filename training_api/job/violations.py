"""All broken rules of a request, by the camelCase path of the field."""

from __future__ import annotations

import re

from training_api.errors import FieldViolation


class Violations:
    """Collects ``FieldViolation`` in the order in which the rules are looked at."""

    def __init__(self) -> None:
        self.found: list[FieldViolation] = []

    def add(self, path: str, description: str) -> None:
        """Record that the field at ``path`` breaks the rule that ``description`` states."""
        self.found.append(FieldViolation(field=path, description=description))

    def check_form(self, path: str, text: str | None, pattern: re.Pattern[str], form: str) -> None:
        """
        Record a ``text`` that ``pattern`` does not match whole.

        Empty text is an unset field in the API's terms.
        """
        if text and not pattern.fullmatch(text):
            self.add(path, f"must be {form}; got {text!r}")
