"""An image on its way from a Dockerfile to a registry: built, tested, pushed, on any worker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Unpack

from container_training.hooks.build_secrets import read_secrets
from container_training.hooks.failures import final_unless_transient
from container_training.hooks.image import full_image_name, open_build_context
from container_training.hooks.training import TrainingHook
from container_training.runtime.dag_folder import dag_folder
from container_training.runtime.engine_task import EngineOperator
from container_training.runtime.image_test_run import DEFAULT_TEST_MEMORY_BYTES, ImageTestRun
from container_training.runtime.lineage import push_lineage
from container_training.runtime.task_arguments import BuildArguments, EngineArguments
from container_training.work.images.builders.builder import Builder, parse_builder, remote_for
from container_training.work.template_values import mapping, number, whole_number
from training_api.errors import InvalidImageRef
from training_api.job.image_ref import LOCAL_HOST, ImageRef, parse_image_ref
from training_api.job.job_id import TaskKey

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage
    from airflow.sdk import Context

    from container_training.work.images.builders.build_order import BuildOptions
    from container_training.work.images.engine import Cancellation

DEFAULT_TEST_TIMEOUT = timedelta(minutes=10)
DEFAULT_PUSH_ATTEMPTS = 4


class BuildImageOperator(EngineOperator):
    """
    Builds and pushes an image; returns its reference, tag and digest.

    The reference is ``HOST/PATH:ctx-<16 hex>@sha256:...``. The tag is a hash of all that decides the image:
    the context after .dockerignore, the Dockerfile, the build arguments and the base images' ids. An image
    that the engine or the registry has under that tag is not built again. By the digest the next tasks find
    it from any worker: what an engine lacks, it pulls. An image at ``localhost/`` is not pushed; its
    reference has no digest, and only this engine has it.

    If the connection names a remote builder (extra ``builder_url`` or ``builder_name``), that builds and
    pushes, by the plugin buildx, and the worker needs no engine.

    A step that fails ends the task without a retry; its output is in the log. Airflow retries the task if the
    disk is full, or if the engine or a registry does not answer.

    :param context_dir: the build context, a folder. A relative path starts at the folder of the DAG's file.
        (templated)
    :param image: ``HOST/PATH`` of the image, without a tag. A short name, like ``digits``, is one below the
        training connection's ``image_prefix``. (templated)
    :param dockerfile: path of the Dockerfile within the context. (templated)
    :param build_args: values of the Dockerfile's ARGs; an empty value keeps the Dockerfile's default.
        ``BASE_IMAGE`` is by default the training connection's ``base_image``. (templated)
    :param labels: labels of the image, in addition to the OCI labels. (templated)
    :param network_mode: network of the Dockerfile's RUN steps; default: the engine's. (templated)
    :param builder: ``classic`` or ``buildkit``, of the engine; ``buildx``, the remote builder; or ``auto``:
        the remote builder if the connection names one, else BuildKit if the Dockerfile, ``secrets`` or
        ``ssh`` need it, else the classic one. (templated)
    :param secrets: for ``RUN --mount=type=secret``, source by id: ``connection:ID`` (its password),
        ``variable:KEY``, or the absolute path of a file. Ids count in the tag; values are in neither tag,
        image, log nor XCom. (templated)
    :param ssh: for ``RUN --mount=type=ssh``, by id the path of an agent's socket or of a key; empty:
        ``SSH_AUTH_SOCK``. (templated)
    :param training_conn_id: connection of the training service; it may be missing. (templated)
    :return: the image's reference.
    """

    template_fields: Sequence[str] = (
        "context_dir",
        "image",
        "dockerfile",
        "build_args",
        "labels",
        "network_mode",
        "builder",
        "secrets",
        "ssh",
        "training_conn_id",
        "docker_conn_id",
        "docker_url",
    )
    template_fields_renderers = {"build_args": "json", "labels": "json", "secrets": "json", "ssh": "json"}

    def __init__(
        self,
        *,
        context_dir: str,
        image: str,
        dockerfile: str = "Dockerfile",
        build_args: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
        network_mode: str | None = None,
        builder: str = Builder.AUTO.value,
        secrets: Mapping[str, str] | None = None,
        ssh: Mapping[str, str] | None = None,
        training_conn_id: str = TrainingHook.default_conn_name,
        **kwargs: Unpack[EngineArguments],
    ) -> None:
        super().__init__(**kwargs)
        self.context_dir = context_dir
        self.image = image
        self.dockerfile = dockerfile
        self.build_args = build_args
        self.labels = labels
        self.network_mode = network_mode
        self.builder = builder
        self.secrets = secrets
        self.ssh = ssh
        self.training_conn_id = training_conn_id

    def execute(self, context: Context) -> str:
        """Build and push, unless engine and registry have the image; return its reference."""
        with self.hook, final_unless_transient():
            cancellation = self._new_cancellation()
            ref = self._build(context, cancellation)
            if ref.host != LOCAL_HOST and not ref.digest:
                ref = replace(ref, digest=self._push(ref, cancellation).digest)
        return str(ref)

    def _build(self, context: Context, cancellation: Cancellation) -> ImageRef:
        """Return the image's reference; with a digest if a remote builder has pushed it."""
        from container_training.work.images.builders.build_order import BuildSession
        from container_training.work.images.image_builder import build_image
        from container_training.work.images.remote_build import build_remotely

        sources = {name: str(source) for name, source in mapping("secrets", self.secrets).items()}
        builder = parse_builder(self.builder)
        remote = remote_for(builder, lambda: self.hook.remote_builder)
        build_context = open_build_context(
            dag_folder(context) / self.context_dir,
            dockerfile=self.dockerfile,
            build_args=mapping("build_args", self.build_args),
            training_conn_id=self.training_conn_id,
        )
        name = full_image_name(self.image, self.training_conn_id)
        arguments: BuildOptions = {
            "on_line": self._log_line,
            "find_login": self.hook.find_login,
            "labels": {name: str(value) for name, value in mapping("labels", self.labels).items()},
            "network_mode": self.network_mode,
            "session": BuildSession(
                secret_ids=tuple(sources),
                read_secrets=lambda: read_secrets(sources),
                ssh={name: str(source) for name, source in mapping("ssh", self.ssh).items()},
            ),
            "cancellation": cancellation,
        }
        if remote is not None:
            built = build_remotely(build_context, name, remote, **arguments)
        else:
            built = build_image(
                self.hook.api_client,
                build_context,
                name,
                builder=builder,
                engine=self.hook.engine,
                **arguments,
            )
        self.log.info("image %s is %s", built.ref, built.image_id)
        return built.ref

    def _push(self, ref: ImageRef, cancellation: Cancellation) -> ImageRef:
        """Return ``ref`` by its digest in the registry; pushed if it is not there."""
        from container_training.work.images.pusher import push_image

        pushed = push_image(
            self.hook.api_client,
            ref,
            on_line=self._log_line,
            find_login=self.hook.find_login,
            cancellation=cancellation,
        )
        self.log.info("%s is %s", ref, pushed.ref)
        return pushed.ref


