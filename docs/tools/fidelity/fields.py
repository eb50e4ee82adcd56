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

from docs.tools.fidelity.notes import BAD_SAMPLES, NOTES, SAMPLES, Note, Sample
from docs.tools.fidelity.probe import answered_paths, indexed, is_echoed, is_known, join, refusal_of

#: Schema -> its place in a job; ``[]`` is the first element of a list.
PLACES: Mapping[str, str] = {
    "Job": "",
    "TrainingInput": "trainingInput",
    "ReplicaConfig": "trainingInput.masterConfig",
    "AcceleratorConfig": "trainingInput.masterConfig.acceleratorConfig",
    "DiskConfig": "trainingInput.masterConfig.diskConfig",
    "EncryptionConfig": "trainingInput.encryptionConfig",
    "Scheduling": "trainingInput.scheduling",
    "HyperparameterSpec": "trainingInput.hyperparameters",
    "ParameterSpec": "trainingInput.hyperparameters.params[]",
    "TrainingOutput": "trainingOutput",
    "HyperparameterOutput": "trainingOutput.trials[]",
    "HyperparameterMetric": "trainingOutput.trials[].finalMetric",
    "BuiltInAlgorithmOutput": "trainingOutput.builtInAlgorithmOutput",
}
_PREFIXES = ("GoogleCloudMlV1__", "GoogleCloudMlV1_HyperparameterOutput_")
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


def schema_of(discovery: Mapping[str, Any], schema: str) -> Mapping[str, Any]:
    """Return the properties of ``schema``, a name without its prefix."""
    schemas = discovery["schemas"]
    full = next(prefix + schema for prefix in _PREFIXES if prefix + schema in schemas)
    properties: Mapping[str, Any] = schemas[full]["properties"]
    return properties


def field_rows(discovery: Mapping[str, Any]) -> list[FieldRow]:
    """
    Return a row for every field of the schemas in ``PLACES``, in the document's order.

    Pure.
    """
    answered = answered_paths()
    return [
        _output_row(schema, name, answered)
        if _is_output(place, name, prop)
        else _input_row(schema, name, prop)
        for schema, place in PLACES.items()
        for name, prop in schema_of(discovery, schema).items()
    ]


def _is_output(place: str, name: str, prop: Mapping[str, Any]) -> bool:
    said = prop.get("readOnly") or prop.get("description", "").startswith("Output only")
    return bool(said or place.startswith("trainingOutput") or name in ("trainingOutput", "predictionOutput"))


def _output_row(schema: str, name: str, answered: set[str]) -> FieldRow:
    path = join(PLACES[schema], name)
    return FieldRow(
        schema=schema,
        name=name,
        output=True,
        accepted=is_known(path),
        checks=(),
        echoed=path in answered,
        note=_note(schema, name),
    )


def _input_row(schema: str, name: str, prop: Mapping[str, Any]) -> FieldRow:
    path = join(PLACES[schema], name)
    samples = SAMPLES.get(f"{schema}.{name}") or (Sample(value=_good_value(prop)),)
    refusals = {_shown(sample.value): refusal_of(path, sample) for sample in samples}
    refused = [shown for shown, refusal in refusals.items() if refusal]
    is_refused = len(refused) == len(refusals)
    words = next(refusal[1] for refusal in refusals.values() if refusal) if refused else ""
    return FieldRow(
        schema=schema,
        name=name,
        output=False,
        accepted=is_known(path),
        checks=_checks(schema, name, prop),
        echoed=any(is_echoed(path, sample) for sample in samples),
        refused=words if is_refused else "",
        refused_values=() if is_refused else tuple(refused),
        note=_note(schema, name),
    )


def _note(schema: str, name: str) -> Note:
    return NOTES.get(f"{schema}.{name}") or NOTES.get(schema) or Note()


def _checks(schema: str, name: str, prop: Mapping[str, Any]) -> tuple[Check, ...]:
    path = join(PLACES[schema], name)
    is_enum = "enum" in prop
    wrong = 1.5 if prop.get("type") in ("string", "array", "boolean") and not is_enum else _NO_SUCH_VALUE
    tries = [(Check.VALUES if is_enum else Check.TYPE, Sample(value=wrong))]
    tries += [(Check.RULE, bad) for bad in BAD_SAMPLES.get(f"{schema}.{name}", ())]
    refused = [(check, refusal_of(path, bad)) for check, bad in tries]
    return tuple(dict.fromkeys(check for check, by in refused if by and by[0] == indexed(path)))


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
    return formats.get(prop.get("format", "")) or {"boolean": True, "string": "text"}[prop["type"]]


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
