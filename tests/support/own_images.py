"""Images that tests make on the engine: labelled with their run, and removed by their names."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import docker
import docker.errors

from tests.support.run_id import current_run


def build_image(client: docker.APIClient, name: str, **arguments: Any) -> None:
    """
    Build an image with the label of the run.

    :param arguments: of docker-py's ``build``.
    """
    lines = list(
        client.build(tag=name, labels=current_run().labels, rm=True, forcerm=True, decode=True, **arguments)
    )
    assert not [line for line in lines if "error" in line], lines[-5:]


def remove_own_images(client: docker.APIClient, is_meant: Callable[[str], bool]) -> None:
    """
    Remove the names that are meant, by tag and by digest, unless they are another process's.

    Names, not images: the same content is the same image, and may have names of other tests and of other
    runs.

    :param is_meant: whether a name, of those that belong to this process, is to go.
    """
    run = current_run()
    for image in client.images():
        for name in (*(image.get("RepoTags") or ()), *(image.get("RepoDigests") or ())):
            if "<none>" not in name and run.owns_image(name) and is_meant(name):
                with suppress(docker.errors.NotFound):  # the last tag takes the digests along
                    client.remove_image(name, force=True)
