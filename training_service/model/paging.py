"""How all lists are paged: the size of a page, and tokens that cannot be read. Pure."""

from __future__ import annotations

from training_api.errors import InvalidRequest

_MAX_SHOWN = 100
_INT32 = 2**31 - 1


def page_size(asked: int, *, default: int, maximum: int) -> int:
    """
    Return how many entries a page has at most. Source: google.aip.dev/158.

    :param asked: ``pageSize`` of the request; 0, as if it were absent, is ``default``, and what is more than
        ``maximum`` is cut.
    :raises InvalidRequest: it is negative, or no 32-bit integer.
    """
    if not 0 <= asked <= _INT32:
        shown = str(asked) if abs(asked) < 10**18 else "a larger number"
        description = f"must be from 1 to {maximum}, or 0 for {default}; got {shown}"
        raise InvalidRequest.of("pageSize", description)
    return min(asked or default, maximum)


def foreign_token(token: str) -> InvalidRequest:
    """Return the error of a page token that this service did not give out."""
    shown = repr(token if len(token) <= _MAX_SHOWN else f"{token[:_MAX_SHOWN]}...")
    description = (
        f"page token {shown} is not one that this service gave out; leave it out to get the first page"
    )
    return InvalidRequest.of("pageToken", description)
