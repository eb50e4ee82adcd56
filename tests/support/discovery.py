"""
Google's discovery documents, as ``google-api-python-client`` carries them.

The wire models are compared to them.
"""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

from training_api.wire import WireModel


def document(name: str) -> dict[str, Any]:
    """Return the discovery document ``name`` (``ml.v1``)."""
    path = files("googleapiclient").joinpath(f"discovery_cache/documents/{name}.json")
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def schemas(name: str) -> dict[str, Any]:
    """Return the schemas of the document ``name``, by their names."""
    found: dict[str, Any] = document(name)["schemas"]
    return found


def wire_names(model: type[WireModel]) -> set[str | None]:
    """Return the names that the fields of ``model`` have on the wire."""
    return {field.alias for field in model.model_fields.values()}
