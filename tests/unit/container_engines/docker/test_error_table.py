"""What an engine says, with which status, to whom: and what it means."""

from __future__ import annotations

import pytest

from container_engines.docker.error_table import IN_STREAM, Asked, Refusal, refusal_of

ENGINE, REGISTRY = Asked.ENGINE, Asked.REGISTRY
CASES = [
    # A pull, a push: the registry's words are in the stream, or come with a status that says nothing.
    (REGISTRY, IN_STREAM, "manifest for h/p/i:1 not found: manifest unknown", Refusal.NO_IMAGE),
    (REGISTRY, IN_STREAM, "manifest unknown", Refusal.NO_IMAGE),
    (REGISTRY, IN_STREAM, "pull access denied for h/p/i, repository does not exist", Refusal.NO_IMAGE),
    (REGISTRY, IN_STREAM, "denied: requested access to the resource is denied", Refusal.NO_ACCESS),
    (REGISTRY, 500, 'Head "https://h/v2/p": unauthorized: authentication required', Refusal.NO_ACCESS),
    (REGISTRY, IN_STREAM, "name unknown: repository name not known to registry", Refusal.NO_IMAGE),
    (REGISTRY, IN_STREAM, "no matching manifest for linux/arm64 in the manifest list", Refusal.NO_IMAGE),
    (REGISTRY, 500, "unexpected status from HEAD request to https://h/v2: 403 Forbidden", Refusal.NO_ACCESS),
    (REGISTRY, 401, "unauthorized", Refusal.NO_ACCESS),
    (REGISTRY, 403, "denied", Refusal.NO_ACCESS),
    (REGISTRY, 404, "whatever", Refusal.NO_IMAGE),
    (REGISTRY, 500, "toomanyrequests: You have reached your pull rate limit", Refusal.NO_REGISTRY),
    (REGISTRY, IN_STREAM, "toomanyrequests: rate exceeded", Refusal.NO_REGISTRY),
    (REGISTRY, 429, "whatever", Refusal.NO_REGISTRY),
    (REGISTRY, 408, "whatever", Refusal.NO_REGISTRY),
    (REGISTRY, 500, "received unexpected HTTP status: 500 Internal Server Error", Refusal.NO_REGISTRY),
    (REGISTRY, IN_STREAM, "unexpected HTTP status 500", Refusal.NO_REGISTRY),
    (REGISTRY, IN_STREAM, "received unexpected HTTP status: 503 Service Unavailable", Refusal.NO_REGISTRY),
    (REGISTRY, IN_STREAM, "unexpected status from GET request to h: 429 Too Many", Refusal.NO_REGISTRY),
    (REGISTRY, IN_STREAM, "<html>502 Bad Gateway</html>", Refusal.NO_REGISTRY),
    (REGISTRY, IN_STREAM, "write tcp 10.0.0.1:52->10.0.0.2:443: write: broken pipe", Refusal.NO_REGISTRY),
    (REGISTRY, 500, "lookup h: Temporary failure in name resolution", Refusal.NO_REGISTRY),
    (REGISTRY, 500, 'Get "https://h/v2/": context deadline exceeded', Refusal.NO_REGISTRY),
    (REGISTRY, 500, "dial tcp 127.0.0.1:1: connect: connection refused", Refusal.NO_REGISTRY),
    (REGISTRY, 500, "dial tcp: lookup h on 1.1.1.1:53: no such host", Refusal.NO_REGISTRY),
    (REGISTRY, 500, "lookup h on 1.1.1.1:53: server misbehaving", Refusal.NO_REGISTRY),
    (REGISTRY, 500, "net/http: TLS handshake timeout", Refusal.NO_REGISTRY),
    (REGISTRY, 500, "net/http: request canceled (Client.Timeout exceeded)", Refusal.NO_REGISTRY),
    (REGISTRY, IN_STREAM, "read tcp 10.0.0.1:5->10.0.0.2:443: i/o timeout", Refusal.NO_REGISTRY),
    (REGISTRY, IN_STREAM, "read: connection reset by peer", Refusal.NO_REGISTRY),
    (REGISTRY, IN_STREAM, "connect: network is unreachable", Refusal.NO_REGISTRY),
    (REGISTRY, IN_STREAM, "connect: no route to host", Refusal.NO_REGISTRY),
    (REGISTRY, IN_STREAM, "unexpected EOF", Refusal.NO_REGISTRY),
    (REGISTRY, 500, "Head https://h/v2/: EOF", Refusal.NO_REGISTRY),
    (
        REGISTRY,
        IN_STREAM,
        "errors:\ndigest invalid\nmanifest blob unknown: blob unknown to registry\n",
        Refusal.NO_REGISTRY,
    ),
    (REGISTRY, IN_STREAM, "write /var/lib/docker/tmp/1: no space left on device", Refusal.NO_ROOM),
    (REGISTRY, IN_STREAM, "write /var/lib/docker/tmp/1: disk quota exceeded", Refusal.NO_ROOM),
    (REGISTRY, IN_STREAM, "daemon is shutting down", Refusal.NO_ENGINE),
    (REGISTRY, IN_STREAM, "of this nothing is known", Refusal.INVALID),
    (REGISTRY, 500, "of this nothing is known", Refusal.BUSY),
    (REGISTRY, 400, "invalid reference format", Refusal.INVALID),
    # The engine alone: the status says it.
    (ENGINE, 404, "No such image: sha256:abc", Refusal.NO_IMAGE),
    (ENGINE, 404, "No such container: abc", Refusal.INVALID),
    (ENGINE, 409, 'Conflict. The container name "/ct-1" is already in use', Refusal.BUSY),
    (ENGINE, 409, "removal of container abc is already in progress", Refusal.BUSY),
    (ENGINE, 429, "whatever", Refusal.BUSY),
    (ENGINE, 400, 'exec: "x": executable file not found in $PATH', Refusal.NO_COMMAND),
    (ENGINE, 400, 'exec: "/x": permission denied: unknown', Refusal.NO_COMMAND),
    (ENGINE, 500, 'caused: exec: "/x": stat /x: no such file or directory: unknown', Refusal.NO_COMMAND),
    (ENGINE, 400, "invalid mount config: bind source path does not exist", Refusal.INVALID),
    (ENGINE, 403, "authorization denied by plugin", Refusal.INVALID),
    (ENGINE, 501, "configured logging driver does not support reading", Refusal.INVALID),
    (ENGINE, 500, "of this nothing is known", Refusal.BUSY),
    (ENGINE, 502, "bad gateway", Refusal.BUSY),
    # ... but for the few where it says nothing, or another thing in each version.
    (ENGINE, 500, "crun: setrlimit `RLIMIT_NOFILE`: OCI permission denied", Refusal.INVALID),
    (ENGINE, 500, "OCI runtime attempted to invoke a command that was not found", Refusal.NO_COMMAND),
    (ENGINE, 500, "write /var/lib/docker/overlay2/1: no space left on device", Refusal.NO_ROOM),
    (ENGINE, 500, "mkdir /var/lib/docker/overlay2/1: disk quota exceeded", Refusal.NO_ROOM),
    (ENGINE, 500, 'could not select device driver "nvidia" with capabilities: [[gpu]]', Refusal.INVALID),
    (ENGINE, 500, "OCI runtime create failed: exec format error", Refusal.NO_COMMAND),
    (ENGINE, 500, "daemon is shutting down", Refusal.NO_ENGINE),
    (ENGINE, 503, 'This node is not a swarm manager. Use "docker swarm init"', Refusal.NO_ENGINE),
    (ENGINE, 500, "rpc error: The swarm does not have a leader", Refusal.NO_ENGINE),
    *(
        (ENGINE, status, text, Refusal.BUSY)
        for status in (400, 403, 404, 500)
        for text in (
            "could not find an available, non-overlapping IPv4 address pool among the defaults",
            "all predefined address pools have been fully subnetted",
            "Pool overlaps with other one on this address space",
            "network ct-0123456789ab not found",
        )
    ),
    # What looks like a registry's trouble is the engine's own where no registry was asked.
    (ENGINE, 500, "driver failed: dial tcp 127.0.0.1:1: connection refused", Refusal.BUSY),
]


@pytest.mark.parametrize(("asked", "status", "text", "refusal"), CASES)
def test_a_refusal_means(asked: Asked, status: int, text: str, refusal: Refusal) -> None:
    assert refusal_of(text, status=status, asked=asked) is refusal


def test_what_may_work_later_is_told_from_what_is_final() -> None:
    passing = {refusal for refusal in Refusal if refusal.is_passing}

    assert passing == {Refusal.BUSY, Refusal.NO_REGISTRY, Refusal.NO_ENGINE}
