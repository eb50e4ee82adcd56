"""``google.cloud.aiplatform``, set up for a service as its users do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from google.auth.credentials import AnonymousCredentials

from tests.integration.live_service import LiveService

PROJECT, LOCATION = "demo-project", "us-central1"
SetUp = Callable[[LiveService], Any]


@contextmanager
def sdk_over_rest() -> Iterator[SetUp]:
    """
    Yield a function that sets the SDK up for REST.

    What it keeps is the process's, until the block ends.
    """
    from google.cloud import aiplatform

    def set_up(service: LiveService) -> Any:
        aiplatform.init(
            project=PROJECT,
            location=LOCATION,
            api_endpoint=f"{service.endpoint}/vertex",
            api_transport="rest",
            credentials=AnonymousCredentials(),
            staging_bucket="gs://staging",
        )
        return aiplatform

    yield set_up
    aiplatform.initializer.global_config.__init__()
