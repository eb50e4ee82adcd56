"""An image from Cloud Build, from context to digest, by a server that speaks its API."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tarfile
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred

from container_training.operators.cloud_build import CloudBuildImageOperator
from container_training.work.object_store import ObjectStore
from tests.support.docs_examples import Example, examples
from tests.support.fakes.cloud_build_server import DIGEST, CloudBuildServer
from tests.support.fakes.fake_registry import FakeRegistry
from tests.support.fakes.virtual_time import VirtualClock
from training_api.errors import EngineUnavailable

pytestmark = pytest.mark.usefixtures("base")

NAME = "europe-docker.pkg.dev/p-1/images/digits"
CONTEXT: Any = {"ti": SimpleNamespace(dag_id="d", task_id="t", run_id="r", map_index=-1)}


@pytest.fixture
def base(registries: FakeRegistry) -> None:
    """The base image of all builds."""
    registries.images["p-1/images/base:1"] = {}


@pytest.fixture
def context_dir(tmp_path: Path) -> Path:
    (tmp_path / "Dockerfile").write_text("FROM europe-docker.pkg.dev/p-1/images/base:1\nCOPY . /app\n")
    (tmp_path / "task.py").write_text("print()")
    (tmp_path / ".dockerignore").write_text("*.log\n")
    (tmp_path / "a.log").write_text("left out")
    return tmp_path


@pytest.fixture
def operator(context_dir: Path, folder: str) -> CloudBuildImageOperator:
    return make_operator(context_dir, staging_dir=folder)


def make_operator(context_dir: Path, **arguments: Any) -> CloudBuildImageOperator:
    given = {"image": NAME, "deferrable": False, "poll_interval": 0.01, **arguments}
    task = CloudBuildImageOperator(task_id="build", context_dir=str(context_dir), **given)
    task._sleep = lambda _: None
    return task


def test_the_context_is_packed_stored_built_and_pushed(
    operator: CloudBuildImageOperator, cloud: CloudBuildServer, store: ObjectStore, folder: str
) -> None:
    image = operator.execute(CONTEXT)

    (request,) = cloud.created
    source = request.build.source.storage_source
    packed = store.read(f"gs://{source.bucket}/{source.object_}", 100_000)
    with tarfile.open(fileobj=io.BytesIO(packed or b""), mode="r:gz") as archive:
        names = archive.getnames()
    assert names == [".dockerignore", "Dockerfile", "task.py"]
    assert source.generation > 0
    assert f"gs://{source.bucket}/{source.object_}".startswith(f"{folder}/")
    reference, _, digest = image.partition("@")
    assert reference.startswith(f"{NAME}:ctx-")
    assert list(request.build.images) == [reference]
    assert digest == DIGEST


def test_what_the_registry_has_is_not_built_again(
    context_dir: Path, folder: str, cloud: CloudBuildServer, registries: FakeRegistry
) -> None:
    first = make_operator(context_dir, staging_dir=folder).execute(CONTEXT)
    labels = [word for word in cloud.created[0].build.steps[0].args if word.startswith("--label=")]
    tag = first.partition("@")[0].rpartition(":")[2]
    made = dict(word.removeprefix("--label=").split("=", 1) for word in labels)
    registries.images[f"p-1/images/digits:{tag}"] = {"config": {"Labels": made}}

    again = make_operator(context_dir, staging_dir=folder).execute(CONTEXT)

    assert again == first
    assert len(cloud.created) == 1


def test_a_retry_waits_for_the_build_of_the_try_before(
    context_dir: Path, folder: str, cloud: CloudBuildServer
) -> None:
    cloud.course = ["WORKING"]
    operator = make_operator(context_dir, staging_dir=folder, deferrable=True)
    with pytest.raises(TaskDeferred):
        operator.execute(CONTEXT)

    with pytest.raises(TaskDeferred) as deferred:
        make_operator(context_dir, staging_dir=folder, deferrable=True).execute(CONTEXT)

    assert len(cloud.created) == 1
    assert deferred.value.kwargs["build_id"] == "build-1"


def test_the_triggerer_waits_and_the_task_returns_the_image(
    context_dir: Path, folder: str, cloud: CloudBuildServer
) -> None:
    cloud.course = ["QUEUED", "WORKING", "WORKING", "SUCCESS"]
    operator = make_operator(context_dir, staging_dir=folder, deferrable=True)

    with pytest.raises(TaskDeferred) as deferred:
        operator.execute(CONTEXT)
    event = run_trigger(deferred.value.trigger)
    image = make_operator(context_dir, staging_dir=folder, deferrable=True).execute_complete(
        CONTEXT, event, **deferred.value.kwargs
    )

    assert event == {"message": "it ended with SUCCESS"}
    assert image == f"{deferred.value.kwargs['image']}@{DIGEST}"


def run_trigger(trigger: Any) -> dict[str, Any]:
    """Return the trigger's one event, in virtual time."""
    trigger.now = (clock := VirtualClock()).now

    async def events() -> list[Any]:
        return [event.payload async for event in trigger.run()]

    (event,) = clock.run(events())
    return event  # type: ignore[no-any-return]


