"""
Where the routes of this dialect lie.

Below a prefix, as both dialects have ``/v1/projects/P/locations`` with answers of their own. Google's clients
take an endpoint with a path.
"""

from __future__ import annotations

PREFIX = "/vertex"
PROJECT = f"{PREFIX}/v1/projects/{{project}}"
LOCATIONS = f"{PROJECT}/locations"
LOCATION = f"{LOCATIONS}/{{location}}"

#: Everything else below the prefix, by all methods.
UNSERVED = f"{PREFIX}/{{path:path}}"
UNSERVED_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
