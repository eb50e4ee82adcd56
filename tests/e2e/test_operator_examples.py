"""
The example of each operator in the documentation, run as it stands.

With a real engine, registry, object store, service and API of Airflow.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import docker
import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk import DAG

from container_training.work.models.registry import ModelRegistry
from local_stack.parts.airflow import airflow_environment, passwords_file
from local_stack.people.airflow_api import AirflowApi
from local_stack.people.airflow_users import ORPHAN_FINDER
from local_stack.people.credentials import airflow_principal, airflow_token, developers_header, registry_login
from local_stack.stack import LocalStack
from tests.support import web
from tests.support.bed.model_versions import make_author, make_version
from tests.support.bed.object_store import connect
from tests.support.bed.real_parts import PROJECT, end_all_jobs
from tests.support.bed.tiny_trainer import write_trainer
from tests.support.docs_examples import Example, examples
from tests.support.own_images import remove_own_images
from tests.support.public_operators import IN_THE_CLOUD, public_operators
from training_api.clients.training import TrainingClient
from training_api.job.image_ref import ImageRef

pytestmark = [
    pytest.mark.usefixtures("guarded"),
    pytest.mark.docker,
    pytest.mark.e2e,
    pytest.mark.timeout(900),
]

#: What ``@task.training_job`` makes.
DECORATOR = "_TrainingJobDecoratedOperator"
#: What the task of each operator returns, so far as it says that the operator did its work.
RETURNS: dict[str, Callable[[Any], bool]] = {
    "BuildImageOperator": lambda value: ":ctx-" in value and "@sha256:" in value,
    "BuildAndPushImageOperator": lambda value: "/mine@sha256:" in value,
    "TestImageOperator": lambda value: value.endswith("/mine:1"),
    "PushImageOperator": lambda value: "@sha256:" in value,
    "ImageBillOfMaterialsOperator": lambda value: value.endswith("/bills/mine/sbom.cdx.json"),
    "GrantRegistryAccessOperator": lambda value: value["granted"],
    "RevokeRegistryAccessOperator": lambda value: len(value["revoked"]) == 1,
    "PreflightOperator": lambda value: value["ok"] and bool(value["rows"]),
    "PackageTrainerOperator": lambda value: value[0].startswith("gs://"),
    "SubmitTrainingJobOperator": lambda value: (
        value.startswith("submit_a_job_submit_")
        if isinstance(value, str)
        else value["job_id"].startswith("train_in_one_task_train_") and value["metrics"]["accuracy"] == 0.5
    ),
    "ChooseServiceOperator": lambda value: value["training_conn_id"] == "training_default",
    "CancelTrainingJobOperator": lambda value: value in ("CANCELLING", "CANCELLED"),
    "ListTrainingJobsOperator": lambda value: isinstance(value, list),
    "TrainingJobSensor": lambda value: value in ("RUNNING", "SUCCEEDED"),
    DECORATOR: lambda value: value["metrics"] == {"root": 4.0},
    "CollectTrainingResultsOperator": lambda value: value["metrics"]["accuracy"] == 0.5,
    "PlotTrialsOperator": lambda value: value["best-so-far"]["html"].startswith("gs://"),
    # By digest, if the example of another operator has pushed the same image.
    "PlanTrainingOperator": lambda value: bool(
        re.search("/mine(:ctx-|@sha256:)", value["request"]["trainingInput"]["masterConfig"]["imageUri"])
    ),
    "CancelOrphanJobsOperator": lambda value: isinstance(value, list),
    "SnapshotDataOperator": lambda value: value["files"][0]["generation"] > 0,
    "ValidateDataOperator": lambda value: (
        value["rows"] == 4 and all(check["passed"] for check in value["checks"])
    ),
    "RegisterModelOperator": lambda value: "/versions/" in value["model"]["uri"],
    "PrepareEvaluationsOperator": lambda value: len(value) == 2 and "#" in value[0]["args"][-1],
    "DecidePromotionOperator": lambda value: value["promote"] is False and value["won"] == 0,
    "PromoteModelOperator": lambda value: value["change"]["kind"] == "PROMOTION",
    "RollbackModelOperator": lambda value: value["change"]["kind"] == "ROLLBACK",
    "CleanUpModelsOperator": lambda value: value["versions"] == [],
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(
    stack: LocalStack,
    guarded: LocalStack,
    engine_client: docker.APIClient,
    base_image: str,
    pushed_image: ImageRef,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Path]:
    """A DAG folder with a trainer and a package, whose image was pushed as the guide says."""
    folder = tmp_path_factory.mktemp("dags")
    trainer = write_trainer(folder)
    package = folder / "package"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "task.py").write_text("print('hello')\n", encoding="utf-8")
    image = f"{stack.settings.image_prefix}/mine"
    built = engine_client.build(
        path=str(trainer), tag=f"{image}:1", buildargs={"BASE_IMAGE": base_image}, rm=True, decode=True
    )
    assert not [line for line in built if "error" in line]
    login = registry_login(stack.settings)
    pushed = engine_client.push(image, "1", stream=True, decode=True, auth_config=login)
    assert not [line for line in pushed if "error" in line]
    make_champions(stack, f"{image}:1")
    let_airflow_grant(guarded)
    yield folder
    headers = developers_header(stack.settings)
    with TrainingClient(stack.settings.training_url, PROJECT, headers=headers) as training:
        end_all_jobs(training)  # one that begins later would pull the image again
    remove_own_images(engine_client, lambda name: name.startswith((f"{image}:", f"{image}@")))


def let_airflow_grant(stack: LocalStack) -> None:
    """Let Airflow write the policies of the repositories that the examples grant."""
    binding = {"role": "roles/iam.securityAdmin", "members": [airflow_principal(stack.settings)]}
    for repository in ("mine", "other"):
        web.post(
            f"{stack.settings.training_url}/v1/projects/images-project/locations/local/repositories/{repository}"
            ":setIamPolicy",
            json={"policy": {"bindings": [binding]}},
            headers=developers_header(stack.settings),
        ).raise_for_status()


def make_champions(stack: LocalStack, image: str) -> None:
    """
    Make two versions champions, one after the other.

    The examples compare with the second, and roll back to the first.
    """
    with closing(connect(stack.settings.object_store_url)) as store:
        registry = ModelRegistry(store, f"{stack.settings.job_bucket}/models/mine")
        for name in ("first", "second"):
            uri = f"{registry.folder}/{name}.joblib"
            store.write_if_changed(uri, name.encode(), "text/plain")
            version = registry.register(make_version(name, image=image), uri)
            registry.promote(version, make_author(name), generation=registry.read().generation)


@pytest.fixture
def connections(stack: LocalStack, base_image: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The connections of the stack's own Airflow."""
    passwords = json.loads(passwords_file(stack.settings).read_text(encoding="utf-8"))
    environment = airflow_environment(
        stack.settings,
        base_image=base_image,
        token=airflow_token(stack.settings),
        finder_password=passwords[ORPHAN_FINDER],
    )
    for name, value in environment.items():
        if not name.startswith("AIRFLOW_") or name.startswith("AIRFLOW_CONN_"):
            monkeypatch.setenv(name, value)


