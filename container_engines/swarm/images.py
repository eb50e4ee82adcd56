"""
Images for a swarm: each machine pulls what it runs.

So an image is looked up at its registry before anything starts, and named by its digest from then on: every
machine gets the same image, and one that has it does not ask again.
"""

from __future__ import annotations

import docker
from docker.auth import encode_header

from container_engines.base import PulledImage
from container_engines.docker import watched_request
from container_engines.docker.client import DockerConnection
from container_engines.docker.driver import DockerDriver
from container_engines.docker.kinds import DOCKER
from container_engines.pull_watch import PullWatch
from training_api.job.image_ref import LOCAL_HOST, ImageRef, parse_image_ref


class SwarmImages:
    """What is known of images; safe for threads. An image's id is its name by digest."""

    def __init__(self) -> None:
        #: By the reference that was asked for; a new service asks again.
        self._known: dict[str, PulledImage] = {}
        self._tokens: dict[str, str] = {}

    def find(self, client: docker.APIClient, ref: ImageRef) -> PulledImage | None:
        """Return ``ref`` if it was looked up before, or a local image of the manager's engine."""
        if ref.host == LOCAL_HOST:
            return self._local(client, ref)
        return self._known.get(ref.pullable)

    def look_up(
        self, connection: DockerConnection, ref: ImageRef, token: str = "", watch: PullWatch | None = None
    ) -> PulledImage:
        """
        Return what the registry has under ``ref``; the machines pull it with the same ``token``.

        :raises ImageNotFound: the registry does not have it, or refuses to give it.
        :raises PullAbandoned: the owner of ``watch`` gave the look-up up.
        :raises RegistryUnavailable: it did not answer.
        """
        found = watched_request.look_up(
            connection, ref.pullable, DOCKER.token_login(token), watch or PullWatch()
        )
        digest = str(found["Descriptor"]["digest"])
        image_id = ref.at(digest).pullable
        self._tokens[image_id] = token
        known = self._known[ref.pullable] = PulledImage(image_id=image_id, digest=digest)
        return known

    def is_gone(self, connection: DockerConnection, image_id: str) -> bool:
        """
        Whether ``image_id`` is a local image that the manager's engine does not have any more.

        :raises ImageNotFound: it is a registry's image, and the registry does not give it any more.
        :raises RegistryUnavailable: the registry did not answer.
        """
        if "/" in image_id:
            self.look_up(connection, parse_image_ref(image_id), self._tokens.get(image_id, ""))
            return False
        return DockerDriver(connection.client).find_image(image_id) is None

    def pull_headers(self, image_id: str) -> dict[str, str]:
        """Return the header of a request whose service pulls ``image_id``."""
        return pull_headers(self._tokens.get(image_id, ""))

    @staticmethod
    def _local(client: docker.APIClient, ref: ImageRef) -> PulledImage | None:
        found = DockerDriver(client).find_image(ref.pullable)
        return PulledImage(image_id=found["Id"], digest=ref.digest or "") if found else None


def pull_headers(token: str) -> dict[str, str]:
    """Return the header of a request whose service pulls with ``token``; empty: as anybody may."""
    return {"X-Registry-Auth": encode_header(DOCKER.token_login(token)).decode()}
