"""The gcloud of this machine, pointed at the stack of the tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import pytest

from local_stack.environment import client_environment
from local_stack.stack import LocalStack
from tests.conformance.gcloud import Result, following_gcloud, run_gcloud

#: Runs ``gcloud`` with arguments; ``cwd`` is where.
Gcloud = Callable[..., Result]
#: Runs ``gcloud`` with arguments until a block ends, which gets its lines.
FollowedGcloud = Callable[..., AbstractContextManager[Iterator[str]]]


@pytest.fixture(scope="session")
def gcloud_setup(
    stack: LocalStack, base_image: str, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    """The environment of ``make env``, and a folder for gcloud's configuration."""
    environment = client_environment(stack.settings, base_image=base_image)
    return {"environment": environment, "config": tmp_path_factory.mktemp("gcloud")}


@pytest.fixture(scope="session")
def gcloud(gcloud_setup: dict[str, Any]) -> Gcloud:
    """The gcloud of this machine with the environment of ``make env``; in CI it must be there."""
    return partial(run_gcloud, **gcloud_setup)


@pytest.fixture(scope="session")
def followed_gcloud(gcloud_setup: dict[str, Any]) -> FollowedGcloud:
    """The same gcloud, whose lines are read while it runs."""
    return partial(following_gcloud, **gcloud_setup)
