"""
Reads an object of Cloud Storage with the standard library alone.

Or of the emulator at STORAGE_EMULATOR_HOST.
"""

from __future__ import annotations

import base64
import hashlib
import http.client
import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

ATTEMPTS = 6
FIRST_WAIT_SECONDS = 0.5
TIMEOUT_SECONDS = 60
_METADATA_TIMEOUT_SECONDS = 3
_CHUNK_BYTES = 1 << 20
_CLOUD = "https://storage.googleapis.com"
_TOKEN_PATH = "/computeMetadata/v1/instance/service-accounts/default/token"  # noqa: S105  # a path, not a token


class ObjectMissing(Exception):
    """There is no such object, or no such bucket."""


class ObjectDenied(Exception):
    """The job's identity may not read the object."""


class StoreUnavailable(Exception):
    """The store did not give the object, however often it was asked."""


class TargetUnwritable(Exception):
    """The file cannot be written: the disk is full, or something else is there."""


class _MayPass(Exception):
    """Worth another attempt."""


def download(
    uri: str, target: Path, say: Callable[[str], None], sleep: Callable[[float], None] = time.sleep
) -> int:
    """
    Write the object at ``uri`` to the file ``target`` and return its size in bytes.

    A store that does not answer, answers 429 or 5xx, or breaks off, is asked ``ATTEMPTS`` times, with doubled
    waits.

    :param uri: ``gs://BUCKET/NAME``, or with ``#GENERATION`` behind it, which is then the one that is read.
    :param say: told before each wait.
    :raises ObjectMissing: 404.
    :raises ObjectDenied: 401 or 403.
    :raises StoreUnavailable: the last attempt failed too.
    :raises TargetUnwritable: ``target``, or its folder, cannot be made or written.
    """
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return _download_once(uri, target)
        except _MayPass as error:
            if attempt == ATTEMPTS:
                raise StoreUnavailable(f"{uri} could not be read in {ATTEMPTS} attempts: {error}") from error
            wait = FIRST_WAIT_SECONDS * 2 ** (attempt - 1)
            say(f"{uri}: {error}; asking again in {wait:g} s")
            sleep(wait)
    raise AssertionError("the last attempt returns or raises")


def _download_once(uri: str, target: Path) -> int:
    request = urllib.request.Request(_media_url(uri))  # noqa: S310  # http(s) alone: see _media_url
    for name, value in _credentials().items():
        # Only this host sees it, not one that its answer leads to.
        request.add_unredirected_header(name, value)
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as answer:  # noqa: S310  # the same
            return _save(answer, target)
    except urllib.error.HTTPError as error:
        if error.code == http.client.NOT_FOUND:
            raise ObjectMissing(_missing(uri)) from error
        if error.code in (http.client.UNAUTHORIZED, http.client.FORBIDDEN):
            raise ObjectDenied(f"the job may not read {uri}: {error}") from error
        if error.code == http.client.TOO_MANY_REQUESTS or error.code >= http.client.INTERNAL_SERVER_ERROR:
            raise _MayPass(str(error)) from error
        raise StoreUnavailable(f"{uri} could not be read: {error}") from error
    except (OSError, http.client.HTTPException) as error:
        raise _MayPass(f"{type(error).__name__}: {error}") from error


def _save(answer: http.client.HTTPResponse, target: Path) -> int:
    md5 = hashlib.md5()  # noqa: S324  # the checksum that Cloud Storage sends, against damage; no secret
    size = 0
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("wb") as file:
            while chunk := _chunk_of(answer):
                md5.update(chunk)
                size += file.write(chunk)
    except OSError as error:
        raise TargetUnwritable(f"{target} cannot be written: {error.strerror}") from error
    expected = answer.headers.get("Content-Length")
    if expected is not None and size != int(expected):
        raise _MayPass(f"broke off after {size} of {expected} bytes")
    hashes = ",".join(answer.headers.get_all("x-goog-hash", [])).replace(" ", "").split(",")
    sums = [value[len("md5=") :] for value in hashes if value.startswith("md5=")]
    if sums and sums[0] != base64.b64encode(md5.digest()).decode("ascii"):
        raise _MayPass("arrived damaged: its MD5 is another one")
    return size


def _chunk_of(answer: http.client.HTTPResponse) -> bytes:
    try:
        return answer.read(_CHUNK_BYTES)
    except (OSError, http.client.HTTPException) as error:
        raise _MayPass(f"{type(error).__name__}: {error}") from error


def split_generation(uri: str) -> tuple[str, str]:
    """Return the address without its generation, and the generation or nothing; pure."""
    address, mark, generation = uri.rpartition("#")
    is_number = generation.isascii() and generation.isdecimal()
    return (address, generation) if mark and is_number else (uri, "")


def _missing(uri: str) -> str:
    address, generation = split_generation(uri)
    if not generation:
        return f"there is no {uri}"
    return (
        f"generation {generation} of {address} is gone: the object was replaced or deleted after the job was "
        "submitted with it"
    )


def _media_url(uri: str) -> str:
    address, generation = split_generation(uri)
    bucket, _, name = address[len("gs://") :].partition("/")
    host = os.environ.get("STORAGE_EMULATOR_HOST", "").rstrip("/") or _CLOUD
    host = host if host.startswith(("http://", "https://")) else f"http://{host}"
    version = f"&generation={generation}" if generation else ""
    return (
        f"{host}/download/storage/v1/b/{quote(bucket, safe='')}/o/{quote(name, safe='')}?alt=media{version}"
    )


def _credentials() -> dict[str, str]:
    """
    Return the header with the job's identity.

    It is the metadata server's, if there is one; an emulator needs none.
    """
    host = os.environ.get("GCE_METADATA_HOST")
    if not host:
        if os.environ.get("STORAGE_EMULATOR_HOST"):
            return {}
        host = "metadata.google.internal"
    request = urllib.request.Request(  # http alone
        f"http://{host}{_TOKEN_PATH}", headers={"Metadata-Flavor": "Google"}
    )
    try:
        with urllib.request.urlopen(request, timeout=_METADATA_TIMEOUT_SECONDS) as answer:  # noqa: S310  # the same
            return {"Authorization": f"Bearer {json.load(answer)['access_token']}"}
    except (OSError, ValueError, KeyError):
        # Public objects can be read by everybody; others are then refused by name.
        return {}
