"""The gcloud of this machine, pointed at the stack of the tests."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from local_stack.environment import client_environment
from local_stack.stack import LocalStack
from tests.conformance.gcloud import Result, run_gcloud

#: Runs ``gcloud`` with arguments; ``cwd`` is where.
Gcloud = Callable[..., Result]


@pytest.fixture(scope="session")
def gcloud(stack: LocalStack, base_image: str, tmp_path_factory: pytest.TempPathFactory) -> Gcloud:
    """The gcloud of this machine with the environment of ``make env``; in CI it must be there."""
    environment = client_environment(stack.settings, base_image=base_image)
    config = tmp_path_factory.mktemp("gcloud")
    return partial(run_gcloud, environment=environment, config=config)
