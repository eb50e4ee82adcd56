"""Build an image on a Docker Engine, named by what it is made of."""

from __future__ import annotations

import re
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from docker.api import APIClient

from container_training.clients.build_context import BuildContext, git_revision
from container_training.clients.engine import (
    Cancellation,
    EngineRequestInvalid,
    engine_error,
    engine_errors,
    find_image,
    is_disk_full,
    stoppable_answers,
)
from container_training.clients.image_content import ImageContent, image_content
from container_training.clients.image_puller import pull_image
from container_training.clients.registry import FindLogin, stored_login
from container_training.core.errors import (
    BuildFailed,
    DiskFull,
    EngineError,
    EngineUnavailable,
    RegistryUnavailable,
)
from container_training.core.image_parts import PARTS_LABEL
from container_training.core.image_ref import ImageRef

#: Label with the whole context hash, of which the tag has the first digits.
CONTEXT_LABEL = "container-training.context"
REVISION_LABEL = "org.opencontainers.image.revision"
BASE_NAME_LABEL = "org.opencontainers.image.base.name"
TAIL_LINES = 30

OnLine = Callable[[str], None]

_STEP = re.compile(r"Step \d+/\d+ : .*")
_EXIT_CODE = re.compile(r"returned a non-zero code: (\d+)")
#: What the engine says within a step; the log has it, but it is not the step's output.
_ENGINE_WORDS = (" ---> ", "Removing intermediate container")
_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltImage:
    """
    An image that is on the engine.

    :param is_reused: it was there before, made of the same parts; nothing was built.
    """

    ref: ImageRef
    image_id: str
    is_reused: bool


def build_image(
    api_client: APIClient,
    context: BuildContext,
    repository: str,
    *,
    on_line: OnLine,
    find_login: FindLogin = stored_login,
    labels: Mapping[str, str] | None = None,
    network_mode: str | None = None,
    cancellation: Cancellation | None = None,
) -> BuiltImage:
    """
    Return the image that ``context`` makes, built unless the engine has it already.

    :param repository: ``HOST/PATH`` without tag: the tag is ``ctx-`` and a hash of the parts.
    :param on_line: called with each line of output, as it comes.
    :param find_login: the login for a registry host, for base images that the engine has to pull.
    :param labels: set on the image beside the OCI ones.
    :param network_mode: network of the build's RUN steps; None is the engine's default.
    :raises InvalidImageRef: ``repository`` has a tag or a digest, or is malformed.
    :raises BuildContextMissing: a file of the context cannot be read.
    :raises BuildFailed: a step failed; the message has the step, its exit code and its last output.
    :raises DiskFull: the engine's disk has no room.
    :raises RegistryUnavailable: a base image has to be pulled, and its registry does not answer.
    :raises EngineUnavailable: the engine does not answer.
    """
    with tempfile.TemporaryFile(prefix="build-context-") as archive:
        content = image_content(
            context, repository, archive, lambda base: _base_image_id(api_client, base, on_line, find_login)
        )
        ref = content.ref
        existing = find_image(api_client, str(ref))
        if existing is not None and _label(existing, CONTEXT_LABEL) == content.digest:
            on_line(
                f"{ref} is on the engine already: same context, Dockerfile, build arguments and base image"
            )
            return BuiltImage(ref=ref, image_id=existing["Id"], is_reused=True)
        on_line(f"building {ref} from {context.directory} ({archive.tell()} bytes of context)")
        archive.seek(0)
        output = _BuildOutput(on_line)

        def start() -> Iterable[Mapping[str, Any]]:
            return api_client.build(
                fileobj=archive,
                custom_context=True,
                dockerfile=context.dockerfile,
                tag=str(ref),
                buildargs=dict(context.build_args),
                labels={
                    **(labels or {}),
                    **_oci_labels(context, content.base_images),
                    **_own_labels(content),
                },
                network_mode=network_mode,
                rm=True,
                forcerm=True,
                decode=True,
            )

        _follow(api_client, start, output, cancellation or Cancellation())
    image = find_image(api_client, str(ref))
    if image is None:
        raise BuildFailed(f"the build of {ref} ended without an image{output.tail_text()}")
    return BuiltImage(ref=ref, image_id=image["Id"], is_reused=False)


