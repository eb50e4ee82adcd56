"""Who builds an image."""

from __future__ import annotations

import pytest

from container_training.work.images.builders.builder import (
    Builder,
    is_buildkit,
    parse_builder,
    remote_for,
)
from container_training.work.images.builders.remote_builder import RemoteBuilder
from training_api.errors import BuildKitMissing, InvalidRequest


def test_the_builder_is_the_classic_one_unless_something_needs_the_other() -> None:
    assert [is_buildkit(Builder.AUTO, needs) for needs in ([], ["RUN --mount"])] == [False, True]
    assert is_buildkit(parse_builder("buildkit"), [])
    with pytest.raises(BuildKitMissing, match="the classic builder knows no RUN --mount"):
        is_buildkit(Builder.CLASSIC, ["RUN --mount"])
    with pytest.raises(
        InvalidRequest, match="builder: must be one of auto, classic, buildkit, buildx, got 'kaniko'"
    ):
        parse_builder("kaniko")


def test_the_remote_builder_builds_unless_a_builder_of_the_engine_was_asked_for() -> None:
    remote = RemoteBuilder(name="shared")

    found = {builder: remote_for(builder, lambda: remote) for builder in Builder}

    assert found == {"auto": remote, "classic": None, "buildkit": None, "buildx": remote}
    assert remote_for(Builder.AUTO, lambda: None) is None
    with pytest.raises(
        InvalidRequest, match="builder: 'buildx' needs a remote builder; set extra builder_url"
    ):
        remote_for(Builder.BUILDX, lambda: None)
