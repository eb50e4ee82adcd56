"""Which requests are answered at all, by their headers, before their body is read."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection

from starlette.datastructures import Headers

from object_store.errors import Forbidden, Invalid, NotServed

_HOST = re.compile(r"(?:\[(?P<six>[0-9a-fA-F:.]+)\]|(?P<name>[^:\[\]]+))(?::\d{1,5})?")
_IN_PARAMETERS = "preconditions in headers, only in parameters such as ifGenerationMatch"
#: Beginnings of headers, and what they ask for. To pass over them would be another request.
_NOT_SERVED = {
    "x-goog-encryption-": "encryption keys of clients",
    "x-goog-if-": _IN_PARAMETERS,
    "if-match": _IN_PARAMETERS,
    "if-unmodified-since": _IN_PARAMETERS,
    "x-goog-copy-source": "copies by path",
}
_OWN_SITES = frozenset({"none", "same-origin"})


def check_headers(headers: Headers, hosts: Collection[str]) -> None:
    """
    Return if the request may be from a client of this store.

    :param hosts: names of this store beside ``localhost`` and addresses.
    :raises Forbidden: a web page sent it, or its Host is not a name of this store.
    :raises NotServed: a header asks for what this store does not have.
    """
    values = headers.getlist("host")
    found = _HOST.fullmatch(values[0]) if len(values) == 1 else None
    if found is None:
        raise Invalid("a request needs one Host header: a name or an address, and a port")
    name = (found["name"] or found["six"]).lower()
    if not _is_address(name) and name != "localhost" and name not in hosts:
        # A web page whose name leads to this machine (DNS rebinding) sends its own name.
        raise Forbidden(
            f"this store is not called {name[:80]!r}; start it with --allow-host to give it that name"
        )
    if "origin" in headers or headers.get("sec-fetch-site", "none") not in _OWN_SITES:
        raise Forbidden(
            "web pages may not use this store: a request with Origin or Sec-Fetch-Site is refused"
        )
    for beginning, what in _NOT_SERVED.items():
        if any(header.startswith(beginning) for header in headers):
            raise NotServed(what)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