def _follow(
    api_client: APIClient,
    start: Callable[[], Iterable[Mapping[str, Any]]],
    output: _BuildOutput,
    cancellation: Cancellation,
) -> None:
    """Start the build and read its messages until it ends or is cancelled."""
    try:
        with engine_errors(), stoppable_answers(api_client, cancellation):
            for message in start():
                if cancellation.is_cancelled:
                    break
                output.read(message)
    except EngineUnavailable:
        if not cancellation.is_cancelled:  # which cuts the connection
            raise
    except EngineRequestInvalid as error:
        # Before the first step: a Dockerfile that is empty, or cannot be parsed.
        raise BuildFailed(f"the Dockerfile was refused: {error}") from error
    if cancellation.is_cancelled:
        raise BuildFailed("the build was cancelled")


class _BuildOutput:
    """Turns the engine's messages into lines, and remembers the step under way and its last output."""

    def __init__(self, on_line: OnLine) -> None:
        self._on_line = on_line
        self._pending = ""
        self._step = "the first step"
        self._tail: deque[str] = deque(maxlen=TAIL_LINES)

    def read(self, message: Mapping[str, Any]) -> None:
        """Take one message; raise if it is an error."""
        if "error" in message:
            self._flush()
            raise self._error(message)
        if "stream" in message:
            *lines, self._pending = (self._pending + message["stream"]).split("\n")
            for line in lines:
                self._line(line)

    def tail_text(self) -> str:
        """Return the last lines of the step as an indented block, or nothing."""
        return "; its last output:\n" + "\n".join(f"    {line}" for line in self._tail) if self._tail else ""

    def _flush(self) -> None:
        self._line(self._pending)
        self._pending = ""

    def _line(self, raw: str) -> None:
        # A progress bar redraws its line after each carriage return; the last drawing is the one to keep.
        line = _COLOUR.sub("", raw).rstrip().rsplit("\r", 1)[-1]
        if not line:
            return
        if _STEP.fullmatch(line):
            self._step = line
            self._tail.clear()
        elif not line.startswith(_ENGINE_WORDS):
            self._tail.append(line)
        self._on_line(line)

    def _error(self, message: Mapping[str, Any]) -> Exception:
        reason = str(message["error"])
        if is_disk_full(reason) or any(is_disk_full(line) for line in self._tail):
            return engine_error(f"{self._step}: no space left on device ({reason})")
        exit_code = _EXIT_CODE.search(reason)
        how = f"exited with {exit_code[1]}" if exit_code else f"failed: {reason}"
        return BuildFailed(f"{self._step} {how}{self.tail_text()}")


def _base_image_id(api_client: APIClient, base: str, on_line: OnLine, find_login: FindLogin) -> str:
    """Return the id of a base image, pulled if the engine lacks it."""
    image = find_image(api_client, base)
    if image is None:
        _pull(api_client, base, on_line, find_login)
        image = find_image(api_client, base)
    if image is None:
        raise BuildFailed(f"FROM {base}: the engine has no such image, also after pulling it")
    image_id: str = image["Id"]
    return image_id


def _pull(api_client: APIClient, base: str, on_line: OnLine, find_login: FindLogin) -> None:
    on_line(f"pulling the base image {base}")
    way_out = "; if the Dockerfile has ARG BASE_IMAGE, that build argument can name another image"
    try:
        pull_image(api_client, base, find_login)
    except RegistryUnavailable as error:
        raise RegistryUnavailable(f"FROM {base}: {error}{way_out}") from error
    except EngineError as error:
        if isinstance(error, (EngineUnavailable, DiskFull)):
            raise
        raise BuildFailed(f"FROM {base}: {error}{way_out}") from error


def _label(image: Mapping[str, Any], name: str) -> str | None:
    labels = (image.get("Config") or {}).get("Labels") or {}
    value: str | None = labels.get(name)
    return value


def _own_labels(content: ImageContent) -> dict[str, str]:
    return {CONTEXT_LABEL: content.digest, PARTS_LABEL: content.parts.to_label()}


def _oci_labels(context: BuildContext, bases: tuple[str, ...]) -> dict[str, str]:
    """Source of the keys: github.com/opencontainers/image-spec, annotations.md."""
    revision = git_revision(context.directory)
    labels = {REVISION_LABEL: revision} if revision else {}
    return labels | ({BASE_NAME_LABEL: bases[-1]} if bases else {})
