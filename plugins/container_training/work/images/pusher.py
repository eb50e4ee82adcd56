"""Pushes an image to its registry through a Docker Engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from docker.api import APIClient
from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception_type,
    stop_after_attempt,
    wait_random_exponential,
)

from container_engines.docker.driver import DockerDriver
from container_training.work.images.engine import Cancellation, stoppable_answers
from container_training.work.images.registry import (
    FindLogin,
    Login,
    Manifest,
    find_manifest,
    manifest_digest,
    stored_login,
)
from training_api.errors import (
    DiskFull,
    EngineBusy,
    ImageNotFound,
    PushFailed,
    RegistryUnavailable,
    TrainingError,
)
from training_api.job.image_ref import ImageRef
from training_api.retrying import ENGINE_MAY_DO_LATER

DEFAULT_ATTEMPTS = 4
DEFAULT_MAX_WAIT_SECONDS = 15.0
#: The engine's words for a layer that is in the registry.
_ARRIVED = ("Pushed", "Layer already exists", "Mounted from")

OnLine = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class PushedImage:
    """
    An image in its registry.

    :param ref: by digest.
    :param is_reused: the registry had it already; nothing was sent.
    """

    ref: ImageRef
    is_reused: bool


def push_image(
    api_client: APIClient,
    ref: ImageRef,
    *,
    on_line: OnLine,
    find_login: FindLogin = stored_login,
    attempts: int = DEFAULT_ATTEMPTS,
    max_wait_seconds: float = DEFAULT_MAX_WAIT_SECONDS,
    cancellation: Cancellation | None = None,
) -> PushedImage:
    """
    Return ``ref`` by digest; push unless the registry has the same image.

    Retries a registry that does not answer and an engine that cannot push now, after random waits that grow
    up to ``max_wait_seconds``.

    :param ref: by tag; with a digest too, the registry may have it although this engine has not.
    :param on_line: called with progress, one line for each layer that arrived.
    :param attempts: how many in all; at least 1.
    :raises ImageNotFound: the engine has no such image, nor has the registry under this digest.
    :raises PushFailed: the registry refused it.
    :raises RegistryUnavailable: the registry did not answer in any attempt.
    :raises EngineError: the engine does not answer, is full, or could not push in any attempt.
    """
    push = _Push(api_client, ref, on_line, find_login(ref.host), cancellation or Cancellation())

    def report(state: RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome else None
        wait = state.next_action.sleep if state.next_action else 0.0
        on_line(f"attempt {state.attempt_number} of {attempts} failed, next in {wait:.1f} s: {error}")

    retrying = Retrying(
        stop=stop_after_attempt(attempts),
        wait=wait_random_exponential(multiplier=1, max=max_wait_seconds),
        retry=retry_if_exception_type((RegistryUnavailable, EngineBusy)),
        before_sleep=report,
        reraise=True,
    )
    try:
        return retrying(push.attempt)
    except RegistryUnavailable as error:
        raise RegistryUnavailable(
            f"registry {ref.host} did not answer in {attempts} attempts: {error}"
        ) from error


def is_same_image(image: Mapping[str, Any], ref: ImageRef, manifest: Manifest) -> bool:
    """
    Whether the registry's ``manifest`` under ``ref`` is the engine's ``image``. Pure.

    :param image: as the engine describes it.
    """
    by_digest = str(ref.at(manifest.digest))
    return image["Id"] in (manifest.config_digest, manifest.digest) or by_digest in (
        image.get("RepoDigests") or ()
    )


class _Push:
    """The push of one image to one registry."""

    def __init__(
        self, api_client: APIClient, ref: ImageRef, on_line: OnLine, login: Login, cancellation: Cancellation
    ) -> None:
        self._api_client = api_client
        self._ref = ref
        self._on_line = on_line
        self._login = login
        self._cancellation = cancellation

    def attempt(self) -> PushedImage:
        """Push once, unless the registry has the image."""
        manifest = self._find_manifest()
        if manifest is not None and manifest.digest == self._ref.digest:
            self._on_line(f"{self._ref} is in the registry already: nothing is pushed")
            return PushedImage(ref=self._ref.at(manifest.digest), is_reused=True)
        image = DockerDriver(self._api_client).find_image(str(self._ref))
        if image is None:
            raise ImageNotFound(
                f"the engine has no image {self._ref}; build it first, on this engine or with BuildImageOperator, "
                "whose result has the digest by which the image is found from any host"
            )
        if manifest is not None and is_same_image(image, self._ref, manifest):
            self._on_line(
                f"{self._ref} is in the registry already, as {manifest.digest}: nothing is pushed; "
                f"compared: its manifest there is that of the engine's image {image['Id']}"
            )
            return PushedImage(ref=self._ref.at(manifest.digest), is_reused=True)
        digest = self._send() or manifest_digest(self._ref, login=self._login)
        if digest is None:
            raise PushFailed(
                f"registry {self._ref.host} does not have {self._ref} after a push without an error"
            )
        return PushedImage(ref=self._ref.at(digest), is_reused=False)

    def _find_manifest(self) -> Manifest | None:
        """Return what the registry has, as far as it can be asked."""
        try:
            return find_manifest(self._ref, login=self._login)
        except (RegistryUnavailable, PushFailed) as error:
            # Only the engine has to reach the registry, perhaps from another network than this process.
            self._on_line(f"cannot look whether it is there already: {error}")
            return None

    def _send(self) -> str | None:
        """Push; return the digest that the engine reports."""
        progress = _Progress(self._on_line)
        digest: str | None = None
        name = f"{self._ref.name}:{self._ref.tag or 'latest'}"
        self._on_line(f"pushing {self._ref}")
        try:
            with stoppable_answers(self._api_client, self._cancellation):
                for message in DockerDriver(self._api_client).push(name, self._login):
                    if self._cancellation.is_cancelled:
                        break
                    digest = (message.get("aux") or {}).get("Digest", digest)
                    progress.read(message)
        except TrainingError as error:
            if self._cancellation.is_cancelled:  # which cuts the connection
                raise self._cancelled() from error
            if isinstance(error, (*ENGINE_MAY_DO_LATER, DiskFull)):
                raise
            raise PushFailed(f"registry {self._ref.host} refused {self._ref}: {error}") from error
        if self._cancellation.is_cancelled:
            raise self._cancelled()
        return digest

    def _cancelled(self) -> PushFailed:
        return PushFailed(f"the push of {self._ref} was cancelled")


class _Progress:
    """Turns the hundreds of messages of a push into one line for each layer."""

    def __init__(self, on_line: OnLine) -> None:
        self._on_line = on_line
        self._arrived: dict[str, bool] = {}

    def read(self, message: Mapping[str, Any]) -> None:
        layer, status = message.get("id"), str(message.get("status", ""))
        # The last message of a push has the tag as its id.
        if not layer or "digest:" in status or status.startswith("The push refers"):
            return
        had = self._arrived.get(layer, False)
        self._arrived[layer] = had or status.startswith(_ARRIVED)
        if self._arrived[layer] and not had:
            self._on_line(
                f"layer {layer}: {status.lower()} ({sum(self._arrived.values())}/{len(self._arrived)})"
            )
