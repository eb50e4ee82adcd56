"""How machines of a swarm offer GPUs, and how their containers learn which they got. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

#: The kind under which NVIDIA's guide has nodes offer their GPUs (``node-generic-resources``).
GPU_KIND = "NVIDIA-GPU"
#: The swarm appends it to a container's variables [swarmkit: genericresource.EnvFormat].
_VARIABLE = f"DOCKER_RESOURCE_{GPU_KIND}"


def gpus_offered(offer: Mapping[str, Any]) -> int:
    """Return how many GPUs one generic resource of a node, or of a replica, is."""
    named, discrete = offer.get("NamedResourceSpec") or {}, offer.get("DiscreteResourceSpec") or {}
    return (named.get("Kind") == GPU_KIND) + (
        int(discrete["Value"]) if discrete.get("Kind") == GPU_KIND else 0
    )


def gpus_of_environment(variables: Iterable[str]) -> tuple[str, ...]:
    """
    Return the names of a container's GPUs, as its node offers them.

    There are none where the node offers only a number.

    :param variables: ``NAME=VALUE``. The last one counts: those before are the job's.
    """
    values = [text.partition("=")[2] for text in variables if text.startswith(f"{_VARIABLE}=")]
    names = values[-1].split(",") if values else []
    return tuple(name for name in names if name and not name.isdecimal())
