"""
The tokens of join commands: each is good once, and for a while.

They are known here by their digests alone. A token of Swarm is good for any number of machines, and for
ever. So who joins gets it for a token of the stack, and it is replaced as soon as that machine has joined, or
has not within two minutes. What was given out is on disk before it leaves this machine, so that a killed gate
does not forget to replace it.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from local_stack.people.credentials import write_private

JOIN_SECONDS = 120.0
"""How long Swarm's token stays good for a machine that was given it; a join takes some seconds."""
_TOKEN = re.compile(r"^[A-Za-z0-9_-]{16,128}$")
_OPEN, _GIVEN = "open", "given"


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """
    Swarm's token was given to a machine.

    :param address: of the machine.
    :param until: seconds since the epoch, when the token is to be replaced at the latest.
    :param before: ids of the machines that there were.
    """

    address: str
    until: float
    before: list[str]


class Invitations:
    """
    Tokens in a folder: a file ``open/DIGEST`` until it is used, then ``given/DIGEST``.

    :param now: seconds since the epoch; for tests.
    """

    def __init__(self, folder: Path, now: Callable[[], float] = time.time) -> None:
        self._folder = folder
        self._now = now

    def issue(self, seconds: float) -> str:
        """Return a new token that can be used once within ``seconds``."""
        token = secrets.token_urlsafe(32)
        self._write(_OPEN, _digest(token), {"until": self._now() + seconds})
        return token

    def use(self, token: str, address: str, before: Collection[str]) -> bool:
        """
        Tell whether ``token`` is good, and use it up.

        Of several who come with it at once, one is let in.

        :param address: of the machine that comes with it.
        :param before: ids of the machines that there are.
        """
        if not _TOKEN.match(token):
            return False
        digest = _digest(token)
        path = self._folder / _OPEN / digest
        found = _read(path)
        if found is None or float(found["until"]) <= self._now():
            return False
        until = self._now() + JOIN_SECONDS
        # Written first: a process that is killed from here on has given the token.
        self._write(_GIVEN, digest, asdict(Given(address=address, until=until, before=sorted(before))))
        try:
            path.unlink()
        except FileNotFoundError:
            return False  # another one was quicker
        return True

    def given(self) -> dict[str, Given]:
        """Return to whom Swarm's token was given, by digest."""
        return {path.name: Given(**found) for path in self._files(_GIVEN) if (found := _read(path))}

    def is_over(self, given: Given) -> bool:
        """Tell whether the time in which that machine may join has passed."""
        return given.until <= self._now()

    def forget(self, digests: Collection[str]) -> None:
        """Forget these: the token of Swarm that they were given is no longer good."""
        for digest in digests:
            (self._folder / _GIVEN / digest).unlink(missing_ok=True)

    def remove_expired(self) -> None:
        """Remove the tokens that have expired without being used."""
        for path in self._files(_OPEN):
            found = _read(path)
            if found is not None and float(found["until"]) <= self._now():
                path.unlink(missing_ok=True)

    def _files(self, kind: str) -> Iterator[Path]:
        folder = self._folder / kind
        if folder.is_dir():
            # Without what a killed process has left half written.
            yield from (path for path in sorted(folder.iterdir()) if not path.suffix)

    def _write(self, kind: str, digest: str, content: object) -> None:
        write_private(self._folder / kind / digest, json.dumps(content))


def _digest(token: str) -> str:
    """Return by what a token is kept and found, so that no comparison leaks it."""
    return hashlib.sha256(token.encode()).hexdigest()


def _read(path: Path) -> dict[str, Any] | None:
    with suppress(FileNotFoundError):
        found: dict[str, Any] = json.loads(path.read_text("utf-8"))
        return found
    return None
