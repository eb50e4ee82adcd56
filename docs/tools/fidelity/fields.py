"""
What becomes of each field of the API, found out by sending samples through the code.

A field is *refused* if a job with a good value of it is refused. It is *validated* if a wrong value is
refused, and *echoed* if the answer to a created job has it as it was sent. What is *enforced* cannot be found
out this way: ``notes.py`` says it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from docs.tools.fidelity.note import Note, Sample
from docs.tools.fidelity.probe import Probe, indexed, join
from docs.tools.fidelity.reference import Reference, Root

_NO_SUCH_VALUE = "NO_SUCH_VALUE"


class Check(StrEnum):
    """What is checked of a value; the value is the word on the page."""

    TYPE = "type"  #: its JSON type
    VALUES = "values"  #: that it is a member of the enum
    RULE = "rule"  #: a documented rule for this field


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldRow:
    """
    One field of a schema.

    :param output: only the service sets it; a value in a request is ignored.
    :param accepted: a request may have it.
    :param echoed: the answer has a request's value as it was sent; of an output field: some answer has it.
    :param refused: the words of the refusal; empty: a good value is not refused.
    :param refused_values: the good values that are refused while others are not.
    """

    schema: str
    name: str
    output: bool
    accepted: bool
    checks: tuple[Check, ...]
    echoed: bool
    refused: str = ""
    refused_values: tuple[str, ...] = ()
    note: Note

    @property
    def key(self) -> str:
        """How ``NOTES`` names the field."""
        return f"{self.schema}.{self.name}"

    @property
    def needs_reason(self) -> bool:
        """Whether the field has no effect, or is never set, and no note tells the user so."""
        if self.output:
            return not self.echoed and not self.note.enforced
        return not self.refused and not self.note.enforced


def field_rows(reference: Reference, discovery: Mapping[str, Any]) -> list[FieldRow]:
    """
    Return a row for every field of the schemas that have a place, in the document's order.

    Pure.
    """
    return [
        _Field(reference, root, schema, name, prop).row()
        for root in reference.roots
        for schema in root.places
        for name, prop in reference.schema_of(discovery, schema).items()
    ]


class _Field:
    """One field, and how it is tried."""

    def __init__(
        self, reference: Reference, root: Root, schema: str, name: str, prop: Mapping[str, Any]
    ) -> None:
        self._schema, self._name, self._prop = schema, name, prop
        self._path = join(root.places[schema], name)
        self._probe: Probe = root.probe
        self._note = reference.notes.get(f"{schema}.{name}") or reference.notes.get(schema) or Note()
        self._samples = reference.samples.get(f"{schema}.{name}") or (Sample(value=_good_value(prop)),)
        self._bad_samples = reference.bad_samples.get(f"{schema}.{name}", ())
        # A schema that lies in another one that only the service sets.
        self._is_output = bool(
            prop.get("readOnly")
            or prop.get("description", "").startswith("Output only")
            or any(f"{root.places[schema]}.".startswith(f"{each}.") for each in reference.outputs)
            or self._path in reference.outputs
        )

    def row(self) -> FieldRow:
        """Return what was found out."""
        return self._output_row() if self._is_output else self._input_row()

    def _output_row(self) -> FieldRow:
        return FieldRow(
            schema=self._schema,
            name=self._name,
            output=True,
            accepted=self._probe.is_known(self._path),
            checks=(),
            echoed=self._path in self._probe.answered_paths,
            note=self._note,
        )

    def _input_row(self) -> FieldRow:
        probe, path = self._probe, self._path
        refusals = {_shown(sample.value): probe.refusal_of(path, sample) for sample in self._samples}
        refused = [shown for shown, refusal in refusals.items() if refusal]
        is_refused = len(refused) == len(refusals)
        words = next(refusal[1] for refusal in refusals.values() if refusal) if refused else ""
        return FieldRow(
            schema=self._schema,
            name=self._name,
            output=False,
            accepted=probe.is_known(path),
            checks=self._checks(),
            echoed=any(probe.is_echoed(path, sample) for sample in self._samples),
            refused=words if is_refused else "",
            refused_values=() if is_refused else tuple(refused),
            note=self._note,
        )

    def _checks(self) -> tuple[Check, ...]:
        prop, is_enum = self._prop, "enum" in self._prop
        is_text = prop.get("type") in ("string", "array", "boolean") and not is_enum
        tries = [(Check.VALUES if is_enum else Check.TYPE, Sample(value=1.5 if is_text else _NO_SUCH_VALUE))]
        tries += [(Check.RULE, bad) for bad in self._bad_samples]
        refused = [(check, self._probe.refusal_of(self._path, bad)) for check, bad in tries]
        return tuple(dict.fromkeys(check for check, by in refused if by and by[0] == indexed(self._path)))


def _good_value(prop: Mapping[str, Any]) -> Any:
    """Return a good value of a property that has no sample."""
    if "enum" in prop:
        return prop["enum"][-1]
    if "additionalProperties" in prop:
        return {"key": "value"}
    if prop.get("type") == "array":
        return [_good_value(prop["items"])]
    if "$ref" in prop:
        return {}
    formats = {"int64": "1", "int32": 1, "double": 1.5}
    return formats.get(prop.get("format", "")) or {"boolean": True, "string": "text", "any": {}}[prop["type"]]


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
