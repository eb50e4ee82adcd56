"""
What a Docker Engine's refusal means: the one table of its errors. Pure.

The HTTP status decides where it says something. An error within a stream (a pull, a push) has no status, and
the engine answers 500 whenever it has no better class for an error: there the text decides. The texts are the
engine's (20.10 and later) and the registry's (distribution 2.8).
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum


class Refusal(Enum):
    """What a refusal means to the caller."""

    NO_IMAGE = "there is no such image"
    NO_ACCESS = "the image may not be pulled, whether it exists or not"
    NO_COMMAND = "the image has no such program, or it cannot be executed"
    NO_ROOM = "the engine's disk is full"
    INVALID = "the request itself is refused"
    BUSY = "the engine cannot do it now"
    NO_REGISTRY = "the registry does not answer now"
    NO_ENGINE = "the engine is there, and does not work now"

    @property
    def is_passing(self) -> bool:
        """Whether the same request may work later without any change."""
        # A full disk does not count: a waiting job would hold its share of the machine until space is freed.
        return self in (Refusal.BUSY, Refusal.NO_REGISTRY, Refusal.NO_ENGINE)


class Asked(Enum):
    """Who has to answer a request."""

    ENGINE = "the engine alone"
    REGISTRY = "a registry, through the engine: a pull, a push, a look-up"


#: Instead of a status, for an error within a stream.
IN_STREAM = 0
_ANY = range(IN_STREAM, 600)
#: These say nothing about the reason.
_MUTE = frozenset((IN_STREAM, *range(500, 600)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """
    One rule.

    :param words: the text must contain one of them; ``None``: any text.
    :param asked: ``None``: either.
    """

    refusal: Refusal
    statuses: Collection[int]
    words: re.Pattern[str] | None = None
    asked: Asked | None = None

    def is_about(self, text: str, status: int, asked: Asked) -> bool:
        return (
            status in self.statuses
            and self.asked in (None, asked)
            and (self.words is None or self.words.search(text) is not None)
        )


def _any_of(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.IGNORECASE)


#: The first matching row counts.
_TABLE = (
    # The engine's network library answers these with 400, 403, 404 or 500, depending on its version. They
    # pass when other jobs' networks are removed.
    _Row(
        refusal=Refusal.BUSY,
        statuses=_ANY,
        words=_any_of(
            r"non-overlapping IPv\d address pool",
            r"address pools have been fully subnetted",
            r"no available IPv\d addresses",
            r"pool overlaps with other one",
            r"network \S+ not found",  # removed since: it is made again before the next start
        ),
    ),
    # Newer engines answer 400 for a missing program, older ones 404 or 500.
    _Row(
        refusal=Refusal.NO_COMMAND,
        statuses=_ANY,
        asked=Asked.ENGINE,
        words=_any_of(
            r"executable file not found",
            r"OCI runtime attempted to invoke a command that was not found",  # Podman
            r"exec: .*(no such file or directory|permission denied)",
            r"exec format error",
        ),
    ),
    # The status says it.
    _Row(refusal=Refusal.NO_REGISTRY, statuses={408, 429}, asked=Asked.REGISTRY),
    _Row(refusal=Refusal.NO_ACCESS, statuses={401, 403}, asked=Asked.REGISTRY),
    _Row(refusal=Refusal.NO_IMAGE, statuses={404}, asked=Asked.REGISTRY),
    _Row(refusal=Refusal.NO_IMAGE, statuses={404}, words=_any_of(r"no such image")),
    _Row(refusal=Refusal.BUSY, statuses={408, 409, 429}),
    _Row(refusal=Refusal.INVALID, statuses={*range(400, 500), 501}),
    # The text says it.
    _Row(
        refusal=Refusal.NO_ROOM,
        statuses=_MUTE,
        words=_any_of(r"no space left on device", r"disk quota exceeded"),
    ),
    _Row(
        refusal=Refusal.NO_ENGINE,
        statuses=_MUTE,
        words=_any_of(r"is shutting down", r"is not a swarm manager", r"does not have a leader"),
    ),
    _Row(
        refusal=Refusal.NO_REGISTRY,
        statuses=_MUTE,
        asked=Asked.REGISTRY,
        words=_any_of(
            r"toomanyrequests",
            r"unexpected (HTTP )?status\b.*\b(429|5\d\d)\b",
            r"\b(500 internal server error|502 bad gateway|503 service unavailable|504 gateway time)",
            r"connection (refused|reset)",
            r"broken pipe",
            r"no such host",
            r"server misbehaving",
            r"temporary failure in name resolution",
            r"dial tcp",
            r"network is unreachable",
            r"no route to host",
            r"i/o timeout",
            r"TLS handshake timeout",
            r"deadline exceeded",
            r"Client\.Timeout",
            r"unexpected EOF",
            r": EOF",
            # Engine 20.10, when several clients push one image at once: the same push succeeds later.
            r"blob unknown",
        ),
    ),
    _Row(
        refusal=Refusal.NO_ACCESS,
        statuses=_MUTE,
        asked=Asked.REGISTRY,
        words=_any_of(
            r"unauthorized",
            r"permission denied",
            r"(?<!access )denied:",
            r"\b40[13] (unauthorized|forbidden)",
        ),
    ),
    _Row(
        refusal=Refusal.NO_IMAGE,
        statuses=_MUTE,
        asked=Asked.REGISTRY,
        words=_any_of(
            r"manifest unknown",
            r"manifest for",
            r"no matching manifest",
            r"repository does not exist",
            r"repository name not known",
            r"no such image",
            r"name unknown",
            r"access denied",  # the engine's word where there may be no such repository
            r"\b404 not found",
        ),
    ),
    _Row(
        refusal=Refusal.INVALID,
        statuses=_MUTE,
        words=_any_of(
            r"could not select device driver",
            # Podman, of what its user may not give a container, such as a limit or a control group.
            r"OCI permission denied",
        ),
    ),
    _Row(refusal=Refusal.BUSY, statuses=range(500, 600)),
    _Row(refusal=Refusal.INVALID, statuses=_ANY),
)


def refusal_of(text: str, *, status: int = IN_STREAM, asked: Asked = Asked.ENGINE) -> Refusal:
    """Return what an error of the engine means. Pure."""
    return next(row.refusal for row in _TABLE if row.is_about(text, status, asked))
