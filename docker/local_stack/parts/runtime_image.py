"""The image for jobs of Python packages, built from the base image, named by content."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import docker
import docker.errors

from local_stack.errors import PartFailed
from local_stack.parts.base_image import has_image, pack_context
from local_stack.processes.progress import Progress
from local_stack.processes.shared_locks import one_build
from local_stack.settings import REPOSITORY_ROOT

DOCKERFILE = REPOSITORY_ROOT / "docker" / "runtime" / "Dockerfile"
#: The program in the image; its context.
LAUNCHER = REPOSITORY_ROOT / "training_service" / "launcher"
#: ``localhost``: on the engine only, in no registry.
REPOSITORY = "localhost/container-training/runtime"
#: Those that have Python 3.7 (discovery, TrainingInput.pythonVersion), which is what tutorials ask for. All
#: of them are the one image: the packages of the old runtimes, TensorFlow 1.15 among them, exist for no
#: Python of today.
VERSIONS = ("1.15", *(f"2.{minor}" for minor in range(1, 12)))


#: What the names of Vertex AI's prebuilt images begin with [google-cloud-aiplatform: CustomJob].
PREBUILT = (
    *(f"{region}-docker.pkg.dev/vertex-ai/" for region in ("us", "europe", "asia")),
    "gcr.io/cloud-aiplatform/",
)


def runtime_image_name(base_image: str) -> str:
    """Return the image's name: a hash of all that it is made from."""
    digest = hashlib.sha256(base_image.encode())
    for name, content in sorted(_files().items()):
        digest.update(b"\0" + name.encode() + b"\0" + content)
    return f"{REPOSITORY}:{digest.hexdigest()[:12]}"


def pushed_name(base_image: str, image_prefix: str) -> str:
    """Return the image's name in the registry, from which other machines pull it."""
    return f"{image_prefix}/container-training-runtime:{runtime_image_name(base_image).rpartition(':')[2]}"


def runtime_images(base_image: str, pushed: str = "") -> dict[str, str]:
    """
    Return the value of TRAINING_RUNTIME_IMAGES: the image of each runtime version.

    :param pushed: its name in the registry; empty: that on the engine.
    """
    return dict.fromkeys(VERSIONS, pushed or runtime_image_name(base_image))


def image_aliases(base_image: str, pushed: str = "") -> dict[str, str]:
    """Return the value of TRAINING_IMAGE_ALIASES: the same image for all prebuilt ones."""
    return dict.fromkeys(
        (f"{beginning}*" for beginning in PREBUILT), pushed or runtime_image_name(base_image)
    )


def push_runtime_image(
    client: docker.DockerClient, base_image: str, pushed: str, login: Mapping[str, str]
) -> None:
    """
    Push the image as ``pushed``; quick where the registry has it.

    :raises PartFailed: the engine does not have it, or the registry refuses.
    """
    repository, _, tag = pushed.rpartition(":")
    try:
        client.images.get(runtime_image_name(base_image)).tag(repository, tag)
        lines = client.images.push(repository, tag=tag, stream=True, decode=True, auth_config=dict(login))
        problem = next((str(line["error"]) for line in lines if "error" in line), "")
    except docker.errors.DockerException as error:
        problem = str(error)
    if problem:
        raise PartFailed("docker push", f"of the runtime image {pushed} failed: {problem}")


def ensure_runtime_image(client: docker.DockerClient, base_image: str, progress: Progress) -> None:
    """
    Build the image unless the engine has it; about a second, without a network.

    :raises PartFailed: it cannot be built.
    """
    name = runtime_image_name(base_image)
    if has_image(client, name):
        return
    with one_build():
        if not has_image(client, name):  # another stack may have built it meanwhile
            _build(client, name, base_image, progress)


def _build(client: docker.DockerClient, name: str, base_image: str, progress: Progress) -> None:
    with progress.step(f"building the runtime image {name}"):
        try:
            client.images.build(
                fileobj=pack_context(_files()),
                custom_context=True,
                tag=name,
                buildargs={"BASE_IMAGE": base_image},
                rm=True,
            )
        except (docker.errors.BuildError, docker.errors.APIError) as error:
            raise PartFailed("docker build", f"of the runtime image failed: {error}") from error


def _files() -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (DOCKERFILE, *LAUNCHER.glob("*.py"))}