class TestImageOperator(EngineOperator):
    """
    Runs an image once on this machine's engine, as a job would run; returns its reference.

    An image that the engine lacks is pulled.

    The container gets the environment of a job's master (``CLUSTER_SPEC``, ``TF_CONFIG``,
    ``GOOGLE_CLOUD_PROJECT`` and the training connection's ``container_env``), the master's host name, and
    this machine as ``host.docker.internal``. Its output appears in the task's log as it is printed. The
    container is always removed afterwards.

    The task fails without a retry if the container exits with another code than 0, runs out of memory, or
    exceeds ``timeout``.

    :param image: the image's reference or id. (templated)
    :param args: arguments; choose ones that make the run short. Text is split as a shell would split it.
        (templated)
    :param environment: environment variables; they override those of a job. (templated)
    :param timeout: time limit, as a ``timedelta`` or in seconds. (templated)
    :param job_dir: passed on as ``--job-dir``, as the service does. (templated)
    :param memory_bytes: memory limit, swap included; ``None``: no limit. (templated)
    :param cpus: limit in cores; ``None``: no limit. (templated)
    :param training_conn_id: connection of the training service; it may be missing. (templated)
    :return: ``image``, so that later tasks can take the image that was tested.
    """

    __test__ = False  # the name makes pytest take it for a test

    template_fields: Sequence[str] = (
        "image",
        "args",
        "environment",
        "timeout",
        "job_dir",
        "memory_bytes",
        "cpus",
        "training_conn_id",
        "docker_conn_id",
        "docker_url",
    )
    template_fields_renderers = {"environment": "json", "args": "json"}

    def __init__(
        self,
        *,
        image: str,
        args: Sequence[Any] | str | None = None,
        environment: Mapping[str, str] | None = None,
        timeout: timedelta | float | str = DEFAULT_TEST_TIMEOUT,
        job_dir: str | None = None,
        memory_bytes: int | str | None = DEFAULT_TEST_MEMORY_BYTES,
        cpus: float | str | None = None,
        training_conn_id: str = TrainingHook.default_conn_name,
        **kwargs: Unpack[EngineArguments],
    ) -> None:
        super().__init__(**kwargs)
        self.image = image
        self.args = args
        self.environment = environment
        self.timeout = timeout
        self.job_dir = job_dir
        self.memory_bytes = memory_bytes
        self.cpus = cpus
        self.training_conn_id = training_conn_id

    def execute(self, context: Context) -> str:
        """Run the image; return its reference."""
        from container_training.work.images.puller import ensure_image

        with self.hook, final_unless_transient():
            run = ImageTestRun(
                args=self.args,
                environment=self.environment,
                timeout=self.timeout,
                job_dir=self.job_dir,
                memory_bytes=self.memory_bytes,
                cpus=self.cpus,
                training_conn_id=self.training_conn_id,
            )
            limits = run.limits()
            cancellation = self._new_cancellation()
            api_client = self.hook.api_client
            ensure_image(api_client, self.image, self.hook.find_login, self._log_line, cancellation)
            run.run(api_client, self.image, TaskKey.of(context["ti"]), limits, self._log_line, cancellation)
        return self.image


