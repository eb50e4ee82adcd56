"""The image of the agent of each machine, built from the base image and this checkout."""

from __future__ import annotations

from local_stack.parts.own_image import OwnImage
from local_stack.settings import REPOSITORY_ROOT

FOLDER = REPOSITORY_ROOT / "docker" / "agent"
_FILES = ("Dockerfile", "requirements.txt")
_PACKAGES = ("training_api", "container_engines", "training_service")


def agent_image(base_image: str) -> OwnImage:
    """Return the image; to build it takes some seconds, and an index of packages."""
    sources = (path for name in _PACKAGES for path in (REPOSITORY_ROOT / name).rglob("*.py"))
    return OwnImage(
        what="the agents' image",
        repository="localhost/container-training/agent",
        base_image=base_image,
        files={
            **{name: (FOLDER / name).read_bytes() for name in _FILES},
            **{path.relative_to(REPOSITORY_ROOT).as_posix(): path.read_bytes() for path in sources},
        },
    )
