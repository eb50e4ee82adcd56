"""Odd requests, made from good ones; the same random numbers make the same requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any
from urllib.parse import quote

from benchmarks.fuzz import odd
from benchmarks.fuzz.wire import Request

#: Of a hundred requests, those that stay good: they fill the server, and keep the others' ways open.
_GOOD_PERCENT = 15
_TORN_PERCENT = 4


@dataclass(frozen=True, slots=True)
class Sample:
    """
    A good request.

    :param path: with names in braces, which stand for values of ``Vocabulary``.
    :param body: JSON, unless it is bytes; ``None``: there is none.
    """

    method: str
    path: str
    query: Sequence[tuple[str, str]] = ()
    body: Any = None
    headers: Sequence[tuple[str, bytes]] = ()


@dataclass(slots=True)
class Vocabulary:
    """
    What the names in paths may stand for; those of answers are added.

    :param queries: parameters that some route takes.
    """

    names: dict[str, list[str]]
    queries: Sequence[str]
    most: int = field(default=30)

    def add(self, name: str, value: str) -> None:
        """Take a value from an answer; the oldest goes."""
        known = self.names.setdefault(name, [])
        known.append(value)
        del known[: -self.most]

    def fill(self, random: Random, template: str) -> dict[str, str]:
        """Return a value for each name."""
        return {name: random.choice(known) for name, known in self.names.items() if f"{{{name}}}" in template}


def make_request(random: Random, samples: Sequence[Sample], words: Vocabulary) -> Request:
    """Return a request, in most cases an odd one."""
    sample = _filled(random, random.choice(samples), words)
    if random.randrange(100) >= _GOOD_PERCENT:
        for _ in range(random.choice((1, 1, 2, 3))):
            sample = random.choice(_SPOILERS)(random, sample, words)
    return _torn(random, sample) if random.randrange(100) < _TORN_PERCENT else _written(random, sample)


def _filled(random: Random, sample: Sample, words: Vocabulary) -> Sample:
    values = words.fill(random, f"{sample.path}{sample.query}{sample.body}")
    quoted = {name: quote(value, safe="") for name, value in values.items()}
    query = tuple((name, _named(value, values)) for name, value in sample.query)
    return replace(sample, path=_named(sample.path, quoted), query=query, body=_named(sample.body, values))


def _named(document: Any, values: dict[str, str]) -> Any:
    match document:
        case str():
            for name, value in values.items():
                document = document.replace(f"{{{name}}}", value)
        case dict():
            return {key: _named(value, values) for key, value in document.items()}
        case list():
            return [_named(each, values) for each in document]
    return document


def _spoil_path(random: Random, sample: Sample, _: Vocabulary) -> Sample:
    parts = sample.path.split("/")
    place = random.randrange(1, len(parts))
    part = odd.encoded(random, odd.text(random))
    match random.randrange(5):
        case 0:
            parts.insert(place, part)
        case 1:
            del parts[place:]
        case 2:
            name, colon, verb = parts[-1].partition(":")
            parts[-1] = f"{part}{colon}{verb}" if random.random() < 0.5 else f"{name}:{part}"
        case _:
            parts[place] = part
    return replace(sample, path="/".join(parts) or "/")


def _spoil_query(random: Random, sample: Sample, words: Vocabulary) -> Sample:
    query = list(sample.query)
    known = [name for name, _ in query]
    name = random.choice([*known, *words.queries]) if random.random() < 0.95 else odd.text(random)
    if name in known and random.random() < 0.7:
        query = [pair for pair in query if pair[0] != name]
    return replace(sample, query=(*query, (name, odd.text(random))))


def _spoil_body(random: Random, sample: Sample, _: Vocabulary) -> Sample:
    if sample.body is None or isinstance(sample.body, bytes) or random.random() < 0.15:
        raw = sample.body if isinstance(sample.body, bytes) else odd.as_bytes(sample.body)
        return replace(sample, body=odd.spoil_bytes(random, raw))
    return replace(sample, body=odd.spoil_json(random, sample.body))


def _spoil_header(random: Random, sample: Sample, _: Vocabulary) -> Sample:
    return replace(sample, headers=(*sample.headers, odd.header(random)))


def _spoil_method(random: Random, sample: Sample, _: Vocabulary) -> Sample:
    return replace(sample, method=random.choice(odd.METHODS))


_SPOILERS = (_spoil_path, _spoil_query, _spoil_query, _spoil_body, _spoil_body, _spoil_header, _spoil_method)


def _written(random: Random, sample: Sample) -> Request:
    """Return the request with the length that its body has."""
    body = _body(sample)
    length = f"{len(body)}".encode()
    given = {name.lower() for name, _ in sample.headers}
    headers = [*sample.headers, *((("Content-Length", length),) if body or sample.method != "GET" else ())]
    # What is said of a body that is not JSON stays.
    if body and "content-type" not in given and not isinstance(sample.body, bytes):
        headers.append(("Content-Type", b"application/json"))
    # A header with a line break is two; it may frame the body in another way, as these do.
    reframes = {"upgrade", "connection", "te", "trailer"}
    is_torn = bool(given & reframes) or any(b"\n" in value or b"\r" in value for _, value in sample.headers)
    return Request(sample.method, _head(random, sample, headers), body, is_torn=is_torn)


def _torn(random: Random, sample: Sample) -> Request:
    """Return a request whose bytes contradict each other, or end too early."""
    body = _body(sample)
    length = ("Content-Length", f"{len(body)}".encode())
    chunked = ("Transfer-Encoding", b"chunked")
    chunks = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body) if body else b"0\r\n\r\n"
    framings = (
        ([("Content-Length", f"{len(body) + 100}".encode())], body),
        ([("Content-Length", f"{len(body) // 2}".encode())], body),
        ([("Content-Length", odd.text(random).encode("utf-8", "surrogatepass"))], body),
        ([length, length], body),
        ([length, chunked], body),
        ([chunked], chunks),
        ([chunked], odd.spoil_bytes(random, chunks)),
        ([chunked, ("Transfer-Encoding", b"gzip")], chunks),
        ([("X-Long", b"x" * random.choice((10_000, 70_000, 200_000)))], b""),
        ([(f"X-{number}", b"x") for number in range(300)], b""),
    )
    headers, raw = random.choice(framings)
    head = _head(random, sample, [*sample.headers, *headers])
    if random.random() < 0.3:
        head = odd.spoil_bytes(random, head)
    return Request(sample.method, head, raw, is_torn=True)


def _head(random: Random, sample: Sample, headers: Sequence[tuple[str, bytes]]) -> bytes:
    query = "&".join(
        f"{odd.encoded(random, name)}={_parameter(random, value)}" for name, value in sample.query
    )
    target = sample.path + (f"?{query}" if query else "")
    hosts = [] if any(name == "Host" for name, _ in headers) else [("Host", b"127.0.0.1")]
    lines = [b"%s: %s" % (name.encode(), value) for name, value in [*hosts, *headers]]
    return b"\r\n".join([f"{sample.method} {target} HTTP/1.1".encode(), *lines, b"", b""])


def _parameter(random: Random, value: str) -> str:
    """Return what is sent of a parameter; that of a good request is encoded as it should be."""
    if value.isascii() and value.isprintable():
        return quote(value, safe="")
    return odd.encoded(random, value)


def _body(sample: Sample) -> bytes:
    if sample.body is None:
        return b""
    return sample.body if isinstance(sample.body, bytes) else odd.as_bytes(sample.body)
