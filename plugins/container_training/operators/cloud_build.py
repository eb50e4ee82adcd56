"""An image built by Google Cloud Build: no engine, and no builder of one's own."""

from __future__ import annotations

import gzip
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, BinaryIO, Unpack, cast

from container_training.hooks.cloud_build import CloudBuildHook
from container_training.hooks.failures import final_unless_transient
from container_training.hooks.image import ImageHook, full_image_name, open_build_context
from container_training.hooks.training import TrainingHook
from container_training.runtime.dag_folder import dag_folder
from container_training.runtime.lineage import push_lineage
from container_training.runtime.task_arguments import OperatorArguments, TypedTask
from container_training.runtime.triggerer import is_deferrable, warn_without_triggerer
from container_training.work.images.cloud_build import (
    CloudMachine,
    StoredContext,
    build_request,
    check_registry,
)
from container_training.work.object_store import require_uri, split_uri
from container_training.work.template_values import mapping, number, seconds
from training_api.errors import InvalidRequest, TrainingError
from training_api.job.image_ref import ImageRef, is_googles, parse_image_ref

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage
    from airflow.sdk import Context

    from container_training.work.images.build_context import BuildContext
    from container_training.work.images.content import ImageContent
    from container_training.work.images.registry import Login

DEFAULT_BUILD_TIMEOUT = timedelta(hours=1)
#: Below the training connection's ``job_bucket``.
STAGING_FOLDER = "build-contexts"


