"""Showing what a training run would do, and changing nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Unpack

from container_training.hooks.failures import final_unless_transient
from container_training.hooks.image import ImageHook
from container_training.hooks.storage import StorageHook
from container_training.runtime.dag_folder import dag_folder
from container_training.runtime.job_description import JobArguments, JobDescriptionOperator
from container_training.runtime.planning import plan_sources, planned_build_args
from container_training.work.plan.plan import PlanInputs
from container_training.work.plan.text import plan_lines
from container_training.work.submission.job_request import JobFields
from training_api.job.job_id import TaskKey, job_id_for

if TYPE_CHECKING:
    from airflow.sdk import Context


class PlanTrainingOperator(JobDescriptionOperator):
    """
    Shows what building, pushing, granting and submitting would do, and does none of it.

    The log has the body of the API's create request, the image that would be built and what changed in it,
    the change of access, the machines and their cost per hour. The job is described as for
    :class:`SubmitTrainingJobOperator`. The labels that begin with ``airflow-``, which that task adds, are not
    in the plan.

    :param context_dir: build context of the image. A relative path starts at the folder of the DAG's file.
        With a context, ``image`` is the name to push it as, ``HOST/PATH`` without a tag; without one, it is
        an image that exists. (templated)
    :param dockerfile: path of the Dockerfile within the context. (templated)
    :param build_args: values of the Dockerfile's ARGs; they are part of the result. (templated)
    :param for_task: id of the task of this DAG that will submit the job; the plan shows the job id of that
        task. Default: this task's own. (templated)
    :param gcp_conn_id: Google connection whose credentials read policies on Google's own endpoints.
        (templated)
    :param docker_conn_id: connection with the registry's host and login; it may be missing. (templated)
    :param docker_url: URL of the engine; default: ``DOCKER_HOST``, else the local socket. (templated)
    :return: the plan as JSON. Written to a file, it is what ``python -m container_training apply`` takes.
    """

    template_fields: Sequence[str] = (
        *JobDescriptionOperator.template_fields,
        "context_dir",
        "dockerfile",
        "build_args",
        "for_task",
        "gcp_conn_id",
        "docker_conn_id",
        "docker_url",
    )
    template_fields_renderers = {**JobDescriptionOperator.template_fields_renderers, "build_args": "json"}
    ui_color = "#eeeeee"

    def __init__(
        self,
        *,
        context_dir: str | None = None,
        dockerfile: str = "Dockerfile",
        build_args: Mapping[str, str] | None = None,
        for_task: str | None = None,
        gcp_conn_id: str = StorageHook.default_conn_name,
        docker_conn_id: str | None = ImageHook.default_conn_name,
        docker_url: str | None = None,
        **kwargs: Unpack[JobArguments],
    ) -> None:
        super().__init__(**kwargs)
        self.context_dir = context_dir
        self.dockerfile = dockerfile
        self.build_args = build_args
        self.for_task = for_task
        self.gcp_conn_id = gcp_conn_id
        self.docker_conn_id = docker_conn_id
        self.docker_url = docker_url

    def execute(self, context: Context) -> dict[str, Any]:
        """Look, log the plan, and return it."""
        from container_training.work.plan.planning import make_plan

        with final_unless_transient():
            inputs = self._inputs(context)
            with plan_sources(inputs) as sources:
                plan = make_plan(inputs, sources, datetime.now(UTC))
        for line in plan_lines(plan):
            self.log.info("%s", line)
        return plan.to_json()

    def _inputs(self, context: Context) -> PlanInputs:
        key = TaskKey.of(context["ti"])
        folder = dag_folder(context).absolute()
        file = str(folder / self.config_file) if self.config_file else None
        given = {name: getattr(self, name) for name in JobFields.__annotations__}
        given["image"] = self._full_image()
        job_id = self.job_id or job_id_for(replace(key, task_id=self.for_task or key.task_id), attempt=1)
        context_dir = str(folder / self.context_dir) if self.context_dir else None
        return PlanInputs.of(
            config_file=file,
            job=self.job,
            fields=given,
            job_id=job_id,
            context_dir=context_dir,
            dockerfile=self.dockerfile,
            build_args=planned_build_args(
                context_dir, self.dockerfile, self.build_args, self.training_conn_id
            ),
            training_conn_id=self.training_conn_id,
            gcp_conn_id=self.gcp_conn_id,
            docker_conn_id=self.docker_conn_id,
            docker_url=self.docker_url,
        )
