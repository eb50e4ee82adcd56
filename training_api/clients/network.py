"""How a client reaches a server: by which proxy, and whose certificates it trusts."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx

from training_api.loopback import is_loopback


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """
    What is said of the way to a server.

    :param verify: ``False``: any certificate is taken; a path: of the authorities that are trusted, a PEM
        file or a folder; ``True``: those of ``SSL_CERT_FILE`` or ``SSL_CERT_DIR``, else certifi's.
    :param certificate: paths of the client's own certificate and of its key, which may be one file.
    :param proxy: its URL; empty: what ``HTTP_PROXY``, ``HTTPS_PROXY``, ``ALL_PROXY`` and ``NO_PROXY`` say. A
        proxy of the environment never sees requests to loopback.
    """

    verify: bool | str = True
    certificate: tuple[str, str] | None = None
    proxy: str = field(default="", repr=False)  # it may have a password

    def transport(self, url: str) -> httpx.HTTPTransport:
        """
        Return the transport to the server at ``url``.

        :raises OSError: a certificate cannot be read.
        """
        return httpx.HTTPTransport(proxy=self._proxy(url), verify=self._context(url), trust_env=False)

    def async_transport(self, url: str) -> httpx.AsyncHTTPTransport:
        """Return the same for asyncio."""
        return httpx.AsyncHTTPTransport(proxy=self._proxy(url), verify=self._context(url), trust_env=False)

    def ways(self, url: str, *others: str, instead: httpx.BaseTransport | None = None) -> dict[str, Any]:
        """
        Return the transports to several servers, as arguments of ``httpx.Client``.

        Servers that are reached the way of the first one share its connections.

        :param instead: to be used for all of them; for tests.
        """
        return {"transport": instead} if instead else self._ways(self.transport, url, others)

    def async_ways(
        self, url: str, *others: str, instead: httpx.AsyncBaseTransport | None = None
    ) -> dict[str, Any]:
        """Return the same for asyncio."""
        return {"transport": instead} if instead else self._ways(self.async_transport, url, others)

    def _ways(self, make: Callable[[str], Any], url: str, others: Iterable[str]) -> dict[str, Any]:
        mounts = {other: make(other) for other in others if self._way(other) != self._way(url)}
        return {"transport": make(url), "mounts": mounts}

    def _way(self, url: str) -> tuple[str, str | None]:
        return urlsplit(url).scheme, self._proxy(url)

    def _proxy(self, url: str) -> str | None:
        server = urlsplit(url)
        if self.proxy:
            return self.proxy
        if is_loopback(server.netloc.rpartition("@")[2]) or proxy_bypass(server.hostname or ""):
            return None
        proxies = getproxies()
        return proxies.get(server.scheme) or proxies.get("all")

    def _context(self, url: str) -> ssl.SSLContext:
        if urlsplit(url).scheme != "https":
            # Trusts nobody: to read the authorities would take a while, and nothing here needs them.
            return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        if isinstance(self.verify, bool):
            context = httpx.create_ssl_context(verify=self.verify)
        elif Path(self.verify).is_dir():
            context = ssl.create_default_context(capath=self.verify)
        else:
            context = ssl.create_default_context(cafile=self.verify)
        if self.certificate:
            context.load_cert_chain(*self.certificate)
        return context


DEFAULT_NETWORK = Network()
