"""What an HTTP answer of one of the APIs means: JSON, or one of the project's errors."""

from __future__ import annotations

import math
import ssl
from collections.abc import Mapping
from typing import Any, TypeVar

import httpx
from pydantic import ValidationError

from training_api.errors import (
    AccessDenied,
    JobConflict,
    JobNotFound,
    QuotaExceeded,
    ServiceError,
    ServiceUnavailable,
    Throttled,
    TransportError,
)
from training_api.wire import WireModel

#: What a request without an answer raises. A server may refuse a client's certificate after the handshake
#: (TLS 1.3, RFC 8446, 4.4.2.4): httpx does not translate that error where asyncio meets it.
NO_ANSWER = (httpx.RequestError, ssl.SSLError)
#: How the service tells that a job asks for what it will never have [issue: FIRST-Tech-Challenge/fmltc#318].
_QUOTA_FAILURE = "Quota failure"
_M = TypeVar("_M", bound=WireModel)
_BY_CODE: Mapping[int, type[ServiceError]] = {
    401: AccessDenied,
    403: AccessDenied,
    404: JobNotFound,
    409: JobConflict,
    **dict.fromkeys((500, 502, 503, 504), ServiceUnavailable),
}


def transport_error(
    who: str, request: httpx.Request, error: httpx.RequestError | ssl.SSLError
) -> TransportError:
    """Return the error of a request that ``who`` did not answer."""
    url = request.url
    return TransportError(
        f"{who} at {url.scheme}://{url.netloc.decode()} did not answer "
        f"{request.method} {url.path}: {str(error) or type(error).__name__}"
    )


def read_answer(response: httpx.Response, advice: Mapping[int, str] | None = None) -> Any:
    """
    Return the JSON of a good response, or raise the error that it stands for.

    :param advice: what to do about an error, by its HTTP status; stands at the end of its message.
    """
    if response.is_success:
        try:
            return response.json()
        except ValueError as error:
            raise TransportError(f"{response.url} answered with something other than JSON") from error
    raise service_error(response, advice)


def read_model(model: type[_M], answer: Any) -> _M:
    """
    Return ``answer``, the training service's, as a ``model``.

    :raises TransportError: it is not one.
    """
    try:
        # A field that a newer service adds is none of this client's business.
        return model.model_validate(answer, extra="ignore")
    except ValidationError as error:
        raise TransportError(
            f"the training service answered with what is no {model.__name__}: {error}"
        ) from error


def service_error(response: httpx.Response, advice: Mapping[int, str] | None = None) -> ServiceError:
    """Return the error that a bad response stands for; ``advice``: see :func:`read_answer`."""
    code = response.status_code
    message, status = _error_body(response)
    if advice and code in advice:
        message = f"{message.rstrip('.')}; {advice[code]}"
    if code == 429 and message.startswith(_QUOTA_FAILURE):
        return QuotaExceeded(message)
    if code == 429:
        return Throttled(message, code=code, status=status, retry_after_seconds=_retry_after(response))
    return _BY_CODE.get(code, ServiceError)(message, code=code, status=status)


def _error_body(response: httpx.Response) -> tuple[str, str]:
    try:
        error = response.json()["error"]
        violations = [
            f"{violation['field']}: {violation['description']}"
            for detail in error.get("details", [])
            for violation in detail.get("fieldViolations", [])
        ]
        message = str(error["message"])
        extra = [violation for violation in violations if violation not in message]
        # Cloud Storage has a reason instead of a status.
        status = error["status"] if "status" in error else error["errors"][0]["reason"]
        return "; ".join([message, *extra]), str(status)
    except (ValueError, LookupError, TypeError, AttributeError):
        return f"HTTP {response.status_code} from {response.url}: {response.text[:200]!r}", "UNKNOWN"


def _retry_after(response: httpx.Response) -> float | None:
    """Return the seconds of a Retry-After header; the date form is not used by this API."""
    try:
        seconds = float(response.headers["Retry-After"])
    except (KeyError, ValueError):
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None
