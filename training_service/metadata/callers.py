"""
Who asks the metadata endpoint.

On one machine the service knows it, on several the agent of each.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from training_api.errors import TrainingError
from training_service.metadata.tree import JobIdentity


class InvalidAudience(TrainingError):
    """Nobody gets an identity token for this audience."""


class CallerUnknown(TrainingError):
    """Who the caller is, or its token, cannot be had now: ask again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessToken:
    """
    A bearer token of a job's account.

    :param seconds: how long it is still valid.
    """

    value: str = field(repr=False)
    seconds: int


class Caller(Protocol):
    """A container of a job."""

    @property
    def identity(self) -> JobIdentity:
        """Who it is. :raises CallerUnknown: that cannot be said now."""

    def access_token(self) -> AccessToken:
        """Return a token of the job's account. :raises CallerUnknown: there is none now."""

    def identity_token(self, audience: str) -> str:
        """
        Return a token that tells ``audience`` who the account is.

        :raises InvalidAudience: it is empty, too long, or reserved.
        :raises CallerUnknown: there is none now.
        """


class FindCaller(Protocol):
    """From a container's address to the container."""

    def __call__(self, address: str) -> Caller | None:
        """
        Return who has ``address``; ``None``: no container of a job.

        :raises CallerUnknown: that cannot be said now.
        """
