"""Pulls of jobs' images: as the job may, and so that each can be given up."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import partial

from container_engines.base import Engine, PulledImage
from container_engines.pull_watch import PullWatch
from training_api.job.image_ref import ImageRef
from training_api.job.job_spec import JobSpec
from training_service.access.image_access import AnyImage, ImageAccess
from training_service.model.images.image_aliases import get_alias
from training_service.model.images.runtimes import RuntimeImage, get_runtime
from training_service.model.records import JobRecord


class Pulls:
    """
    Pulls images; safe for threads, one pull a job at a time.

    :param runtimes: the images that runtime versions stand for.
    :param aliases: other names of images (``model/images/image_aliases.py``).
    :param access: asked before each pull; default: every image may be pulled.
    :param new_watch: returns the watch of one pull, with its limits.
    :param before_engine: called before each pull; raises if another service moves the jobs now.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        runtimes: Mapping[str, RuntimeImage],
        aliases: Mapping[str, str] | None = None,
        access: ImageAccess | None = None,
        new_watch: Callable[[], PullWatch] = PullWatch,
        before_engine: Callable[[], None] = lambda: None,
    ) -> None:
        self._engine = engine
        self._runtimes = runtimes
        self._aliases = aliases or {}
        self._access = access or AnyImage()
        self._new_watch = new_watch
        self._before_engine = before_engine
        self._lock = threading.Lock()
        self._watches: dict[str, PullWatch] = {}

    def pull(self, job: JobRecord, image: ImageRef) -> tuple[str, str]:
        """
        Return the engine's id of ``image``, and what it is for people; pull it if it has to be.

        :raises PullAbandoned: the job ends.
        :raises EngineError: it was not pulled.
        :raises RegistryUnavailable: the same.
        """
        with self._watch(job.uid) as watch:
            pull = partial(self._pull_if_allowed, job.spec, watch)
            runtime = get_runtime(self._engine, self._runtimes, image, pull)
            if runtime:
                return runtime.image_id, f"{image}, {runtime.image_id}"
            if found := get_alias(self._engine, self._aliases, image, pull):
                target, aliased = found
                return aliased.image_id, f"{image}, which is {target} here, {aliased.image_id}"
            pulled = pull(image)
        return pulled.image_id, f"{image.name}@{pulled.digest}"

    def _pull_if_allowed(self, job: JobSpec, watch: PullWatch, image: ImageRef) -> PulledImage:
        allowed = self._access.pullable(job, image)
        self._before_engine()
        return self._engine.pull_image(allowed.ref, allowed.token, watch)

    @contextmanager
    def _watch(self, job_uid: str) -> Iterator[PullWatch]:
        """Make the watch of a pull of the job that runs within the block."""
        watch = self._new_watch()
        with self._lock:
            self._watches[job_uid] = watch
        try:
            yield watch
        finally:
            with self._lock:
                del self._watches[job_uid]

    def give_up_all_but(self, job_uids: Collection[str]) -> None:
        """Give up the pulls of all other jobs; what begins later is not affected."""
        with self._lock:
            unwanted = [watch for uid, watch in self._watches.items() if uid not in job_uids]
        for watch in unwanted:
            watch.cancel()