def test_the_trigger_acts_as_whom_the_task_acts(
    context_dir: Path, folder: str, cloud: CloudBuildServer
) -> None:
    cloud.course = ["WORKING"]
    chain = ["builder@p-1.iam.gserviceaccount.com"]
    task = make_operator(
        context_dir,
        **{"staging_dir": folder, "deferrable": True, "impersonation_chain": chain, "location": "us-east1"},
    )

    with pytest.raises(TaskDeferred) as deferred:
        task.execute(CONTEXT)

    assert deferred.value.trigger.serialize()[1] == {
        "build_id": "build-1",
        "project_id": "p-1",
        "location": "us-east1",
        "gcp_conn_id": "google_cloud_default",
        "impersonation_chain": chain,
        "poll_interval_seconds": 0.01,
    }


def test_a_trigger_that_could_not_ask_is_followed_by_another(
    operator: CloudBuildImageOperator, context_dir: Path, folder: str, cloud: CloudBuildServer
) -> None:
    cloud.course = ["WORKING"]
    deferrable = make_operator(context_dir, staging_dir=folder, deferrable=True)
    with pytest.raises(TaskDeferred) as deferred:
        deferrable.execute(CONTEXT)

    with pytest.raises(TaskDeferred):
        deferrable.execute_complete(CONTEXT, {"status": "error", "message": "503"}, **deferred.value.kwargs)


def test_a_build_that_fails_ends_the_task_with_its_reason_and_its_log(
    operator: CloudBuildImageOperator, cloud: CloudBuildServer
) -> None:
    cloud.course = ["WORKING", "FAILURE"]
    cloud.end = lambda build: setattr(build, "status_detail", "step 0 exited with non-zero status: 1")

    with pytest.raises(AirflowFailException) as caught:
        operator.execute(CONTEXT)

    assert str(caught.value) == (
        "BuildFailed: Cloud Build's build-1 ended with FAILURE: step 0 exited with non-zero status: 1; log: "
        "https://console.cloud.google.com/cloud-build/builds/build-1"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"image": "registry.example/p/digits"}, "InvalidImageRef: .* must be in Artifact Registry"),
        (
            {"staging_dir": "gs://no-such-bucket/x"},
            "InvalidRequest: staging_dir: must be in a bucket that exists",
        ),
        ({"staging_dir": "/tmp/x"}, "InvalidArgument: staging_dir must be an address in Cloud Storage"),
        ({"staging_dir": None}, "InvalidRequest: staging_dir: must be given"),
        (
            {"build_timeout": timedelta(days=2)},
            "InvalidRequest: build_timeout: must be above 0 and at most 24",
        ),
        ({"secrets": {"a": "variable:x"}}, r"InvalidRequest: secrets\.a: must be projects/P/secrets"),
        ({"dockerfile": "no"}, "BuildContextMissing: dockerfile must be a file"),
    ],
)
def test_what_is_wrong_is_named_before_anything_is_built(
    context_dir: Path,
    folder: str,
    cloud: CloudBuildServer,
    monkeypatch: pytest.MonkeyPatch,
    arguments: dict[str, Any],
    message: str,
) -> None:
    training = {"conn_type": "container_training", "host": "127.0.0.1", "extra": {"project": "p-1"}}
    monkeypatch.setenv("AIRFLOW_CONN_TRAINING_DEFAULT", json.dumps(training))

    with pytest.raises(AirflowFailException, match=message):
        make_operator(context_dir, **{"staging_dir": folder, **arguments}).execute(CONTEXT)

    assert cloud.created == []


