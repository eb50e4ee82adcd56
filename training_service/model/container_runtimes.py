"""In which container runtime jobs run: the engine's own, or one with a stronger wall."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import structlog

from container_engines.base import Engine
from training_api.errors import EngineError, EngineUnavailable

logger = structlog.get_logger(__name__)


class JobType(StrEnum):
    """What of a job decides about its runtime; the first that fits."""

    GPU = "gpu"  #: the replica has GPUs, which few runtimes pass through
    PACKAGE = "package"  #: Python packages, in the image of a runtime version
    CONTAINER = "container"  #: an image of the caller's


#: One runtime for all jobs, or by type; empty, or no entry: the engine's default.
RuntimeSetting = str | Mapping[JobType, str]


def runtime_for(setting: RuntimeSetting, *, gpus: int, is_package: bool) -> str:
    """Return the runtime of a replica; empty: the engine's default. Pure."""
    if isinstance(setting, str):
        return setting
    kind = JobType.GPU if gpus else JobType.PACKAGE if is_package else JobType.CONTAINER
    return setting.get(kind, "")


def check_runtimes(setting: RuntimeSetting, engine: Engine) -> None:
    """
    Check that the engine has every runtime of the setting.

    An engine that does not answer now refuses the jobs later.

    :raises EngineError: it lacks one, or its containers' runtime cannot be chosen.
    """
    wanted = {setting} if isinstance(setting, str) else set(setting.values())
    wanted.discard("")
    if not wanted:
        return
    try:
        known = engine.runtimes()
    except EngineUnavailable as error:
        logger.warning("cannot check the container runtimes", runtimes=sorted(wanted), reason=str(error))
        return
    if known is None:
        raise EngineError(
            f"TRAINING_RUNTIME is {', '.join(sorted(wanted))}, but this engine chooses the runtime itself: set "
            "default-runtime in daemon.json of each machine, and leave TRAINING_RUNTIME empty"
        )
    # An engine finds containerd's shims, such as io.containerd.kata.v2, by their names.
    missing = sorted(name for name in wanted - known if "." not in name)
    if missing:
        raise EngineError(
            f"the engine has no container runtime {', '.join(missing)}, which TRAINING_RUNTIME names; it has "
            f"{', '.join(sorted(known))}: add the runtime to its daemon.json, or change TRAINING_RUNTIME"
        )
