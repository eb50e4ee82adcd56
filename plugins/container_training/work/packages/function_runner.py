"""
Runs a function as a trainer: arguments by the command line, metrics to the job's folder.

A job has this text as its program, with the function and a call of ``run`` below it. It needs the standard
library of Python 3.8 alone.
"""

from __future__ import annotations

import inspect
import json
import os
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

_TRIES = 5
_SECONDS = 60
_TOKEN_PATH = "/computeMetadata/v1/instance/service-accounts/default/token"  # noqa: S105  # a path


def run(function: Callable[..., dict[str, Any]]) -> None:
    """Call ``function``; write what it returns to ``metrics.json``, or exit if it is no dict."""
    arguments = json.loads(sys.argv[1])
    job_dir = sys.argv[sys.argv.index("--job-dir") + 1].rstrip("/")
    if "job_dir" in inspect.signature(function).parameters:
        arguments["kwargs"]["job_dir"] = job_dir
    metrics = function(*arguments["args"], **arguments["kwargs"])
    if not isinstance(metrics, dict):
        sys.exit(
            f"{function.__name__} must return its metrics, a dict like {{'accuracy': 0.97}}; it returned "
            f"{metrics!r}"
        )
    write(f"{job_dir}/metrics.json", json.dumps(metrics).encode())
    print(f"metrics: {json.dumps(metrics)}")


def write(uri: str, content: bytes) -> None:
    """Write the object at ``gs://BUCKET/NAME``; ask again while the store does not answer."""
    bucket, _, name = uri[len("gs://") :].partition("/")
    host = os.environ.get("STORAGE_EMULATOR_HOST", "").rstrip("/") or "https://storage.googleapis.com"
    host = host if "://" in host else f"http://{host}"
    url = (
        f"{host}/upload/storage/v1/b/{quote(bucket, safe='')}/o?uploadType=media&name={quote(name, safe='')}"
    )
    for left in reversed(range(_TRIES)):
        headers = {"Content-Type": "application/json", **_credentials()}
        try:
            request = urllib.request.Request(url, content, headers)  # noqa: S310  # http(s): see above
            urllib.request.urlopen(request, timeout=_SECONDS).close()  # noqa: S310  # the same
            return
        except OSError as error:
            is_refusal = isinstance(error, urllib.error.HTTPError) and error.code < 500 and error.code != 429
            if is_refusal or not left:
                sys.exit(f"cannot write {uri}: {error}")
            time.sleep(2 ** (_TRIES - left - 2))


def _credentials() -> dict[str, str]:
    """Return the header with the job's identity; an emulator needs none."""
    host = os.environ.get("GCE_METADATA_HOST")
    if not host:
        if os.environ.get("STORAGE_EMULATOR_HOST"):
            return {}
        host = "metadata.google.internal"
    request = urllib.request.Request(f"http://{host}{_TOKEN_PATH}", headers={"Metadata-Flavor": "Google"})
    with urllib.request.urlopen(request, timeout=_SECONDS) as answer:  # noqa: S310  # http alone
        return {"Authorization": f"Bearer {json.load(answer)['access_token']}"}