class CloudBuildImageOperator(TypedTask):
    """
    Builds and pushes an image on Google Cloud Build; returns its reference, tag and digest.

    The reference is that of ``BuildImageOperator``, ``HOST/PATH:ctx-<16 hex>@sha256:...``. An image that its
    registry has under that tag is not built again. If Cloud Build is already building the same content, the
    task waits for that build. The packed context is uploaded to ``staging_dir`` and stays there.

    A step that fails ends the task without a retry; the error has the address of Cloud Build's log. Airflow
    retries the task if Cloud Build does not answer, or if the build ends with an internal error.

    :param context_dir: the build context, a folder. A relative path starts at the folder of the DAG's file.
        (templated)
    :param image: ``HOST/PATH`` of the image in Artifact Registry or Container Registry, without a tag. A
        short name, like ``digits``, is one below the training connection's ``image_prefix``. (templated)
    :param staging_dir: folder in Cloud Storage for packed contexts, ``gs://BUCKET/FOLDER``; default:
        ``build-contexts`` in the training connection's ``job_bucket``. (templated)
    :param dockerfile: path of the Dockerfile within the context. (templated)
    :param build_args: values of the Dockerfile's ARGs; an empty value keeps the Dockerfile's default.
        ``BASE_IMAGE`` is by default the training connection's ``base_image``. (templated)
    :param labels: labels of the image, in addition to the OCI labels. (templated)
    :param secrets: for ``RUN --mount=type=secret``, by id the version in Secret Manager,
        ``projects/P/secrets/S/versions/V``, which Cloud Build reads itself. (templated)
    :param build_timeout: time limit of the build, as a ``timedelta`` or in seconds. (templated)
    :param machine_type: of Cloud Build, like ``E2_HIGHCPU_8``. (templated)
    :param worker_pool: private workers, ``projects/P/locations/L/workerPools/W``. (templated)
    :param service_account: of the build, ``projects/P/serviceAccounts/EMAIL``; default: the project's.
        (templated)
    :param project_id: of the builds; default: the Google connection's. (templated)
    :param location: region, or ``global``. (templated)
    :param poll_interval: seconds between two polls of the build. (templated)
    :param deferrable: wait in the triggerer; default: Airflow's ``[operators] default_deferrable``. If
        the task is ended while it is deferred, its build runs until ``build_timeout``.
    :param gcp_conn_id: Google connection. (templated)
    :param impersonation_chain: service account to act as, as for Google's operators. (templated)
    :param docker_conn_id: connection with the login of a registry of base images; it may be missing. Google's
        registries are asked with the Google connection. (templated)
    :param training_conn_id: connection of the training service; it may be missing. (templated)
    :return: the image's reference.
    """

    template_fields: Sequence[str] = (
        "context_dir",
        "image",
        "staging_dir",
        "dockerfile",
        "build_args",
        "labels",
        "secrets",
        "build_timeout",
        "machine_type",
        "worker_pool",
        "service_account",
        "project_id",
        "location",
        "poll_interval",
        "gcp_conn_id",
        "impersonation_chain",
        "docker_conn_id",
        "training_conn_id",
    )
    template_fields_renderers = {
        "build_args": "json",
        "labels": "json",
        "secrets": "json",
        "impersonation_chain": "json",
    }
    ui_color = "#e2f0fb"

    def __init__(
        self,
        *,
        context_dir: str,
        image: str,
        staging_dir: str | None = None,
        dockerfile: str = "Dockerfile",
        build_args: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
        secrets: Mapping[str, str] | None = None,
        build_timeout: timedelta | float | str = DEFAULT_BUILD_TIMEOUT,
        machine_type: str | None = None,
        worker_pool: str | None = None,
        service_account: str | None = None,
        project_id: str | None = None,
        location: str = "global",
        poll_interval: float | str = 4.0,
        deferrable: bool | None = None,
        gcp_conn_id: str = CloudBuildHook.default_conn_name,
        impersonation_chain: str | Sequence[str] | None = None,
        docker_conn_id: str | None = ImageHook.default_conn_name,
        training_conn_id: str = TrainingHook.default_conn_name,
        **kwargs: Unpack[OperatorArguments],
    ) -> None:
        super().__init__(**kwargs)
        self.context_dir = context_dir
        self.image = image
        self.staging_dir = staging_dir
        self.dockerfile = dockerfile
        self.build_args = build_args
        self.labels = labels
        self.secrets = secrets
        self.build_timeout = build_timeout
        self.machine_type = machine_type
        self.worker_pool = worker_pool
        self.service_account = service_account
        self.project_id = project_id
        self.location = location
        self.poll_interval = poll_interval
        self.deferrable = is_deferrable(deferrable)
        self.gcp_conn_id = gcp_conn_id
        self.impersonation_chain = impersonation_chain
        self.docker_conn_id = docker_conn_id
        self.training_conn_id = training_conn_id
        #: What ``on_kill`` cancels: other tasks may wait for a build that another task has begun.
        self._build_id: str | None = None
        self._pushed: str | None = None
        self._sleep: Callable[[float], object] = time.sleep

    def execute(self, context: Context) -> str:
        """Build and push, unless the registry has the image; return its reference."""
        from container_training.work.images.builders.build_order import BuildSession
        from container_training.work.images.registry_content import content_by_registry, find_built

        with final_unless_transient(), self._hook() as cloud, ImageHook(self.docker_conn_id) as images:
            name = full_image_name(self.image, self.training_conn_id)
            check_registry(parse_image_ref(name))
            build_context = open_build_context(
                dag_folder(context) / self.context_dir,
                dockerfile=self.dockerfile,
                build_args=mapping("build_args", self.build_args),
                training_conn_id=self.training_conn_id,
            )
            secret_ids = tuple(mapping("secrets", self.secrets))

            def find_login(host: str) -> Login:
                return cloud.registry_login() if is_googles(host) else images.find_login(host)

            with tempfile.TemporaryFile(prefix="build-context-") as archive:
                session = BuildSession(secret_ids=secret_ids)
                content = content_by_registry(build_context, name, archive, find_login, session.ids)
                found = find_built(content, find_login, self._log_line)
                if found is not None:
                    return self._done(found.ref)
                build_id = self._running_or_new(cloud, build_context, content, archive)
            return self._wait(cloud, content.ref, build_id)

    def execute_complete(
        self, context: Context, event: dict[str, Any], build_id: str, image: str, is_own: bool = False
    ) -> str:
        """
        Return the reference after the build has ended, or raise why there is none.

        :param is_own: whether this task has begun the build; tasks of earlier versions did not store it.
        """
        self.log.info("the triggerer says of build %s: %s", build_id, event.get("message"))
        with final_unless_transient(), self._hook() as cloud:
            self._build_id = build_id if is_own else None
            # The trigger also fires when it could not ask.
            return self._wait(cloud, parse_image_ref(image), build_id)

    def on_kill(self) -> None:
        """Cancel the build that this task has begun; only while a worker runs the task."""
        if self._build_id is None:
            return
        try:
            with self._hook() as cloud:
                cloud.cancel(self._build_id)
        except TrainingError as error:
            self.log.warning("the build goes on until its time limit: %s", error)

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> OperatorLineage[Any, Any]:
        """Return the image in the registry, whose version is its digest."""
        return push_lineage(self._pushed or self.image)

    def _hook(self) -> CloudBuildHook:
        return CloudBuildHook(
            self.gcp_conn_id,
            project_id=self.project_id,
            location=self.location,
            impersonation_chain=self.impersonation_chain,
        )

    def _running_or_new(
        self, cloud: CloudBuildHook, context: BuildContext, content: ImageContent, archive: BinaryIO
    ) -> str:
        """Return the id of a build of ``content``."""
        from container_training.work.images.labels import image_labels

        machine = CloudMachine(
            timeout=timedelta(seconds=seconds("build_timeout", self.build_timeout)),
            machine_type=self.machine_type or "",
            worker_pool=self.worker_pool or "",
            service_account=self.service_account or "",
        )
        running = cloud.find_running(content.ref)
        if running is not None:
            self.log.info("build %s of the same content goes on; log: %s", running.build_id, running.log_url)
            return running.build_id
        given = {name: str(value) for name, value in mapping("labels", self.labels).items()}
        request = build_request(
            content,
            self._store(cloud, content, archive),
            dockerfile=context.dockerfile,
            dockerfile_text=context.dockerfile_text(),
            build_args=context.build_args,
            labels=image_labels(context, content, given, datetime.now(UTC)),
            secrets={id_: str(version) for id_, version in mapping("secrets", self.secrets).items()},
            machine=machine,
        )
        self._build_id = cloud.create(request)
        return self._build_id

    def _store(self, cloud: CloudBuildHook, content: ImageContent, archive: BinaryIO) -> StoredContext:
        """Put the packed context into the staging folder, unless it is there."""
        uri = f"{self._staging_folder()}/{content.digest}.tar.gz"
        with tempfile.TemporaryFile(prefix="build-context-") as packed:
            archive.seek(0)
            with gzip.GzipFile(filename="", mode="wb", fileobj=packed, mtime=0) as target:
                shutil.copyfileobj(archive, target)
            self.log.info("storing the build context, %d bytes, at %s", packed.tell(), uri)
            generation = cloud.upload(uri, cast(BinaryIO, packed))
        bucket, name = split_uri(uri)
        return StoredContext(bucket=bucket, name=name, generation=generation)

    def _staging_folder(self) -> str:
        folder = self.staging_dir
        if not folder:
            with TrainingHook(self.training_conn_id) as training:
                folder = training.job_bucket and f"{training.job_bucket}/{STAGING_FOLDER}"
        if not folder:
            rule = f"must be given: connection {self.training_conn_id!r} has no extra.job_bucket"
            raise InvalidRequest.of("staging_dir", rule)
        require_uri("staging_dir", folder)
        return folder.rstrip("/")

    def _wait(self, cloud: CloudBuildHook, ref: ImageRef, build_id: str) -> str:
        """Return the image once the build has ended; may defer the task."""
        pause = number("poll_interval", self.poll_interval)
        build = cloud.get(build_id)
        self.log.info("build %s is %s; log: %s", build_id, build.status, build.log_url)
        while not build.is_over:
            if self.deferrable:
                self._defer(cloud, ref, build_id, pause)
            self._sleep(pause)
            build = cloud.get(build_id)
        self._build_id = None
        return self._done(build.image(ref))

    def _defer(self, cloud: CloudBuildHook, ref: ImageRef, build_id: str, pause: float) -> None:
        from container_training.triggers.cloud_build import CloudBuildTrigger

        warn_without_triggerer(self.log)
        self.defer(
            trigger=CloudBuildTrigger(
                build_id=build_id,
                project_id=cloud.project,
                location=self.location,
                gcp_conn_id=self.gcp_conn_id,
                impersonation_chain=self.impersonation_chain,
                poll_interval_seconds=pause,
            ),
            method_name="execute_complete",
            kwargs={"build_id": build_id, "image": str(ref), "is_own": self._build_id is not None},
        )

    def _done(self, ref: ImageRef) -> str:
        self._pushed = str(ref)
        self.log.info("the image is %s", ref)
        return self._pushed

    def _log_line(self, line: str) -> None:
        self.log.info("%s", line)
