"""The output of a build by BuildKit: shown line by line, and the error that it ended with."""

from __future__ import annotations

import pytest

from container_training.work.images.builders.buildkit_output import BuildkitOutput
from training_api.errors import (
    BuildFailed,
    BuildKitMissing,
    DiskFull,
    EngineUnavailable,
    PushFailed,
    RegistryUnavailable,
    TrainingError,
)

#: Of docker 20.10, and of a newer one with buildx.
OLD = """\
#4 [one 1/2] FROM docker.io/library/base
#4 sha256:1ef1236410a266f3e4c35927905ec7e0dedc80ececaa633bff440ccc0cae4f24
#4 CACHED

#5 [one 2/2] RUN false
#5 sha256:a4bfde8d76da8d64e3234ed033599e5af89442d2bc2d8f29fbb77533ae01c945
#5 0.335 first
#5 0.340 second
#5 ERROR: executor failed running [/bin/sh -c false]: exit code: 7
------
 > [one 2/2] RUN false:
------
executor failed running [/bin/sh -c false]: exit code: 7
"""
NEW = """\
#0 building with "default" instance using docker driver

#5 [2/3] RUN false
#5 0.335 first
#6 [other 1/1] RUN true
#5 0.340 second
#6 0.400 not of the failed step
#5 ERROR: process "/bin/sh -c false" did not complete successfully: exit code: 7
------
 > [2/3] RUN false:
0.335 first
0.340 second
------
Dockerfile:2
--------------------
ERROR: failed to solve: process "/bin/sh -c false" did not complete successfully: exit code: 7
"""


def read(text: str) -> tuple[list[str], TrainingError]:
    lines: list[str] = []
    output = BuildkitOutput(lines.append)
    for line in text.splitlines(keepends=True):
        output.read(line)
    return lines, output.error(1)


@pytest.mark.parametrize(("text", "name"), [(OLD, "[one 2/2]"), (NEW, "[2/3]")], ids=["20.10", "buildx"])
def test_the_failed_step_is_named_with_its_own_output(text: str, name: str) -> None:
    lines, error = read(text)

    assert isinstance(error, BuildFailed)
    assert str(error) == f"{name} RUN false exited with 7; its last output:\n    first\n    second"
    assert "#5 first" in lines
    assert not [line for line in lines if "sha256:" in line or line.startswith(("---", " > "))]


@pytest.mark.parametrize(
    ("text", "expected", "message"),
    [
        (
            "Cannot connect to the Docker daemon at unix:///x. Is it running?\n",
            EngineUnavailable,
            "did not answer",
        ),
        (
            "ERROR: BuildKit is enabled but the buildx component is missing or broken.\n",
            BuildKitMissing,
            "buildx",
        ),
        (
            "#1 [internal] waiting for connection\n#1 ERROR: context deadline exceeded\n",
            EngineUnavailable,
            "the remote builder did not answer: context deadline exceeded",
        ),
        (
            '#6 exporting to image\n#6 ERROR: failed to push h:1/p/x:1: Head "http://h:1/v2/": connection refused\n',
            RegistryUnavailable,
            "exporting to image: failed to push h:1/p/x:1",
        ),
        (
            "#6 exporting to image\n#6 ERROR: failed to push h:1/p/x:1: failed to authorize: 401 Unauthorized\n",
            PushFailed,
            "the registry refused the image: failed to push h:1/p/x:1: failed to authorize",
        ),
        (
            "#3 [2/2] RUN x\n#3 0.1 tar: no space left on device\n#3 ERROR: y: exit code: 2\n",
            DiskFull,
            "no room",
        ),
        (
            "#3 [internal] load metadata for h/i:1\n#3 ERROR: failed to do request: dial tcp: i/o timeout\n",
            RegistryUnavailable,
            "load metadata",
        ),
        ("#3 [2/2] RUN pip\n#3 ERROR: x: connection refused: exit code: 1\n", BuildFailed, "exited with 1"),
        ("failed to solve: Dockerfile parse error line 1: unknown instruction: FORM\n", BuildFailed, "FORM"),
        ("", BuildFailed, "docker build exited with 1"),
    ],
)
def test_other_ends_are_named(text: str, expected: type[TrainingError], message: str) -> None:
    _, error = read(text)

    assert type(error) is expected
    assert message in str(error)
