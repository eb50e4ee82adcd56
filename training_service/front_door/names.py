"""The names under which clients of Vertex AI ask, as data. Pure."""

from __future__ import annotations

import re

from training_api.dialects.vertex_v1.locations import LOCATIONS

API_HOST = "aiplatform.googleapis.com"
#: What every certificate of the service names: Google's names, and those of a client that is told where the
#: service is.
NAMES = ("localhost", API_HOST, *(f"{location}-{API_HOST}" for location in LOCATIONS))
ADDRESSES = ("127.0.0.1", "::1")

_HOST = re.compile(rf"([a-z]+-[a-z]+[0-9]+-)?{re.escape(API_HOST)}")


def is_api_host(name: str) -> bool:
    """Tell whether ``name`` is one of Vertex AI's, the global one or that of a region."""
    return _HOST.fullmatch(name) is not None
