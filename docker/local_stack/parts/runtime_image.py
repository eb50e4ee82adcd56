"""The image for jobs of Python packages, built from the base image, named by content."""

from __future__ import annotations

import hashlib

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


def runtime_images(base_image: str) -> dict[str, str]:
    """Return the value of TRAINING_RUNTIME_IMAGES: the image of each runtime version."""
    return dict.fromkeys(VERSIONS, runtime_image_name(base_image))


def image_aliases(base_image: str) -> dict[str, str]:
    """Return the value of TRAINING_IMAGE_ALIASES: the image for all prebuilt ones."""
    return dict.fromkeys((f"{beginning}*" for beginning in PREBUILT), runtime_image_name(base_image))


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
