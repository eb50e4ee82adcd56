"""The object store on disk, with the bucket of the jobs in it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import httpx

from local_stack.errors import EngineMissing, PartFailed
from local_stack.parts.gateway import find_gateway
from local_stack.parts.part import Listener, StackPart, answers_ok
from local_stack.processes.supervisor_config import Program
from local_stack.settings import LOOPBACK, Part, StackSettings

FOLDER_MARK = "jobs/"
_USE_TIMEOUT_SECONDS = 5.0


class ObjectStore(StackPart):
    """
    Cloud Storage's JSON API on loopback, and for containers on the engine's bridge.

    Where other machines take part, containers of all of them come to the address that is advertised.
    """

    name = Part.OBJECT_STORE

    def address(self) -> str:
        """Return the URL for STORAGE_EMULATOR_HOST."""
        return self.settings.object_store_url

    def is_healthy(self) -> bool:
        """Tell whether the store answers its health check, also where containers ask."""
        try:
            listeners = self.listeners()
        except EngineMissing:
            return answers_ok(f"{self.settings.object_store_url}/health")
        return all(answers_ok(f"http://{each.host}:{each.port}/health") for each in listeners)

    def prepare(self) -> None:
        """Make the data folder."""
        self._data.mkdir(parents=True, exist_ok=True)

    def listeners(self) -> Sequence[Listener]:
        """Return the store's addresses: loopback, and where containers come to."""
        port = self.settings.object_store_port
        hosts = [LOOPBACK, self._containers_host()]
        return [
            Listener(host=host, port=port, setting="LOCAL_STACK_OBJECT_STORE_PORT") for host in hosts if host
        ]

    def programs(self) -> Sequence[Program]:
        """Return the server."""
        containers_host = self._containers_host()
        return [
            Program(
                name=self.name.value,
                command=(
                    sys.executable,
                    "-m",
                    "object_store",
                    "serve",
                    f"--host={LOOPBACK}",
                    f"--port={self.settings.object_store_port}",
                    f"--root={self._data}",
                    f"--training-url={self.settings.training_url}",
                    *([f"--containers-host={containers_host}"] if containers_host else ()),
                ),
                environment={"PYTHONUNBUFFERED": "1"},
            )
        ]

    def complete(self) -> None:
        """
        Make the bucket and the folder of the jobs, unless they exist.

        :raises PartFailed: the store refuses.
        """
        try:
            make_bucket(self.settings.object_store_url, self.settings)
        except httpx.HTTPError as error:
            raise PartFailed(
                self.name.value,
                f"refused to make the bucket {self.settings.bucket!r}: {error}",
                self.processes.log_of(self.name),
            ) from error

    def use(self) -> str | None:
        """Return what lies there and what room is left, for people; ``None``: it does not answer."""
        try:
            answer = httpx.get(
                f"{self.settings.object_store_url}/health", timeout=_USE_TIMEOUT_SECONDS, trust_env=False
            ).json()
            objects, stored, free = (
                int(answer[name]) for name in ("objects", "stored_bytes", "disk_free_bytes")
            )
        except (httpx.HTTPError, ValueError, KeyError):
            return None
        return f"{objects} objects, {stored / 2**20:.1f} MiB; the disk has {free / 2**30:.1f} GiB left"

    def _containers_host(self) -> str | None:
        if self.settings.advertise_address is not None:
            return str(self.settings.advertise_address)
        return find_gateway(self.settings.engine_url)

    @property
    def _data(self) -> Path:
        return self.settings.state_dir.absolute() / "object-store"


def make_bucket(url: str, settings: StackSettings) -> None:
    """
    Make the bucket and the folder of the jobs in the store at ``url``, unless they exist.

    :raises httpx.HTTPError: the store refuses, or does not answer.
    """
    bucket = settings.bucket
    with httpx.Client(base_url=url, timeout=10, trust_env=False) as client:
        answer = client.post("/storage/v1/b", params={"project": settings.project}, json={"name": bucket})
        if answer.status_code != httpx.codes.CONFLICT:
            answer.raise_for_status()
        # An empty object whose name ends with a slash is what the console calls a folder.
        mark = client.get(f"/storage/v1/b/{bucket}/o", params={"prefix": FOLDER_MARK, "maxResults": 1})
        if not mark.raise_for_status().json().get("items"):
            client.post(
                f"/upload/storage/v1/b/{bucket}/o",
                params={"uploadType": "media", "name": FOLDER_MARK},
                headers={"Content-Type": "text/plain"},
            ).raise_for_status()
