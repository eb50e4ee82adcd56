"""
Makes the page on an API: what this service serves of it, field by field.

Its sources are the discovery document and the code.

``python -m docs.tools.fidelity`` writes all of them; a test fails when a file is stale.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from container_engines.memory.engine import MemoryEngine
from docs.tools.fidelity.fields import FieldRow, field_rows
from docs.tools.fidelity.note import Note
from docs.tools.fidelity.reference import Reference
from training_service.settings import ServiceSettings
from training_service.wiring import build_service

#: For lines that are not rows of a table.
_WIDTH = 130
_PARAMETER = re.compile(r"\{[^}]*\}")

_HEAD = """\
# {title}

<!-- Made by `make docs` from the discovery document and the code. Do not edit: a test compares. -->

The reference is the discovery document `{document}`, revision {revision}, which google-api-python-client brings along.

- *accepted*: the name is known; an unknown one is refused with its place.
- *validated*: its JSON `type`, the `values` of its enum, a `rule` of its own.
- *enforced*: the service acts on the value; the note says how.
- *echoed*: the job's answers have it as it was sent.
- *refused*: a request that sets it is refused with its name and the reason, rather than run without it; or, of the
  values that were tried, these are.

A note in *italics* says what differs from the real service, and how sure it is what that one does: [discovery] its
discovery document says so, [docs] its documentation, [captured] real clients rely on it, [unverified] it is recalled or inferred.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodRow:
    """
    One method of the API.

    :param request: verb and path, as the discovery document has it.
    :param missing: those of its query parameters that this service does not know.
    """

    name: str
    request: str
    served: bool
    missing: tuple[str, ...]
    note: Note


@dataclass(frozen=True, slots=True, kw_only=True)
class FidelityRows:
    """All that the page says. :param other_resources: those with methods that are not listed."""

    revision: str
    methods: Sequence[MethodRow]
    fields: Sequence[FieldRow]
    other_resources: Sequence[str]


def fidelity_page(reference: Reference) -> str:
    """Return the page. Makes a service that is never started, over an empty database in memory."""
    return render(reference, fidelity_rows(reference, reference.read_discovery(), served_operations()))


def served_operations() -> dict[tuple[str, str], frozenset[str]]:
    """Return what the app serves: (verb, path with ``{}`` for parameters) -> query parameters."""
    app = build_service(ServiceSettings(database_url="sqlite://"), MemoryEngine())
    return {
        (verb.upper(), _PARAMETER.sub("{}", path)): frozenset(
            parameter["name"] for parameter in operation.get("parameters", ()) if parameter["in"] == "query"
        )
        for path, operations in app.openapi()["paths"].items()
        for verb, operation in operations.items()
    }


def fidelity_rows(
    reference: Reference, discovery: Mapping[str, Any], served: Mapping[tuple[str, str], Collection[str]]
) -> FidelityRows:
    """
    Return all that the page says.

    Pure.

    :param served: as ``served_operations`` returns it.
    """
    methods = dict(_methods(discovery["resources"]))
    rows = [
        _method_row(reference, f"{resource}.{name}", method, served)
        for resource in reference.resources
        for name, method in methods[resource].items()
        if name in reference.methods.get(resource, methods[resource])
    ]
    others = [
        resource
        for resource, its in methods.items()
        if its and resource not in reference.resources and _is_in_scope(reference, resource)
    ]
    return FidelityRows(
        revision=discovery["revision"],
        methods=rows,
        fields=field_rows(reference, discovery),
        other_resources=others,
    )


def _is_in_scope(reference: Reference, resource: str) -> bool:
    parent = resource.rpartition(".")[0]
    return not reference.scope or parent == reference.scope


def _methods(resources: Mapping[str, Any], parent: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name, resource in resources.items():
        yield f"{parent}{name}", resource.get("methods", {})
        yield from _methods(resource.get("resources", {}), f"{parent}{name}.")


def _method_row(
    reference: Reference,
    name: str,
    method: Mapping[str, Any],
    served: Mapping[tuple[str, str], Collection[str]],
) -> MethodRow:
    verb, path = method["httpMethod"], f"/{method.get('flatPath', method['path'])}"
    known = served.get((verb, _PARAMETER.sub("{}", reference.served_below + path)))
    parameters = [key for key, what in method["parameters"].items() if what["location"] == "query"]
    return MethodRow(
        name=name,
        request=f"{verb} {path}",
        served=known is not None,
        missing=tuple(key for key in parameters if known is not None and key not in known),
        note=reference.method_notes.get(name, Note()),
    )


def render(reference: Reference, rows: FidelityRows) -> str:
    """Return the page as Markdown. Pure."""
    head = _HEAD.format(title=reference.title, document=reference.document, revision=rows.revision)
    parts = [head, "## Methods\n", _method_table(rows.methods)]
    others = ", ".join(f"`{name}`" for name in rows.other_resources)
    parts.append(textwrap.fill(f"Not served, as they are not about training: {others}.", _WIDTH) + "\n")
    for schema, group in groupby(rows.fields, key=lambda row: row.schema):
        its = list(group)
        parts += [f"## {schema}\n", _introduction(reference, schema)]
        parts += (
            [_input_table(reference, inputs)] if (inputs := [row for row in its if not row.output]) else []
        )
        parts += (
            [_output_table(reference, outputs)] if (outputs := [row for row in its if row.output]) else []
        )
    return "\n".join(part for part in parts if part)


def _introduction(reference: Reference, schema: str) -> str:
    place = f"At `{reference.places[schema]}`." if reference.places[schema] else ""
    note = _note_text(reference.notes.get(schema, Note()))
    text = " ".join(part for part in (place, note) if part)
    return f"{text}\n" if text else ""


def _method_table(rows: Sequence[MethodRow]) -> str:
    cells = [
        (
            f"`{row.name}`",
            f"`{row.request}`",
            _yes(row.served),
            _sentences(f"Without {_names(row.missing)}." if row.missing else "", _note_text(row.note)),
        )
        for row in rows
    ]
    return _table(("method", "request", "served", "note"), cells)


def _input_table(reference: Reference, rows: Sequence[FieldRow]) -> str:
    cells = [
        (
            f"`{row.name}`",
            _yes(row.accepted),
            ", ".join(row.checks),
            _yes(bool(row.note.enforced)),
            _yes(row.echoed),
            _refused(row),
            _sentences(_sentence(row.refused), _own_note(reference, row)),
        )
        for row in rows
    ]
    return _table(("field", "accepted", "validated", "enforced", "echoed", "refused", "note"), cells)


def _output_table(reference: Reference, rows: Sequence[FieldRow]) -> str:
    cells = [(f"`{row.name}`", _yes(row.echoed), _own_note(reference, row)) for row in rows]
    return "Only the service sets these; what a request has there is ignored.\n\n" + _table(
        ("field", "set", "note"), cells
    )


def _own_note(reference: Reference, row: FieldRow) -> str:
    return _note_text(reference.notes.get(row.key, Note()))


def _refused(row: FieldRow) -> str:
    return _names(row.refused_values) or _yes(bool(row.refused))


def _note_text(note: Note) -> str:
    differs = f"*{note.deviation}* [{note.certainty}]" if note.deviation else ""
    return _sentences(note.enforced, differs)


def _sentences(*texts: str) -> str:
    return " ".join(text for text in texts if text)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def _names(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _yes(claim: bool) -> str:
    return "yes" if claim else "-"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cell or ' ' for cell in line)} |\n" for line in lines)
