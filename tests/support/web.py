"""Requests of the tests: past any proxy, and with the patience that a busy machine needs."""

from __future__ import annotations

from typing import Any

import httpx

from tests.support.speed import scaled


def client(base_url: str = "", **options: Any) -> httpx.Client:
    """Return a client; ``options`` are httpx's."""
    return httpx.Client(base_url=base_url, **_defaults() | options)


def request(method: str, url: str, **options: Any) -> httpx.Response:
    """Return the answer to one request; ``options`` are httpx's."""
    return httpx.request(method, url, **_defaults() | options)


def get(url: str, **options: Any) -> httpx.Response:
    """Return the answer to a GET."""
    return request("GET", url, **options)


def post(url: str, **options: Any) -> httpx.Response:
    """Return the answer to a POST."""
    return request("POST", url, **options)


def put(url: str, **options: Any) -> httpx.Response:
    """Return the answer to a PUT."""
    return request("PUT", url, **options)


def _defaults() -> dict[str, Any]:
    # httpx waits five seconds for an answer: beside a whole run of the tests that is too short.
    return {"trust_env": False, "timeout": scaled(60)}