def test_an_account_without_the_role_is_told_which(
    operator: CloudBuildImageOperator, cloud: CloudBuildServer
) -> None:
    cloud.refusals["CreateBuild"] = grpc.StatusCode.PERMISSION_DENIED

    with pytest.raises(
        AirflowFailException, match=r"BuildFailed: .*the account needs roles/cloudbuild\.builds"
    ):
        operator.execute(CONTEXT)


def test_a_cloud_build_that_fails_by_itself_is_tried_again_by_airflow(
    operator: CloudBuildImageOperator, cloud: CloudBuildServer
) -> None:
    cloud.course = ["WORKING", "INTERNAL_ERROR"]

    with pytest.raises(EngineUnavailable):
        operator.execute(CONTEXT)


def test_killing_the_task_cancels_the_build(
    operator: CloudBuildImageOperator, cloud: CloudBuildServer
) -> None:
    cloud.course = ["WORKING"]
    operator._sleep = lambda _: operator.on_kill()

    with pytest.raises(AirflowFailException, match="ended with CANCELLED"):
        operator.execute(CONTEXT)

    assert cloud.cancelled == ["build-1"]


def test_killing_a_task_leaves_the_build_that_another_task_has_begun(
    operator: CloudBuildImageOperator, context_dir: Path, folder: str, cloud: CloudBuildServer
) -> None:
    cloud.course = ["WORKING"]
    with pytest.raises(TaskDeferred):
        make_operator(context_dir, staging_dir=folder, deferrable=True).execute(CONTEXT)

    def kill(_: float) -> None:
        operator.on_kill()
        raise KeyboardInterrupt

    operator._sleep = kill
    with pytest.raises(KeyboardInterrupt):
        operator.execute(CONTEXT)

    assert len(cloud.created) == 1
    assert cloud.cancelled == []


@pytest.mark.parametrize("is_own", [True, False])
def test_a_resumed_task_that_is_killed_cancels_only_what_it_has_begun(
    context_dir: Path, folder: str, cloud: CloudBuildServer, is_own: bool
) -> None:
    cloud.course = ["WORKING"]
    with pytest.raises(TaskDeferred) as deferred:
        make_operator(context_dir, staging_dir=folder, deferrable=True).execute(CONTEXT)
    if not is_own:
        with pytest.raises(TaskDeferred) as deferred:
            make_operator(context_dir, staging_dir=folder, deferrable=True).execute(CONTEXT)
    resumed = make_operator(context_dir, staging_dir=folder)

    def kill(_: float) -> None:
        resumed.on_kill()
        raise KeyboardInterrupt

    resumed._sleep = kill
    with pytest.raises(KeyboardInterrupt):
        resumed.execute_complete(CONTEXT, {"message": ""}, **deferred.value.kwargs)

    assert cloud.cancelled == (["build-1"] if is_own else [])


def test_googles_registries_are_asked_with_googles_token(
    operator: CloudBuildImageOperator,
    cloud: CloudBuildServer,
    registries: FakeRegistry,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []
    monkeypatch.setattr(
        "container_training.hooks.cloud_build.CloudBuildHook.registry_login",
        lambda self: asked.append(1) or {},
    )

    operator.execute(CONTEXT)

    assert asked
    assert {request.url.host for request in registries.requests} == {"europe-docker.pkg.dev"}


@pytest.mark.extended
@pytest.mark.parametrize("example", examples("operator CloudBuildImageOperator"), ids=str)
def test_the_example_of_the_reference_runs(
    example: Example, context_dir: Path, folder: str, cloud: CloudBuildServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    extra = {"project": "p-1", "job_bucket": folder, "image_prefix": "europe-docker.pkg.dev/p-1/images"}
    connection = {"conn_type": "container_training", "host": "127.0.0.1", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_TRAINING_DEFAULT", json.dumps(connection))
    file = context_dir / "example.py"
    file.write_text(example.code)
    bag = DagBag(str(file), collect_dags=False)
    bag.collect_dags(str(file))
    (dag,) = bag.dags.values()
    (task,) = dag.tasks
    task.context_dir, task.deferrable = str(context_dir), False

    assert task.execute(CONTEXT).startswith("europe-docker.pkg.dev/p-1/images/mine:ctx-")


def test_a_dag_file_with_it_imports_nothing_of_googles() -> None:
    source = "import sys, container_training.operators.cloud_build; sys.exit('google.cloud.devtools' in sys.modules)"

    run = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=False)

    assert run.returncode == 0, run.stderr
