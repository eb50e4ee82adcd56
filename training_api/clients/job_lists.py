"""Lists of jobs, page after page. Pure, but for what it is given to ask."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

_Row = TypeVar("_Row", covariant=True)


class Page(Protocol[_Row]):
    """A page of a list."""

    @property
    def jobs(self) -> Sequence[_Row] | None:
        """Its rows."""

    @property
    def next_page_token(self) -> str | None:
        """What the next page is asked for by; empty: there is none."""


def listed_jobs(page_after: Callable[[str], Page[_Row]]) -> Iterator[_Row]:
    """
    Yield the rows of all pages; a page is asked for when the one before it is read.

    A page may be empty and not the last: Vertex AI has a list for each region and kind of job.

    :param page_after: from a page token to its page; the empty one stands for the first.
    """
    token = ""
    while True:
        page = page_after(token)
        yield from page.jobs or ()
        token = page.next_page_token or ""
        if not token:
            return
