"""The whole way from a Dockerfile to collected results, as one task group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal, Unpack

from airflow.sdk import Asset, TaskGroup, chain

from container_training.operators.bill_of_materials import ImageBillOfMaterialsOperator
from container_training.operators.burst import Burst, ChooseServiceOperator
from container_training.operators.image import BuildImageOperator, PushImageOperator, TestImageOperator
from container_training.operators.plots import PlotTrialsOperator
from container_training.operators.preflight import PreflightOperator
from container_training.operators.registry_iam import GrantRegistryAccessOperator
from container_training.operators.results import CollectTrainingResultsOperator
from container_training.operators.training import SubmitTrainingJobOperator
from container_training.runtime.job_description import PipelineArguments
from container_training.runtime.job_group import (
    follow_connection,
    follow_task,
    given,
    job_bucket,
    job_group,
    training_connection,
    wait_limits,
)
from container_training.sensors.training import TrainingJobSensor
from container_training.step import CollectedJob, ResultArguments, follow_job, is_tuning, output_of
from container_training.work.results.collection import BILL_OF_MATERIALS_FILE
from container_training.work.waiting.job_watch import Until
from training_api.dialects.ml_v1.roles import OTHER_ROLES
from training_api.errors import InvalidArgument

#: Roles that may have an image of their own: the start of their arguments of ``SubmitTrainingJobOperator``.
_ROLES = tuple(role.name for role in OTHER_ROLES)

_OF_SUBMIT = ("detached", "result_files", "vertex_options")


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleImage:
    """
    The image of one role; a value that is ``None`` is the master's.

    :param dockerfile: path of the Dockerfile within the context.
    :param context_dir: folder with the Dockerfile.
    :param image: name under which it is pushed. By default it shares the master's repository, where its tag
        distinguishes it and common layers are sent once.
    :param build_args: values of the Dockerfile's ARGs.
    :param test_args: arguments of the local test run.
    """

    dockerfile: str
    context_dir: str | Path | None = None
    image: str | None = None
    build_args: Mapping[str, str] | None = None
    test_args: Sequence[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageTasks:
    """What makes one image, in this order."""

    build: BuildImageOperator
    test: TestImageOperator
    push: PushImageOperator
    grant: GrantRegistryAccessOperator


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingPipeline(CollectedJob):
    """
    The group and its tasks, in their order.

    Put other tasks before or after ``group``, or before or after any task of it.

    With ``states="one"``, ``submit`` and ``collect`` are one task, and there are no waits.

    :param choose: the first task, which chooses among ``backends``; ``None`` without them.
    :param preflight: runs beside test, push and grant; ``None`` if the chain has none.
    :param plot: runs beside collect; ``None`` if the job does not tune.
    :param bills_of_materials: run beside the waits: for the master's image, then for those of the roles.
        Empty unless they were asked for.
    :param roles: the tasks of the images that roles other than the master have.
    """

    build: BuildImageOperator
    test: TestImageOperator
    preflight: PreflightOperator | None
    push: PushImageOperator
    grant: GrantRegistryAccessOperator
    choose: ChooseServiceOperator | None = None
    wait_until_scheduled: TrainingJobSensor | None = None
    wait_until_running: TrainingJobSensor | None = None
    wait_until_finished: TrainingJobSensor | None = None
    plot: PlotTrialsOperator | None = None
    bills_of_materials: Sequence[ImageBillOfMaterialsOperator] = ()
    roles: Mapping[str, ImageTasks] = field(default_factory=dict)


def training_pipeline(
    *,
    context_dir: str | Path,
    image: str,
    group_id: str = "train",
    dockerfile: str = "Dockerfile",
    build_args: Mapping[str, str] | None = None,
    builder: str | None = None,
    secrets: Mapping[str, str] | None = None,
    ssh: Mapping[str, str] | None = None,
    test_args: Sequence[str] = (),
    test_timeout: timedelta = timedelta(minutes=10),
    preflight: bool = True,
    bill_of_materials: bool = False,
    images: Mapping[str, RoleImage] | None = None,
    config_file: str | None = None,
    job: Mapping[str, Any] | str | None = None,
    tuning: bool | None = None,
    states: Literal["tasks", "one"] = "tasks",
    max_cost: float | str | None = None,
    wait_timeout: timedelta | None = None,
    metrics_file: str | None = None,
    model_file: str | None = None,
    reuse_results: bool | str | None = None,
    data_uris: Sequence[str] | str | None = None,
    outlets: Sequence[Asset] = (),
    backends: Sequence[str] = (),
    when: Burst | None = None,
    training_conn_id: str | None = None,
    gcp_conn_id: str | None = None,
    docker_conn_id: str | None = None,
    docker_url: str | None = None,
    default_args: Mapping[str, Any] | None = None,
    **job_fields: Unpack[PipelineArguments],
) -> TrainingPipeline:
    """
    Return the tasks of a whole training run, from the build to the collected results.

    The tasks are build, test, preflight, push, grant, submit, wait_until_scheduled, wait_until_running,
    wait_until_finished and collect, and plot if the job tunes hyperparameters.

    Call it within a DAG. The job is described once: by a job file, by ``job`` in the API's own form and by
    ``job_fields``; the later ones override the earlier ones. Its image is the one that was built, by digest.
    Its folder is ``<job_bucket of the connection>/<job id>`` unless one of these gives it.

    :param context_dir: folder with the Dockerfile.
    :param image: name under which the image is pushed, ``HOST/PROJECT/NAME``, or a short one below the
        connection's ``image_prefix``; the tag is derived from the content.
    :param group_id: id of the task group.
    :param dockerfile: path of the Dockerfile within the context.
    :param build_args: values of the Dockerfile's ARGs.
    :param builder: builder of all images, as for ``BuildImageOperator``.
    :param secrets: secrets of all builds, as for ``BuildImageOperator``.
    :param ssh: SSH agents or keys of all builds, as for ``BuildImageOperator``.
    :param test_args: arguments of the local test run and of the preflight; choose ones that make it short.
    :param test_timeout: time limit of the local test run.
    :param preflight: start one step of every role of the job on this machine before it is submitted.
    :param bill_of_materials: write which packages are in each image into the job's folder, as
        ``sbom.cdx.json`` and ``sbom-ROLE.cdx.json``.
    :param images: images of other roles, by ``worker``, ``parameter_server`` and ``evaluator``. Each is
        built, tested, pushed and granted beside the master's, by tasks like ``build_worker``. A role without
        one runs the master's image.
    :param config_file: path of the job file, from the folder of the DAG's file.
    :param job: ``Job`` resource as a mapping, or as JSON text.
    :param tuning: plot the trials; default: whether ``job`` or ``hyperparameters`` describe a tuning job. A
        job file is read only when the job is submitted, so set this if the search is in the file.
    :param states: ``"tasks"``: a task for each state of the job, so that Airflow's grid shows where it is;
        ``"one"``: one task from the submission to the results, which takes seconds less.
    :param max_cost: cancel the job once it has cost this much, at the prices of the connection
        (``TrainingJobSensor``).
    :param wait_timeout: limit of each wait, and its only one; default: Airflow's ``[sensors]
        default_timeout`` (7 days), and ``execution_timeout`` for each try.
    :param metrics_file: file of the metrics below the job's folder; default ``metrics.json``.
    :param model_file: file of the model below the job's folder; default ``model.joblib``.
    :param reuse_results: take the results of an earlier job of the same content instead of training again
        (``SubmitTrainingJobOperator``), if ``metrics_file`` and ``model_file`` are still there. Jobs of all
        ``backends`` count.
    :param data_uris: ``gs://`` objects or folders that the job reads; part of the content.
    :param outlets: assets that stand for the results; their events say which model it is and how good.
    :param backends: connections of training services, best first; a task ``choose_service`` before the build
        chooses one for the run (``ChooseServiceOperator``). Default: ``training_conn_id`` alone.
    :param when: when the job leaves a service of ``backends`` for the next; default ``Burst()``.
    :param training_conn_id: connection of the training service; default ``training_default``.
    :param gcp_conn_id: Google connection of the object store; default ``google_cloud_default``.
    :param docker_conn_id: connection with the registry's host and login, as for ``BuildImageOperator``.
    :param docker_url: URL of the engine, as for ``BuildImageOperator``.
    :param default_args: default arguments of the group's tasks; they win over those of the DAG.
    :param job_fields: arguments of ``SubmitTrainingJobOperator``, like ``args``, ``job_dir`` and ``labels``;
        and Airflow's arguments of all tasks, like ``queue``, ``pool``, ``retries`` and ``execution_timeout``.
    :raises InvalidArgument: ``images`` names an unknown role, or ``states`` is another word.
    """
    _check(states, images or {})
    connections = {"training_conn_id": training_conn_id, "gcp_conn_id": gcp_conn_id}
    engine = {"docker_conn_id": docker_conn_id, "docker_url": docker_url}
    with job_group(group_id, default_args, job_fields, **connections, **engine) as group:
        description = {**given(config_file=config_file, job=job), **job_fields}
        choose = _choose_service(group, backends, when, image=image, **description)

        def make_image(role: RoleImage, suffix: str = "") -> ImageTasks:
            build = BuildImageOperator(
                task_id=f"build{suffix}",
                context_dir=str(role.context_dir or context_dir),
                image=role.image or image,
                dockerfile=role.dockerfile,
                **given(
                    build_args=build_args if role.build_args is None else role.build_args,
                    builder=builder,
                    secrets=secrets,
                    ssh=ssh,
                ),
            )
            test = TestImageOperator(
                task_id=f"test{suffix}",
                image=output_of(build),
                args=list(test_args if role.test_args is None else role.test_args),
                timeout=test_timeout,
            )
            push = PushImageOperator(task_id=f"push{suffix}", image=output_of(build))
            grant = GrantRegistryAccessOperator(task_id=f"grant{suffix}", image=output_of(push))
            build >> test >> push >> grant
            build.set_upstream([choose] if choose else [])
            return ImageTasks(build=build, test=test, push=push, grant=grant)

        master = make_image(RoleImage(dockerfile=dockerfile))
        roles = {role: make_image(own, f"_{role}") for role, own in (images or {}).items()}
        for role, tasks in roles.items():
            config = {**(description.get(f"{role}_config") or {}), "image_uri": output_of(tasks.push)}
            description[f"{role}_config"] = config
        searches = is_tuning(description) if tuning is None else tuning
        results = ResultArguments.of(
            group, metrics_file=metrics_file, model_file=model_file, reuse_results=reuse_results
        )
        for_submit = results.of_submit(group, is_tuning=searches, elsewhere=backends)
        if states == "one":
            for_submit |= results.of_one_task(wait_timeout, outlets)
        # The preflight has no such arguments.
        for_submit |= {name: description.pop(name) for name in _OF_SUBMIT if name in description}
        for_submit |= {"vertex_options": output_of(choose, "vertex_options")} if choose else {}
        submit = SubmitTrainingJobOperator(
            task_id="submit",
            image=output_of(master.push),
            **given(max_cost=max_cost, data_uris=data_uris),
            **for_submit,
            **description,
        )
        flight = None
        if preflight:
            for role, tasks in roles.items():  # what was built: it need not wait for the pushes
                description[f"{role}_config"] = {
                    **description[f"{role}_config"],
                    "image_uri": output_of(tasks.build),
                }
            if test_args:
                # Replaced anyway; what they wait for need not be waited for.
                description.pop("args", None)
            flight = PreflightOperator(
                task_id="preflight",
                image=output_of(master.build),
                preflight_args=list(test_args),
                check_access=False,  # ``grant`` gives it at the same time
                **given(vertex_options=for_submit.get("vertex_options")),
                **description,
            )
            flight >> submit
        follow_job(group, submit)
        [tasks.grant for tasks in (master, *roles.values())] >> submit
        waits: dict[str, TrainingJobSensor] = {}
        collect: SubmitTrainingJobOperator | CollectTrainingResultsOperator = submit
        if states == "tasks":
            waits = _waits(submit, wait_timeout, max_cost)
            collect = CollectTrainingResultsOperator(
                task_id="collect",
                job_id=output_of(submit),
                outlets=list(outlets),
                **results.of_collect(submit),
            )
            chain(submit, *waits.values(), collect)
        job_id = output_of(submit, None if waits else "job_id")
        pushed = {"": master, **roles} if bill_of_materials else {}
        bucket = job_bucket(training_connection(group))
        bills = [
            _bill(role, tasks.push, job_id, f"{bucket}/bills-of-materials") for role, tasks in pushed.items()
        ]
        if waits:
            collect.set_upstream(bills)
        plot = None
        if searches:
            plot = PlotTrialsOperator(task_id="plot", job_id=job_id)
            waits.get("wait_until_finished", submit) >> plot
    return TrainingPipeline(
        group=group,
        choose=choose,
        build=master.build,
        test=master.test,
        preflight=flight,
        push=master.push,
        grant=master.grant,
        submit=submit,
        collect=collect,
        **waits,
        plot=plot,
        bills_of_materials=bills,
        roles=roles,
    )


def _choose_service(
    group: TaskGroup, backends: Sequence[str], when: Burst | None, **described: Any
) -> ChooseServiceOperator | None:
    """Return the task that chooses the service, to which all later tasks of ``group`` keep."""
    if not backends:
        return None
    # What is for the submission alone says nothing about where the job fits.
    of_job = {name: value for name, value in described.items() if name not in ("detached", "result_files")}
    follow_connection(group, backends[0])
    choose = ChooseServiceOperator(
        task_id="choose_service", training_conn_ids=list(backends), **asdict(when or Burst()), **of_job
    )
    follow_task(group, choose)
    return choose


def _check(states: str, images: Mapping[str, Any]) -> None:
    if states not in ("tasks", "one"):
        raise InvalidArgument(
            f"states must be 'tasks' (a task for each state) or 'one' (one task for all); got {states!r}"
        )
    if unknown := sorted(set(images) - set(_ROLES)):
        raise InvalidArgument(
            f"images must name roles of {', '.join(_ROLES)}; got {', '.join(unknown)}; the master's image is "
            "that of context_dir"
        )
    for role, own in images.items():
        if not isinstance(own, RoleImage):
            raise InvalidArgument(f"images[{role!r}] must be a RoleImage, got {own!r}; write RoleImage(...)")


def _waits(
    submit: SubmitTrainingJobOperator, timeout: timedelta | None, max_cost: float | str | None
) -> dict[str, TrainingJobSensor]:
    """Return the waits for the states of a job, in their order."""

    def wait(task_id: str, until: Until, **limits: Any) -> TrainingJobSensor:
        return TrainingJobSensor(
            task_id=task_id, job_id=output_of(submit), until=until, **limits, **wait_limits(timeout)
        )

    return {
        "wait_until_scheduled": wait("wait_until_scheduled", Until.LEFT_QUEUED),
        "wait_until_running": wait("wait_until_running", Until.LEFT_PREPARING),
        "wait_until_finished": wait("wait_until_finished", Until.FINISHED, **given(max_cost=max_cost)),
    }


def _bill(
    role: str,
    push: PushImageOperator,
    job_id: str,
    keep_in: str,
) -> ImageBillOfMaterialsOperator:
    """Return the task that says what is in a role's image; the master's role is empty."""
    start, dot, end = BILL_OF_MATERIALS_FILE.partition(".")
    return ImageBillOfMaterialsOperator(
        task_id=f"bill_of_materials_{role}" if role else "bill_of_materials",
        image=output_of(push),
        job_id=job_id,
        file_name=f"{start}-{role}{dot}{end}" if role else BILL_OF_MATERIALS_FILE,
        keep_in=keep_in,
    )
