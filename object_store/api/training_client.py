"""The client of the training service, which decides what containers may do."""

from __future__ import annotations

import ssl
from urllib.parse import urlsplit

import httpx

TIMEOUT_SECONDS = 10.0


def training_client(url: str | None, transport: httpx.AsyncBaseTransport | None) -> httpx.AsyncClient:
    """
    Return a client of the service at ``url``; the caller closes it.

    :param url: ``None``: there is no service, and the client is never used.
    :param transport: instead of the network.
    """
    is_tls = url is not None and urlsplit(url).scheme == "https"
    return httpx.AsyncClient(
        timeout=TIMEOUT_SECONDS,
        transport=transport,
        # A proxy of the environment must not see requests over loopback.
        trust_env=False,
        # Without TLS no certificate is checked, and loading the CA bundle takes 20 ms.
        verify=is_tls or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
    )
