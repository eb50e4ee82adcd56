"""What there is to say of one API, beside what its discovery document says."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

from docs.tools.fidelity.note import Note, Sample
from docs.tools.fidelity.probe import Probe


@dataclass(frozen=True, slots=True, kw_only=True)
class Root:
    """
    A resource that clients create, and the schemas within it.

    :param places: schema -> where it is in the resource; ``[]`` is the first element of a list.
    """

    probe: Probe
    places: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reference:
    """
    One API and what a person wrote about it.

    :param document: the file of its discovery document, as google-api-python-client names it.
    :param page: the file that is made from it, below ``docs``.
    :param title: the page's first line.
    :param served_below: what the service puts before the API's own paths.
    :param resources: those that training needs; the page names the others in one paragraph.
    :param methods: of a resource that has others, too: those that are about training.
    :param scope: the resource whose other children the page names.
    :param schema_prefixes: what the document puts before the names of schemas.
    :param outputs: places that only the service sets, where the document does not say so.
    :param notes: ``Schema.field``, or ``Schema`` for all its fields that have no note.
    :param method_notes: method -> what differs; a method that is not served must be here.
    :param samples: good values, for fields where the type alone does not make a value good.
    :param bad_samples: values of the right type that a rule refuses.
    """

    document: str
    page: str
    title: str
    served_below: str = ""
    resources: Sequence[str]
    methods: Mapping[str, Collection[str]] = field(default_factory=dict)
    scope: str = ""
    schema_prefixes: Sequence[str]
    roots: Sequence[Root]
    outputs: Sequence[str] = ()
    notes: Mapping[str, Note]
    method_notes: Mapping[str, Note]
    samples: Mapping[str, Sequence[Sample]]
    bad_samples: Mapping[str, Sequence[Sample]]

    @property
    def places(self) -> Mapping[str, str]:
        """Where each schema is in its resource."""
        return {schema: place for root in self.roots for schema, place in root.places.items()}

    def read_discovery(self) -> dict[str, Any]:
        """Return the discovery document that google-api-python-client brings along."""
        document = files("googleapiclient").joinpath("discovery_cache/documents", self.document)
        discovery: dict[str, Any] = json.loads(document.read_text(encoding="utf-8"))
        return discovery

    def schema_of(self, discovery: Mapping[str, Any], schema: str) -> Mapping[str, Any]:
        """Return the properties of ``schema``, a name without its prefix."""
        schemas = discovery["schemas"]
        full = next(prefix + schema for prefix in self.schema_prefixes if prefix + schema in schemas)
        properties: Mapping[str, Any] = schemas[full]["properties"]
        return properties

    def short_name(self, full: str) -> str:
        """Return the name of a schema without its prefix."""
        prefix = max((each for each in self.schema_prefixes if full.startswith(each)), key=len)
        return full.removeprefix(prefix)