def test_it_is_known_of_every_operator_what_it_returns() -> None:
    assert set(RETURNS) == {*public_operators(), DECORATOR} - IN_THE_CLOUD.keys()


@pytest.mark.parametrize(
    "example",
    [example for name in RETURNS for example in examples(f"operator {name}")],
    ids=lambda example: example.kind.removeprefix("operator "),
)
def test_the_example_of_the_reference_runs(
    example: Example,
    airflow: AirflowApi,
    folder: Path,
    connections: None,
    register_dag: Callable[[DAG], DAG],
) -> None:
    name = example.kind.removeprefix("operator ")
    file = folder / f"{name}.py"
    file.write_text(example.code, encoding="utf-8")
    bag = DagBag(str(file), collect_dags=False)
    bag.collect_dags(str(file))
    assert bag.import_errors == {}
    (dag,) = bag.dags.values()

    run: Any = register_dag(dag).test()  # type: ignore[arg-type]

    tasks = run.get_task_instances()
    assert {str(task.state) for task in tasks} == {"success"}
    own = [task for task in dag.tasks if type(task).__name__ == name]
    by_id = {task.task_id: task for task in tasks}
    values = [by_id[task.task_id].xcom_pull(task_ids=task.task_id) for task in own]
    assert values
    assert [RETURNS[name](value) for value in values] == [True] * len(values)
