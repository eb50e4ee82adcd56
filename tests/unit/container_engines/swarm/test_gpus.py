"""Which GPUs the containers of a swarm got."""

from __future__ import annotations

import pytest

from container_engines.swarm.gpus import gpus_of_environment


@pytest.mark.parametrize(
    ("variables", "names"),
    [
        ([], ()),
        (["PATH=/bin"], ()),
        (["PATH=/bin", "DOCKER_RESOURCE_NVIDIA-GPU=GPU-45cbf7b3"], ("GPU-45cbf7b3",)),
        (["DOCKER_RESOURCE_NVIDIA-GPU=GPU-1,GPU-2"], ("GPU-1", "GPU-2")),
        (["DOCKER_RESOURCE_NVIDIA-GPU=GPU-1", "DOCKER_RESOURCE_NVIDIA-GPU=GPU-2"], ("GPU-2",)),
        # A node that offers a number does not say which.
        (["DOCKER_RESOURCE_NVIDIA-GPU=2"], ()),
        (["DOCKER_RESOURCE_NVIDIA-GPU="], ()),
        (["DOCKER_RESOURCE_FPGA=F1"], ()),
    ],
)
def test_the_swarm_says_by_a_variable_which_gpus_a_container_has(
    variables: list[str], names: tuple[str, ...]
) -> None:
    assert gpus_of_environment(variables) == names