class PushImageOperator(EngineOperator):
    """
    Pushes an image and returns its reference by digest, ``HOST/PATH@sha256:...``.

    An image that the registry has under the same tag or digest is not pushed again; with a digest, the engine
    need not have it. If the registry does not answer,
    the task asks again after random, growing pauses. If that does not help, it fails with
    ``RegistryUnavailable``, and Airflow retries it.

    :param image: the image's reference by tag, or what ``BuildImageOperator`` returns; a short one is below
        the training connection's ``image_prefix``. (templated)
    :param attempts: how often the registry is asked in all. (templated)
    :param max_wait_seconds: upper bound of one pause. (templated)
    :param training_conn_id: connection of the training service; it may be missing. (templated)
    :return: the image's reference by digest, which never means another image.
    """

    template_fields: Sequence[str] = (
        "image",
        "attempts",
        "max_wait_seconds",
        "training_conn_id",
        "docker_conn_id",
        "docker_url",
    )

    def __init__(
        self,
        *,
        image: str,
        attempts: int | str = DEFAULT_PUSH_ATTEMPTS,
        max_wait_seconds: float | str = 15.0,
        training_conn_id: str = TrainingHook.default_conn_name,
        **kwargs: Unpack[EngineArguments],
    ) -> None:
        super().__init__(**kwargs)
        self.image = image
        self.attempts = attempts
        self.max_wait_seconds = max_wait_seconds
        self.training_conn_id = training_conn_id
        self._pushed: str | None = None

    def execute(self, context: Context) -> str:
        """Push, unless the registry has the image; return its reference by digest."""
        from container_training.work.images.pusher import push_image

        with self.hook, final_unless_transient():
            pushed = push_image(
                self.hook.api_client,
                parse_image_ref(full_image_name(self.image, self.training_conn_id)),
                on_line=self._log_line,
                find_login=self.hook.find_login,
                attempts=whole_number("attempts", self.attempts),
                max_wait_seconds=number("max_wait_seconds", self.max_wait_seconds),
                cancellation=self._new_cancellation(),
            )
        self.log.info("%s is %s", self.image, pushed.ref)
        self._pushed = str(pushed.ref)
        return self._pushed

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> OperatorLineage[Any, Any]:
        """Return the image in the registry, whose version is its digest."""
        return push_lineage(self._pushed or self.image)


class BuildAndPushImageOperator(BuildImageOperator):
    """
    Builds an image, tests it and pushes it, in one task; returns its reference by digest.

    All that the task needs is on its worker: between the steps nothing is pulled, and an image that fails its
    test is not pushed. An image that the engine or the registry has is neither built nor pushed again, as by
    ``BuildImageOperator``. A test that fails ends the task without a retry. A remote builder pushes before
    the test, for which the worker's engine pulls the image.

    :param test_args: arguments of the test run, as ``args`` of ``TestImageOperator``; ``None``: no test.
        (templated)
    :param test_timeout: time limit of the test run, as a ``timedelta`` or in seconds. (templated)
    :return: ``HOST/PATH@sha256:...``, which never means another image.
    """

    template_fields: Sequence[str] = (
        *BuildImageOperator.template_fields,
        "test_args",
        "test_timeout",
    )
    template_fields_renderers = {**BuildImageOperator.template_fields_renderers, "test_args": "json"}

    def __init__(
        self,
        *,
        test_args: Sequence[Any] | str | None = None,
        test_timeout: timedelta | float | str = DEFAULT_TEST_TIMEOUT,
        **kwargs: Unpack[BuildArguments],
    ) -> None:
        super().__init__(**kwargs)
        self.test_args = test_args
        self.test_timeout = test_timeout
        self._pushed: str | None = None

    def execute(self, context: Context) -> str:
        """Build, test and push; return the image's reference by digest."""
        from container_training.work.images.puller import ensure_image

        with self.hook, final_unless_transient():
            test = ImageTestRun(
                args=self.test_args, timeout=self.test_timeout, training_conn_id=self.training_conn_id
            )
            limits = test.limits()
            name = full_image_name(self.image, self.training_conn_id)
            if parse_image_ref(name).host == LOCAL_HOST:
                raise InvalidImageRef(f"image {name!r} must be at a registry; {LOCAL_HOST} is none")
            cancellation = self._new_cancellation()
            ref = self._build(context, cancellation)
            if self.test_args is not None:
                key, api_client = TaskKey.of(context["ti"]), self.hook.api_client
                if ref.digest:  # a remote builder made it
                    ensure_image(api_client, str(ref), self.hook.find_login, self._log_line, cancellation)
                test.run(api_client, str(ref), key, limits, self._log_line, cancellation)
            pushed = ref.at(ref.digest) if ref.digest else self._push(ref, cancellation)
            self._pushed = str(pushed)
        return self._pushed

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> OperatorLineage[Any, Any]:
        """Return the image in the registry, whose version is its digest."""
        return push_lineage(self._pushed or self.image)
