"""
Which certificate authorities this machine trusts beyond the usual ones.

A network that inspects TLS is common in companies: its machines trust the inspector's authority, and
containers that do not cannot install a package. So the base image gets this machine's bundle where that has
extra authorities.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable
from pathlib import Path

HOST_BUNDLE = Path("/etc/ssl/certs/ca-certificates.crt")
PACKAGED = Path("/usr/share/ca-certificates")
ADDED = Path("/usr/local/share/ca-certificates")

_PEM = re.compile(r"-----BEGIN CERTIFICATE-----(.+?)-----END CERTIFICATE-----", re.DOTALL)


def certificates_in(pem: str) -> frozenset[bytes]:
    """Return the certificates of a PEM text in DER form; what cannot be decoded is left out."""
    found = set()
    for body in _PEM.findall(pem):
        try:
            found.add(base64.b64decode("".join(body.split()), validate=True))
        except binascii.Error:
            continue
    return frozenset(found)


def extra_authorities(
    bundle: Path = HOST_BUNDLE, packaged: Path = PACKAGED, added: Path = ADDED
) -> frozenset[bytes]:
    """
    Return the certificates that this machine trusts and the package ca-certificates lacks.

    :param bundle: what programs of this machine trust.
    :param packaged: files of the package; where there are none (not Debian), only ``added`` counts.
    :param added: files that the administrator added.
    :return: DER certificates; empty if there is no bundle to copy.
    """
    trusted = _read(bundle for _ in [None] if bundle.is_file())
    if not trusted:
        return frozenset()
    own = _read(added.rglob("*.crt")) & trusted
    usual = _read(packaged.rglob("*.crt"))
    return own | (trusted - usual) if usual else own


def _read(files: Iterable[Path]) -> frozenset[bytes]:
    texts = (file.read_text(encoding="utf-8", errors="replace") for file in files if file.is_file())
    return frozenset().union(*(certificates_in(text) for text in texts))
