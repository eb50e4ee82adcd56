"""
Preconditions and generations, which gcp-storage-emulator (2026.7.19) ignores.

Without them a conditional write always succeeds, even if the object has changed since, and a read of an
overwritten generation returns the new contents.

Source: https://cloud.google.com/storage/docs/request-preconditions and .../json_api/v1/objects (2026-11-20).
The store keeps one generation of an object, as a bucket without object versioning does: any other one is not
found.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

from gcp_storage_emulator.exceptions import NotFound

Metadata = Mapping[str, Any]
#: Parameter -> field of the object that it is compared with, and whether equal is what is wanted.
_CONDITIONS = {
    "GenerationMatch": ("generation", True),
    "GenerationNotMatch": ("generation", False),
    "MetagenerationMatch": ("metageneration", True),
    "MetagenerationNotMatch": ("metageneration", False),
}


class ConditionNotMet(Exception):
    """
    The object is not as the request wants it.

    :param is_unchanged: a ``...NotMatch`` of a read: the reader has the contents already (304 instead of
        412).
    """

    def __init__(self, condition: str, wanted: str, found: str, *, is_unchanged: bool = False) -> None:
        self.is_unchanged = is_unchanged
        super().__init__(
            "At least one of the pre-conditions you specified did not hold: "
            f"{condition} is {wanted}, the object's is {found}"
        )


class BadCondition(Exception):
    """The value of a condition is no number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """What one request demands of the objects that it reads and writes."""

    parameters: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, path: str) -> Conditions:
        """
        Return the conditions in the query of ``path``. Pure.

        :raises BadCondition: one is not a number.
        """
        query = {name: values[0] for name, values in parse_qs(urlsplit(path).query).items()}
        for name, value in query.items():
            if name.removeprefix("ifSource").removeprefix("if") in _CONDITIONS and not value.isdecimal():
                raise BadCondition(f"{name} must be a whole number >= 0, got {value!r}")
        return cls(parameters=query)

    def check_write(self, present: Metadata | None) -> None:
        """
        Return if the object may be written, patched or deleted.

        :param present: the object as it is; None if there is none. Its generation counts as 0.
        :raises ConditionNotMet: it may not.
        """
        self._check("if", present, is_read=False)

    def check_read(self, present: Metadata) -> None:
        """
        Return if the object may be read.

        :raises ConditionNotMet: a condition does not hold.
        :raises NotFound: the generation does not exist any more.
        """
        self._require_generation("generation", present)
        self._check("if", present, is_read=True)

    def check_source(self, present: Metadata) -> None:
        """
        Return if the object may be copied from.

        :raises ConditionNotMet: a condition does not hold.
        :raises NotFound: the generation does not exist any more.
        """
        self._require_generation("sourceGeneration", present)
        self._check("ifSource", present, is_read=False)

    def check_delete(self, present: Metadata) -> None:
        """
        Return if the object may be deleted.

        :raises ConditionNotMet: a condition does not hold.
        :raises NotFound: the generation does not exist any more.
        """
        self._require_generation("generation", present)
        self.check_write(present)

    def _require_generation(self, name: str, present: Metadata) -> None:
        wanted = self.parameters.get(name)
        if wanted and wanted != str(present["generation"]):
            raise NotFound(f"generation {wanted} is not there")

    def _check(self, prefix: str, present: Metadata | None, *, is_read: bool) -> None:
        for suffix, (attribute, wants_equal) in _CONDITIONS.items():
            wanted = self.parameters.get(prefix + suffix)
            if wanted is None:
                continue
            found = str(present[attribute]) if present else "0"
            if (int(wanted) == int(found)) is not wants_equal:
                unchanged = is_read and not wants_equal
                raise ConditionNotMet(prefix + suffix, wanted, found, is_unchanged=unchanged)


def next_generation(present: Metadata | None, proposed: str) -> str:
    """
    Return ``proposed``, or one more than the present generation. Pure.

    Generations only grow, also when a clock is set back.
    """
    return str(max(int(proposed), int(present["generation"]) + 1 if present else 0))
