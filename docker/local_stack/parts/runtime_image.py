"""The image for jobs of Python packages, built from the base image."""

from __future__ import annotations

from local_stack.parts.own_image import OwnImage
from local_stack.settings import REPOSITORY_ROOT

DOCKERFILE = REPOSITORY_ROOT / "docker" / "runtime" / "Dockerfile"
#: The program in the image; its context.
LAUNCHER = REPOSITORY_ROOT / "training_service" / "launcher"
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


def runtime_image(base_image: str) -> OwnImage:
    """Return the image; to build it takes about a second, without a network."""
    files = (DOCKERFILE, *LAUNCHER.glob("*.py"))
    return OwnImage(
        what="the runtime image",
        repository=REPOSITORY,
        base_image=base_image,
        files={path.name: path.read_bytes() for path in files},
    )


def runtime_images(name: str) -> dict[str, str]:
    """Return the value of TRAINING_RUNTIME_IMAGES: the image of each runtime version."""
    return dict.fromkeys(VERSIONS, name)


def image_aliases(name: str) -> dict[str, str]:
    """Return the value of TRAINING_IMAGE_ALIASES: the same image for all prebuilt ones."""
    return dict.fromkeys((f"{beginning}*" for beginning in PREBUILT), name)
