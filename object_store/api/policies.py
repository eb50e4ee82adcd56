"""IAM policies of buckets, which the training service keeps; requests are passed on."""

from __future__ import annotations

from http import HTTPStatus

import httpx
from starlette.responses import Response

from object_store.api.buckets import REGISTRY_BUCKET
from object_store.api.call import Call
from object_store.api.training_client import training_client
from object_store.errors import Invalid, NotFound, StoreError

_PASSED_ON = ("authorization", "content-type")


class BucketPolicies:
    """
    Answers requests for policies of buckets.

    :param training_url: the training service; ``None``: every request for a policy is refused.
    """

    def __init__(self, training_url: str | None, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self._url = training_url.rstrip("/") if training_url else None
        self._http = training_client(training_url, transport)

    async def close(self) -> None:
        """Close the connections; may be called twice."""
        await self._http.aclose()

    async def answer(self, call: Call) -> Response:
        """
        Return the training service's answer.

        :raises NotFound: there is no such bucket.
        :raises StoreError: 501: there is no training service; 503: it does not answer.
        """
        bucket = call.part("bucket")
        try:
            await call.run(call.store.bucket, bucket)
        except NotFound:
            if not REGISTRY_BUCKET.fullmatch(bucket):
                raise
        if self._url is None:
            message = (
                "this object store keeps no bucket policies: it was started without --training-url, "
                "the service that does"
            )
            raise StoreError(HTTPStatus.NOT_IMPLEMENTED, "notImplemented", message)
        request = call.request
        passed_on = {name: value for name in _PASSED_ON if (value := request.headers.get(name))}
        url = f"{self._url}{request.scope['raw_path'].decode('ascii')}?{request.url.query}"
        # The body of a read may have been its query.
        body = b"" if request.method == "GET" else await call.short_body()
        try:
            answer = await self._http.request(request.method, url, headers=passed_on, content=body)
        except httpx.InvalidURL as error:
            raise Invalid(f"the parameters cannot be passed on: {error}") from None
        except httpx.RequestError as error:
            message = (
                f"the training service at {self._url}, which keeps the policies of buckets, does not answer: "
                f"{str(error) or type(error).__name__}; start it with `make serve`"
            )
            raise StoreError(HTTPStatus.SERVICE_UNAVAILABLE, "backendError", message) from error
        return Response(answer.content, answer.status_code, media_type="application/json")
