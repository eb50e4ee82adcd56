"""What every part of the stack has in common."""

from __future__ import annotations

import ssl
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import httpx

from local_stack.processes.manager import ProcessManager
from local_stack.processes.packages import PackageInstaller
from local_stack.processes.progress import Progress
from local_stack.processes.supervisor_config import Program
from local_stack.settings import Part, StackSettings

PROBE_TIMEOUT_SECONDS = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """An address on which a part listens, and the environment variable that sets its port."""

    host: str
    port: int
    setting: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Workshop:
    """What parts work with: settings, process manager, package installer, progress lines."""

    settings: StackSettings
    processes: ProcessManager
    packages: PackageInstaller
    progress: Progress


class StackPart(ABC):
    """
    One part of the stack.

    :class:`~local_stack.stack.LocalStack` calls, in this order: :meth:`prepare`, then starts :meth:`programs`
    after it has checked that the ports of :meth:`listeners` are free, waits until :meth:`is_healthy`, then
    :meth:`complete`. All of them may be called again at any time, and are quick when there is nothing left to
    do.
    """

    name: ClassVar[Part]
    health_timeout_seconds: ClassVar[float] = 0.0
    """How long this part may take to become healthy, if that is longer than the setting of the stack."""

    def __init__(self, workshop: Workshop) -> None:
        self.settings = workshop.settings
        self.processes = workshop.processes
        self.packages = workshop.packages
        self.progress = workshop.progress

    @abstractmethod
    def address(self) -> str:
        """Where the part is reached, for people."""

    @abstractmethod
    def is_healthy(self) -> bool:
        """Ask the part itself; never raises because the part does not answer."""

    def start_lock(self) -> AbstractContextManager[None]:
        """Return the lock to hold from :meth:`prepare` to :meth:`complete`; stacks may share a part."""
        return nullcontext()

    def prepare(self) -> None:
        """Install and write what the programs need."""
        return

    def programs(self) -> Sequence[Program]:
        """Return the programs to supervise, in the order of their start."""
        return ()

    def program_names(self) -> Sequence[str]:
        """Return the names of the programs that this part may have, without preparing anything."""
        return (self.name.value,)

    def listeners(self) -> Sequence[Listener]:
        """Return the addresses that must be free before the programs start."""
        return ()

    def complete(self) -> None:
        """Put into the healthy part what it must contain."""
        return


def answers_ok(url: str) -> bool:
    """Tell whether a GET of ``url`` is answered with 200 within two seconds."""
    return answer_status(url) == httpx.codes.OK


def answer_status(url: str, authority: Path | None = None) -> int | None:
    """
    Return the status with which a GET of ``url`` is answered within two seconds, or None.

    :param authority: certificate of whom is trusted for ``https``, PEM; it may be missing.
    """
    try:
        trusted = ssl.create_default_context(cafile=authority) if url.startswith("https:") else True
        # Local addresses: a proxy of the environment has nothing to do with them.
        return httpx.get(url, timeout=PROBE_TIMEOUT_SECONDS, trust_env=False, verify=trusted).status_code
    except (httpx.HTTPError, OSError):
        return None
