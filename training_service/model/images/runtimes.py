"""The images of runtime versions: the settings, and the look-up when a job is to run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, field_validator, model_validator

from container_engines.base import Engine, PulledImage
from training_api.errors import ImageNotFound
from training_api.job.image_ref import LOCAL_HOST, ImageRef, parse_image_ref
from training_api.job.packages.python_package import runtime_of

#: discovery: TrainingInput.pythonVersion "Python '3.7' is available when `runtime_version` is set to '1.15'
#: or later".
_PYTHON_VERSIONS = ("3.7",)


class RuntimeImage(BaseModel):
    """
    The image of one runtime version; in the settings, its name alone will do.

    :param image: with a registry's host, or with ``localhost``: on the engine only.
    :param python_versions: those that a job may ask for, whatever Python the image has.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    image: str
    python_versions: tuple[str, ...] = _PYTHON_VERSIONS

    @model_validator(mode="before")
    @classmethod
    def _from_name(cls, value: Any) -> Any:
        return {"image": value} if isinstance(value, str) else value

    @field_validator("image")
    @classmethod
    def _check_image(cls, value: str) -> str:
        return str(parse_image_ref(value))


def get_runtime(
    engine: Engine,
    runtimes: Mapping[str, RuntimeImage],
    image: ImageRef,
    pull: Callable[[ImageRef], PulledImage],
) -> PulledImage | None:
    """
    Return a runtime version's image, pulled if needed; ``None``: ``image`` names no runtime.

    It is looked up again here, because the settings may have changed since the job was accepted.

    :param pull: pulls an image with the job's rights.
    :raises ImageNotFound: no such version any more, or its image is gone.
    :raises EngineError: as ``pull``.
    """
    version = runtime_of(image)
    if version is None:
        return None
    if version not in runtimes:
        known = ", ".join(runtimes) or "none"
        raise ImageNotFound(
            f"TRAINING_RUNTIME_IMAGES has no runtime version {version} any more (it has {known})"
        )
    ref = parse_image_ref(runtimes[version].image)
    present = engine.find_image(ref)
    if present is not None:
        return present
    if ref.host == LOCAL_HOST:
        raise ImageNotFound(
            f"the engine does not have {ref}, which runtime version {version} stands for; `make serve` builds it"
        )
    return pull(ref)
