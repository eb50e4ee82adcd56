"""Odd values, and how they get into a request. All from the random numbers of the caller."""

from __future__ import annotations

import json
from random import Random
from typing import Any
from urllib.parse import quote

#: In the order of what they attack: paths, encodings, headers and logs, queries, numbers, patterns.
TEXTS = (
    *("", ".", "..", "../" * 12 + "tmp/fuzz", "/etc/passwd", "..\\..\\fuzz", "a/../../b", "a//b", "~", "-rf"),
    *("\x00", "a\x00b", "\ud800", "\udfff", "é", "e\u0301", "\U0001d518", "\u202e", "\ufeff", "\x7f", "ß"),
    *("a\r\nX-Odd: 1", "\n", "\r", "\t", " ", "a\nINFO forged", "\x1b[2J", "\x0b", "\u2028"),
    *("'", '"', "' OR '1'='1", "%", "_", "*", "?", "#", "\\", "`id`", "$(id)", "${jndi:ldap://x}", "{{7*7}}"),
    *("0", "-1", "1", "00", "9" * 5000, str(2**63), str(-(2**63) - 1), str(2**64), "1e999", "NaN", "²", "٣"),
    *(
        "null",
        "true",
        "[]",
        "{}",
        "a" * 1025,
        "é" * 600,
        "x" * 20_000,
        "<script>",
        "a:b",
        "a=b&c=d",
        "(" * 500,
    ),
    *("2026-01-31T12:00:00Z", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:60Z", "gs://b/o", "s" * 63),
)
_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1.5, 2**31, 2**63, -(2**63) - 1, 2**70, 10**400, 1e308, float("nan")),
    *(float("inf"), [], {}, [[]], [None], {"": None}, {"a": {"a": {}}}, [{}] * 300, {"__proto__": 1}),
)
_DEEP = b"[" * 50_000
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "PROPFIND", "get", "FUZZ")
HEADERS = (
    *("Authorization", "Content-Type", "Content-Encoding", "Accept-Encoding", "Accept", "Range", "Origin"),
    *("Content-Range", "If-Match", "If-None-Match", "If-Modified-Since", "Expect", "X-HTTP-Method-Override"),
    *("X-Goog-Hash", "Content-MD5", "X-Goog-Meta-Odd", "X-Goog-If-Generation-Match", "X-Upload-Content-Type"),
    *(
        "Sec-Fetch-Site",
        "X-Forwarded-For",
        "X-Forwarded-Host",
        "Forwarded",
        "Cookie",
        "Referer",
        "User-Agent",
    ),
    *("Content-Disposition", "Cache-Control", "Upgrade", "Connection", "Keep-Alive", "TE", "Trailer", "Host"),
)
_HEADER_VALUES = (
    *("bytes=0-", "bytes=-1", "bytes=5-1", "bytes=0-0,2-3", "bytes=" + "9" * 40 + "-", "bytes 0-4/*"),
    *("bytes */*", "bytes 5-9/3", "bytes 0-0/" + "9" * 19, "gzip", "gzip, br", "identity", "chunked", "null"),
    *("application/json", "application/json; charset=utf-16", "text/plain", "multipart/related"),
    *(
        "multipart/related; boundary=x",
        "application/x-www-form-urlencoded",
        "Bearer x",
        "Basic eDp5",
        "Basic =",
    ),
    *(
        "GET",
        "DELETE",
        "100-continue",
        "close",
        "h2c",
        "websocket",
        "crc32c=AAAAAA==",
        "md5=",
        "W/*",
        "cross-site",
    ),
    *("127.0.0.1", "localhost:99999", "evil.example", "[::1]", "a.b:c", "@", "0"),
)


def text(random: Random) -> str:
    """Return an odd text."""
    if random.random() < 0.8:
        return random.choice(TEXTS)
    return "".join(chr(random.choice((random.randrange(128), random.randrange(0x3000)))) for _ in range(8))


def value(random: Random) -> Any:
    """Return an odd value of JSON."""
    return random.choice(_VALUES) if random.random() < 0.5 else text(random)


def encoded(random: Random, odd: str) -> str:
    """Return a text as it may stand in a URL: percent-encoded, twice, in part, or hardly."""
    raw = odd.encode("utf-8", "surrogatepass")
    match random.randrange(6):
        case 0:
            return quote(quote(raw, safe=""), safe="")
        case 1:
            return quote(raw)
        case 2:
            # A line of HTTP ends where its target has a blank or a line break.
            return "".join(chr(byte) if 33 <= byte < 127 else f"%{byte:02x}" for byte in raw)
    return quote(raw, safe="")


def header(random: Random) -> tuple[str, bytes]:
    """Return an odd header."""
    odd = text(random) if random.random() < 0.4 else random.choice(_HEADER_VALUES)
    return random.choice(HEADERS), odd.encode("utf-8", "surrogatepass")


def spoil_json(random: Random, document: Any) -> Any:
    """Return a copy of ``document`` with one value, key or type changed somewhere within."""
    if isinstance(document, dict) and document and random.random() < 0.85:
        copy = dict(document)
        key = random.choice(list(copy))
        match random.randrange(8):
            case 0:
                del copy[key]
            case 1:
                copy[text(random)] = copy[key]
            case 2:
                copy[key] = [copy[key]]
            case _:
                copy[key] = spoil_json(random, copy[key])
        return copy
    if isinstance(document, list) and document and random.random() < 0.85:
        place = random.randrange(len(document))
        return [*document[:place], spoil_json(random, document[place]), *document[place + 1 :]]
    return value(random)


def spoil_bytes(random: Random, body: bytes) -> bytes:
    """Return bytes that are not what they were."""
    place = random.randrange(len(body) + 1)
    match random.randrange(7):
        case 0:
            return body[:place]
        case 1:
            return body[:place] + random.randbytes(4) + body[place:]
        case 2:
            return body * 2
        case 3:
            return random.randbytes(random.randrange(200))
        case 4:
            return b"\xef\xbb\xbf" + body
        case 5:
            return _DEEP
    # Beyond the limit of a short body.
    return body + b" " * (1 << 20) if random.random() < 0.05 else body.replace(b'"', b"'")


def as_bytes(document: Any) -> bytes:
    """Return JSON as a hostile client writes it: NaN and lone surrogates included."""
    return json.dumps(document).encode()
