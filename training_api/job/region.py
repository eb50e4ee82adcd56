"""The region of jobs, models and connections that name none."""

from __future__ import annotations

#: Google's own examples name it, and it has every machine and accelerator of the API.
DEFAULT_REGION = "us-central1"
