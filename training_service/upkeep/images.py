"""Images that this service has pulled, and the removal of those that no job needs."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import structlog

from container_engines.base import Engine
from training_api.errors import EngineError, InvalidImageRef
from training_api.job.image_ref import ImageRef, parse_image_ref
from training_api.job.job_spec import JobSpec
from training_service.access.image_access import ImageAccess, PullableImage
from training_service.model.clock import Clock, utc_now
from training_service.store.pull_store import PullStore
from training_service.upkeep.tasks import Step, Task

logger = structlog.get_logger(__name__)


class RecordedPulls(ImageAccess):
    """
    Asked before each pull, as every ``ImageAccess`` is; records what is about to be pulled.

    :param access: says what may be pulled.
    :param records_uses: also when an image is used again: one write a job, needed only where images are
        removed.
    """

    def __init__(
        self,
        access: ImageAccess,
        engine: Engine,
        pulls: PullStore,
        *,
        records_uses: bool,
        clock: Clock = utc_now,
    ) -> None:
        self._records_uses = records_uses
        self._access = access
        self._engine = engine
        self._pulls = pulls
        self._clock = clock

    def pullable(self, job: JobSpec, image: ImageRef) -> PullableImage:
        """
        See ``ImageAccess``.

        An image that the engine has already was brought by others, or is recorded.
        """
        allowed = self._access.pullable(job, image)
        reference, now = allowed.ref.pullable, self._clock()
        if self._engine.find_image(allowed.ref) is None:
            self._pulls.record_pull(reference, now)
        elif self._records_uses:
            self._pulls.record_use(reference, now)
        return allowed


def unused_images(engine: Engine, pulls: PullStore, *, total_bytes: int, keep: Collection[str] = ()) -> Task:
    """
    Return the removal of the least recently used images.

    It ends when those that are left have ``total_bytes``. Never removed are images that this service has not
    pulled; those that a container uses; those whose repository a job that has not ended names; and ``keep``.

    :param total_bytes: 0: nothing is removed. Layers that images share count once for each.
    """

    def task() -> Iterator[Step]:
        if not total_bytes:
            return
        present: list[tuple[ImageRef, str, int]] = []
        for reference, _ in pulls.by_use():
            ref = _read(reference)
            found = engine.find_image(ref) if ref else None
            if ref is None or found is None or found.size_bytes is None:
                pulls.forget(reference)
                continue
            present.append((ref, found.image_id, found.size_bytes))
        left = sum(size for _, _, size in present)
        for ref, image_id, size in present:
            if left <= total_bytes:
                return
            if ref.pullable in keep or _is_wanted(pulls, ref, image_id):
                continue
            if _remove(engine, ref):
                pulls.forget(ref.pullable)
                left -= size
                yield "images", 1

    return task


def _is_wanted(pulls: PullStore, ref: ImageRef, image_id: str) -> bool:
    """Whether a job that has not ended may use it; asked just before each removal."""
    references, ids = pulls.wanted()
    names = {found.name for each in references if (found := _read(each))}
    return image_id in ids or ref.name in names


def _remove(engine: Engine, ref: ImageRef) -> bool:
    try:
        return engine.remove_image(ref)
    except EngineError as error:
        # One image must not keep the others.
        logger.warning("image not removed", image=str(ref), reason=str(error))
        return False


def _read(reference: str) -> ImageRef | None:
    try:
        return parse_image_ref(reference)
    except InvalidImageRef:
        return None
