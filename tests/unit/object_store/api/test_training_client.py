"""Whom the client of the training service trusts."""

from __future__ import annotations

import asyncio
import ssl

import pytest

from object_store.api.training_client import training_client


@pytest.mark.parametrize(
    ("url", "has_read_them"),
    [("https://training.test", True), ("http://127.0.0.1:8470", False), (None, False)],
)
def test_the_authorities_are_read_for_tls_only(
    monkeypatch: pytest.MonkeyPatch, url: str | None, has_read_them: bool
) -> None:
    read: list[object] = []
    monkeypatch.setattr(ssl.SSLContext, "load_verify_locations", lambda *given, **named: read.append(given))

    client = training_client(url, None)

    asyncio.run(client.aclose())
    assert bool(read) is has_read_them
