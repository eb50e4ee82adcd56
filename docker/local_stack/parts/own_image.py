"""Images that the stack builds: named by their content, built once, and pushed."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import docker
import docker.errors

from local_stack.errors import PartFailed
from local_stack.parts.base_image import has_image, pack_context
from local_stack.processes.progress import Progress
from local_stack.processes.shared_locks import one_build


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnImage:
    """
    An image, and what it is made from.

    :param what: as people call it.
    :param repository: at ``localhost``: on the engine only, in no registry.
    :param base_image: its build argument ``BASE_IMAGE``.
    :param files: its context, the ``Dockerfile`` among them.
    """

    what: str
    repository: str
    base_image: str
    files: Mapping[str, bytes]

    @property
    def name(self) -> str:
        """Its name on the engine: a hash of all that it is made from."""
        digest = hashlib.sha256(self.base_image.encode())
        for name, content in sorted(self.files.items()):
            digest.update(b"\0" + name.encode() + b"\0" + content)
        return f"{self.repository}:{digest.hexdigest()[:12]}"

    def pushed_name(self, image_prefix: str) -> str:
        """Return its name in the registry, from which other machines pull it."""
        kind, tag = self.repository.rpartition("/")[2], self.name.rpartition(":")[2]
        return f"{image_prefix}/container-training-{kind}:{tag}"

    def ensure(self, client: docker.DockerClient, progress: Progress) -> None:
        """
        Build the image unless the engine has it.

        :raises PartFailed: it cannot be built.
        """
        name = self.name
        if has_image(client, name):
            return
        with one_build():
            if not has_image(client, name):  # another stack may have built it meanwhile
                self._build(client, name, progress)

    def push(self, client: docker.DockerClient, pushed: str, login: Mapping[str, str]) -> str:
        """
        Push the image as ``pushed``; quick where the registry has it.

        :return: its name by digest, which nobody else can give to another image.
        :raises PartFailed: the engine does not have it, or the registry refuses.
        """
        repository, _, tag = pushed.rpartition(":")
        try:
            client.images.get(self.name).tag(repository, tag)
            lines = client.images.push(repository, tag=tag, stream=True, decode=True, auth_config=dict(login))
            digest, problem = "", "the engine did not say its digest"
            for line in lines:
                problem = str(line.get("error") or problem)
                digest = line.get("aux", {}).get("Digest") or digest
        except docker.errors.DockerException as error:
            digest, problem = "", str(error)
        if not digest:
            raise PartFailed("docker push", f"of {self.what} {pushed} failed: {problem}")
        return f"{repository}@{digest}"

    def _build(self, client: docker.DockerClient, name: str, progress: Progress) -> None:
        with progress.step(f"building {self.what} {name}"):
            try:
                client.images.build(
                    fileobj=pack_context(dict(self.files)),
                    custom_context=True,
                    tag=name,
                    buildargs={"BASE_IMAGE": self.base_image},
                    rm=True,
                )
            except (docker.errors.BuildError, docker.errors.APIError) as error:
                raise PartFailed("docker build", f"of {self.what} failed: {error}") from error
