"""A Software Bill of Materials of the image that a job ran."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Unpack

from container_training.hooks.failures import final_unless_transient
from container_training.hooks.storage import StorageHook
from container_training.hooks.training import TrainingHook
from container_training.runtime.engine_task import EngineOperator
from container_training.runtime.task_arguments import EngineArguments
from container_training.work.results.collection import BILL_OF_MATERIALS_FILE
from training_api.errors import InvalidRequest
from training_api.job.image_ref import ImageRef, parse_image_ref
from training_api.job.job_id import TaskKey

if TYPE_CHECKING:
    from airflow.sdk import Context

    from container_training.work.object_store import ObjectStore

#: Of a kept bill, which is read again.
_MAX_BYTES = 64 * 2**20
#: In the names of kept bills: those of an older form are made again.
_FORM = "v1"


class ImageBillOfMaterialsOperator(EngineOperator):
    """
    Writes which packages are in an image, as CycloneDX JSON, and returns the file's URI.

    The packages are those that the image's databases list: dpkg, apk, Python (``*.dist-info``,
    ``*.egg-info``) and conda. RPM databases are not read; the bill and the log say so. The image is not run:
    the engine exports its files as a stream. An image that the engine lacks is pulled.

    :param image: the image's reference, best by digest. (templated)
    :param job_id: the bill goes into this job's folder. Set this or ``folder``. (templated)
    :param folder: the bill goes into this ``gs://`` folder. (templated)
    :param file_name: name of the bill's file. (templated)
    :param keep_in: ``gs://`` folder in which bills are kept by the image's digest. The next job of the same
        image gets the bill that is there. (templated)
    :param training_conn_id: connection of the training service. (templated)
    :param gcp_conn_id: Google connection that may write there. (templated)
    :return: the file's ``gs://`` URI.
    """

    template_fields: Sequence[str] = (
        "image",
        "job_id",
        "folder",
        "file_name",
        "keep_in",
        "training_conn_id",
        "gcp_conn_id",
        "docker_conn_id",
        "docker_url",
    )

    def __init__(
        self,
        *,
        image: str,
        job_id: str | None = None,
        folder: str | None = None,
        file_name: str = BILL_OF_MATERIALS_FILE,
        keep_in: str | None = None,
        training_conn_id: str = TrainingHook.default_conn_name,
        gcp_conn_id: str = StorageHook.default_conn_name,
        **kwargs: Unpack[EngineArguments],
    ) -> None:
        super().__init__(**kwargs)
        self.image = image
        self.job_id = job_id
        self.folder = folder
        self.file_name = file_name
        self.keep_in = keep_in
        self.training_conn_id = training_conn_id
        self.gcp_conn_id = gcp_conn_id

    def execute(self, context: Context) -> str:
        """Write the bill; return its address."""
        from container_training.work.images.puller import ensure_image
        from container_training.work.packages.bill_of_materials import MEDIA_TYPE

        with self.hook, StorageHook(self.gcp_conn_id) as storage, final_unless_transient():
            ref = parse_image_ref(self.image)
            store = storage.get_conn()
            uri = f"{self._folder(store).rstrip('/')}/{self.file_name}"
            image = ensure_image(
                self.hook.api_client,
                ref.pullable,
                self.hook.find_login,
                self._log_line,
                self._new_cancellation(),
            )
            digest = ref.digest or str(image["Id"])
            # Without a bucket the connection's template leaves a path, which is no place to keep anything.
            keep_in = self.keep_in if (self.keep_in or "").startswith("gs://") else None
            kept = f"{keep_in}/{digest.replace(':', '-')}.{_FORM}.cdx.json" if keep_in else None
            bill = store.read(kept, _MAX_BYTES) if kept else None
            if bill is None:
                bill = self._make(context, ref, digest, image)
                if kept:
                    store.write_if_changed(kept, bill, MEDIA_TYPE)
            else:
                self.log.info("the bill of %s was made before: %s", digest, kept)
            store.write_if_changed(uri, bill, MEDIA_TYPE)
        self.log.info("the bill of materials of %s is %s", self.image, uri)
        return uri

    def _folder(self, store: ObjectStore) -> str:
        if self.folder:
            return self.folder
        if not self.job_id:
            raise InvalidRequest.of(
                "folder",
                "one of job_id and folder must be set, got None for both; set job_id to the job's id",
            )
        with TrainingHook(self.training_conn_id) as training_hook:
            training = training_hook.get_job(self.job_id).training_input
            if training is None or not training.job_dir:
                raise InvalidRequest.of("folder", f"must be set, as job {self.job_id!r} has no jobDir")
            training_hook.job_buckets.check(store, training.job_dir)
        return training.job_dir

    def _make(self, context: Context, ref: ImageRef, digest: str, image: dict[str, Any]) -> bytes:
        from container_training.work.images.labels import labels_of
        from container_training.work.packages.bill_of_materials import bill_of_materials
        from container_training.work.packages.of_image import image_packages

        contents = image_packages(
            self.hook.api_client,
            str(image["Id"]),
            owner=f"airflow-{TaskKey.of(context['ti']).digest}",
            cancellation=self._new_cancellation(),
        )
        self.log.info("%d packages are in %s", len(contents.packages), ref)
        for path in contents.unread:
            self.log.warning("%s is a database of packages that is not read: its packages are missing", path)
        if not contents.packages and not contents.unread:
            self.log.warning("%s has no database of packages: what is in it is unknown", ref)
        return bill_of_materials(ref, digest, labels_of(image), contents, datetime.now(UTC))
