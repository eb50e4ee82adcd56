"""The region of jobs, models and connections that name none."""

from __future__ import annotations

#: That of the examples in Google's guides.
DEFAULT_REGION = "us-central1"
