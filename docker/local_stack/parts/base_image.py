"""Which image Dockerfiles start from on this machine."""

from __future__ import annotations

import hashlib
import io
import tarfile
from functools import cached_property  # noqa: TID251  # no process here is forked
from pathlib import Path

import docker
import docker.errors
import httpx

from local_stack.errors import LocalStackError, PartFailed
from local_stack.images.debian_image import REPOSITORY, DebianRecipe, build_debian_image
from local_stack.parts.engine import answers, connect
from local_stack.parts.part import StackPart
from local_stack.people.authorities import HOST_BUNDLE, extra_authorities
from local_stack.processes.shared_locks import one_build
from local_stack.settings import REPOSITORY_ROOT, Part, StackSettings

REGISTRY_PROBE_SECONDS = 3.0
DOCKERFILE = REPOSITORY_ROOT / "docker" / "base" / "Dockerfile"


class BaseImage(StackPart):
    """
    The public Python image, or a stand-in.

    In this order: the image of the settings; an image that the engine has already; the public image if an
    image registry answers; an image made from Debian packages. The last two contain this machine's
    certificate authorities if it trusts extra ones. The choice is noted in the state folder.
    """

    name = Part.BASE_IMAGE

    @staticmethod
    def name_of(settings: StackSettings) -> str:
        """
        Return the image that was chosen.

        :raises LocalStackError: none was chosen yet.
        """
        if settings.base_image is not None:
            return settings.base_image
        try:
            return _note(settings).read_text(encoding="utf-8").strip()
        except FileNotFoundError as error:
            raise LocalStackError("no base image was chosen yet; run `make serve`") from error

    def address(self) -> str:
        """Return the image's name."""
        try:
            return self.name_of(self.settings)
        except LocalStackError:
            return "not chosen yet"

    def is_healthy(self) -> bool:
        """
        Tell whether an image was chosen and the engine still has it.

        An image that the settings name may be pulled.
        """
        if self.settings.base_image is not None:
            return True
        if not _note(self.settings).exists() or not answers(self.settings.engine_url):
            return False
        client = connect(self.settings.engine_url)
        try:
            return has_image(client, self.name_of(self.settings))
        finally:
            client.close()

    def prepare(self) -> None:
        """Choose the image, and get or build it unless the engine has it."""
        if self.settings.base_image is not None:
            return
        # A build step sends and imports for minutes, so there is no short time limit on answers of the
        # engine.
        client = connect(self.settings.engine_url, timeout_seconds=900)
        try:
            with one_build():
                image = self._choose(client)
        finally:
            client.close()
        note = _note(self.settings)
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_text(image + "\n", encoding="utf-8")

    @cached_property
    def _authorities(self) -> bytes | None:
        """The bundle to copy into the image, or None."""
        wanted = self.settings.trust_host_authorities
        if wanted is None:
            wanted = bool(extra_authorities())
        if not wanted:
            return None
        try:
            return HOST_BUNDLE.read_bytes()
        except OSError as error:
            raise LocalStackError(
                f"this machine has no certificate bundle {HOST_BUNDLE}; unset "
                "LOCAL_STACK_TRUST_HOST_AUTHORITIES"
            ) from error

    def _choose(self, client: docker.DockerClient) -> str:
        recipe = DebianRecipe(authorities=self._authorities)
        for image in (self._public_name(), recipe.image_name()):
            if has_image(client, image):
                return image
        if _answers(self.settings.registry_probe_url):
            try:
                return self._get_public(client)
            except docker.errors.DockerException as error:
                # The engine may have another way to the network than this process.
                self.progress.say(f"the engine cannot get {self.settings.public_base_image}: {error}")
        reason = self.packages.refusal()
        if reason is not None:
            raise PartFailed(
                self.name.value,
                f"{self.settings.public_base_image} cannot be pulled, and it cannot be built from Debian "
                "packages"
                f" here ({reason}); set LOCAL_STACK_BASE_IMAGE to an image with Python 3.11 and pip",
            )
        return build_debian_image(
            recipe,
            client,
            self.packages,
            build_dir=self.settings.build_dir,
            log=self.settings.log_dir / "base-image.log",
            mirror=self.settings.debian_mirror,
        )

    def _public_name(self) -> str:
        """Return the public image, or the image that adds this machine's authorities to it."""
        public = self.settings.public_base_image
        if self._authorities is None:
            return public
        digest = hashlib.sha256(public.encode() + b"\0" + DOCKERFILE.read_bytes() + b"\0" + self._authorities)
        shown = public.partition("@")[0].rsplit("/", 1)[-1].replace(":", "-")
        return f"{REPOSITORY}:{shown}-{digest.hexdigest()[:12]}"

    def _get_public(self, client: docker.DockerClient) -> str:
        public, name = self.settings.public_base_image, self._public_name()
        with self.progress.step(f"pulling the base image {public}"):
            client.images.pull(public)
        if self._authorities is not None:
            with self.progress.step(f"adding this machine's certificate authorities to it, as {name}"):
                context = pack_context(
                    {"Dockerfile": DOCKERFILE.read_bytes(), "ca-certificates.crt": self._authorities}
                )
                client.images.build(
                    fileobj=context, custom_context=True, tag=name, buildargs={"BASE_IMAGE": public}, rm=True
                )
        return name


def _note(settings: StackSettings) -> Path:
    return settings.state_dir.absolute() / "base-image.txt"


def has_image(client: docker.DockerClient, image: str) -> bool:
    """Tell whether the engine has the image."""
    try:
        client.images.get(image)
    except docker.errors.ImageNotFound:
        return False
    return True


def _answers(url: str) -> bool:
    """Tell whether an image registry answers; 401 is how one asks for a token."""
    try:
        status = httpx.get(url, timeout=REGISTRY_PROBE_SECONDS).status_code
    except httpx.HTTPError:
        return False
    return status in {httpx.codes.OK, httpx.codes.UNAUTHORIZED}


def pack_context(files: dict[str, bytes]) -> io.BytesIO:
    """Return a build context; times and owners are fixed, so that the build cache recognises it."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            info.mode = 0o644
            tar.addfile(info, io.BytesIO(content))
    archive.seek(0)
    return archive
