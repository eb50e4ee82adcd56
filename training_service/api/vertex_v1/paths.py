"""
Where the routes of this dialect lie.

Below a prefix, as both dialects have ``/v1/projects/P/locations`` with answers of their own. Google's clients
take an endpoint with a path.
"""

from __future__ import annotations

PREFIX = "/vertex"
PROJECT = f"{PREFIX}/v1/projects/{{project}}"
LOCATION = f"{PROJECT}/locations/{{location}}"

#: Everything else below the prefix.
UNSERVED = f"{PREFIX}/{{path:path}}"
