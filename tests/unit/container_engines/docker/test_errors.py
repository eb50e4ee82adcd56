"""What the engine says, and which error it stands for."""

from __future__ import annotations

import pytest
import requests
from docker.errors import APIError

from container_engines.docker.errors import classify, engine_errors
from training_api.errors import (
    DiskFull,
    EngineError,
    EngineUnavailable,
    ImageNotFound,
    RegistryUnavailable,
    TrainingError,
)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("manifest for h/p/i:1 not found: manifest unknown: manifest unknown", ImageNotFound),
        (
            "pull access denied for h/p/i, repository does not exist or may require 'docker login'",
            ImageNotFound,
        ),
        ('Head "http://h/v2/p/i/manifests/1": unauthorized: invalid username or password', ImageNotFound),
        ("No such image: sha256:abc", ImageNotFound),
        ('Get "http://h:1/v2/": dial tcp 127.0.0.1:1: connect: connection refused', RegistryUnavailable),
        ('Get "https://h/v2/": dial tcp: lookup h on 1.1.1.1:53: no such host', RegistryUnavailable),
        ('Get "https://h/v2/": net/http: TLS handshake timeout', RegistryUnavailable),
        ("write /var/lib/docker/tmp/GetImageBlob1: no space left on device", DiskFull),
        ('OCI runtime create failed: exec: "x": executable file not found in $PATH', EngineError),
    ],
)
def test_text_becomes_its_error(text: str, kind: type[TrainingError]) -> None:
    error = classify("pull h/p/i:1", text)

    assert type(error) is kind
    assert str(error).startswith("pull h/p/i:1: ")


def test_refusal_of_the_engine_keeps_its_explanation() -> None:
    with pytest.raises(EngineError, match="start x: boom"), engine_errors("start x"):
        raise APIError("500 Server Error", explanation="boom")


@pytest.mark.parametrize(
    "cause", [requests.ConnectionError("refused"), FileNotFoundError("/var/run/docker.sock")]
)
def test_silent_engine_is_unavailable(cause: Exception) -> None:
    with (
        pytest.raises(EngineUnavailable, match="did not answer to 'list containers'"),
        engine_errors("list containers"),
    ):
        raise cause
