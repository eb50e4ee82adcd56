"""What a proxy's client asks for, and how it is refused."""

from __future__ import annotations

from http import HTTPStatus

from training_service.front_door.names import API_HOST, is_api_host

_SERVED = f"{API_HOST}:443 and REGION-{API_HOST}:443"
_WHO = "this is the way to the local training service for clients of Vertex AI"


def refusal_of(head: bytes) -> bytes | None:
    """
    Return the answer to a request that is not served; ``None``: it is a CONNECT to Vertex AI.

    :param head: from the request's first byte to its empty line; only the first line counts.
    """
    words = head.partition(b"\r\n")[0].decode("ascii", errors="replace").split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        return answer(HTTPStatus.BAD_REQUEST, f"{_WHO}; it understands CONNECT of HTTP/1.1 alone")
    method, target, _ = words
    if method != "CONNECT":
        return answer(
            HTTPStatus.METHOD_NOT_ALLOWED,
            f"{_WHO}; the method must be CONNECT, got {method[:20]!a}; the service itself is at TRAINING_PORT",
        )
    host, _, port = target.lower().rpartition(":")
    if port != "443" or not is_api_host(host):
        return answer(
            HTTPStatus.FORBIDDEN,
            f"{_WHO}; it connects to {_SERVED} and to nothing else, got {target[:300]!a}; name other hosts "
            "in no_grpc_proxy, or in no_proxy where https_proxy is set",
        )
    return None


def busy(connections: int) -> bytes:
    """Return the answer to one connection too many."""
    return answer(
        HTTPStatus.SERVICE_UNAVAILABLE, f"{_WHO}; it has {connections} connections, its limit; try again"
    )


def answer(status: HTTPStatus, sentence: str) -> bytes:
    """Return a whole answer of HTTP/1.1, after which the connection ends."""
    body = f"{sentence}\n".encode()
    lines = [
        f"HTTP/1.1 {status.value} {status.phrase}",
        "Content-Type: text/plain; charset=utf-8",
        f"Content-Length: {len(body)}",
        "X-Content-Type-Options: nosniff",
        *(["Allow: CONNECT"] if status is HTTPStatus.METHOD_NOT_ALLOWED else []),
        "Connection: close",
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body
