"""
IAM policies of buckets, served by the object store and kept by the training service.

The emulator's own answers are made up: every policy is empty, and what is set is forgotten.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from urllib.parse import unquote, urlsplit

import httpx

_PATH = re.compile(r"(?:/storage/v1)?/b/(?P<bucket>[^/]+)(?P<rest>/iam(?:/testPermissions)?)")
#: Container Registry makes these with the first push to gcr.io; no push from here ever will.
_REGISTRY_BUCKET = re.compile(r"(?:(?:us|eu|asia)\.)?artifacts\..+\.appspot\.com")
_PASSED_ON = ("Authorization", "Content-Type")
_TIMEOUT_SECONDS = 10.0


def bucket_of_policy(target: str) -> str | None:
    """Return the bucket whose policy the request target is about; ``None``: no policy."""
    found = _PATH.fullmatch(urlsplit(target).path)
    return unquote(found["bucket"]) if found else None


class BucketPolicies:
    """
    Answers requests for policies of buckets; safe for threads.

    :param training_url: the training service; ``None``: nobody keeps policies, and each request is refused.
    """

    def __init__(self, training_url: str | None, transport: httpx.BaseTransport | None = None) -> None:
        self._url = training_url.rstrip("/") if training_url else None
        # trust_env: a proxy of the environment must not see requests over loopback.
        self._http = httpx.Client(timeout=_TIMEOUT_SECONDS, transport=transport, trust_env=False)

    def close(self) -> None:
        """Close the connections; may be called twice."""
        self._http.close()

    def answer(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes, buckets: Collection[str]
    ) -> tuple[int, bytes]:
        """
        Return status and JSON body for a request that :func:`bucket_of_policy` knows.

        :param buckets: those that exist.
        """
        split = urlsplit(target)
        found = _PATH.fullmatch(split.path)
        bucket = bucket_of_policy(target)
        if found is None or bucket is None:
            raise ValueError(f"no request for a bucket's policy: {target!r}")
        if bucket not in buckets and not _REGISTRY_BUCKET.fullmatch(bucket):
            return _error(
                404, "notFound", f"bucket {bucket!r} does not exist; gcloud storage buckets create makes it"
            )
        if self._url is None:
            message = (
                "this object store keeps no bucket policies: it was started without --training-url, "
                "the service that does"
            )
            return _error(501, "notImplemented", message)
        passed_on = {name: value for name in _PASSED_ON if (value := headers.get(name))}
        url = f"{self._url}/storage/v1/b/{found['bucket']}{found['rest']}?{split.query}"
        try:
            answer = self._http.request(method, url, headers=passed_on, content=body)
        except httpx.RequestError as error:
            reason = str(error) or type(error).__name__
            message = (
                f"the training service at {self._url}, which keeps the policies of buckets, does not answer: "
                f"{reason}; start it with `make serve`"
            )
            return _error(503, "backendError", message)
        return answer.status_code, answer.content


def _error(code: int, reason: str, message: str) -> tuple[int, bytes]:
    """Return an error in the form of Cloud Storage's JSON API."""
    errors = [{"message": message, "domain": "global", "reason": reason}]
    return code, json.dumps({"error": {"code": code, "message": message, "errors": errors}}).encode()
