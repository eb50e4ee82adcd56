"""Wrong calls: each error is final, and names argument, value, rule and way out."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from container_training.operators.bill_of_materials import ImageBillOfMaterialsOperator
from container_training.operators.data import SnapshotDataOperator
from container_training.operators.image import PushImageOperator, TestImageOperator
from container_training.operators.models import (
    CleanUpModelsOperator,
    PromoteModelOperator,
    RegisterModelOperator,
    RollbackModelOperator,
)
from container_training.operators.orphans import CancelOrphanJobsOperator
from container_training.operators.package import PackageTrainerOperator
from container_training.operators.plan import PlanTrainingOperator
from container_training.operators.plots import PlotTrialsOperator
from container_training.operators.preflight import PreflightOperator
from container_training.operators.promotion import PrepareEvaluationsOperator
from container_training.operators.registry_iam import RevokeRegistryAccessOperator
from container_training.operators.results import CollectTrainingResultsOperator
from container_training.pipeline import RoleImage
from container_training.sensors.training import TrainingJobSensor
from tests.support.fakes.docker_api import run_fake_docker
from tests.support.fakes.fake_bucket import FakeBucket
from tests.support.fakes.fake_service import FakeService
from tests.support.wrong_calls import FOLDER, IMAGE, OTHER, VERSION, Kit
from training_api.errors import InvalidArgument

Call = Callable[[Kit], object]
MLFLOW = "AIRFLOW_CONN_MODEL_REGISTRY_DEFAULT"

#: Functions of a DAG file and constructors: the error is one of the DAG's import.
WHILE_READ: dict[str, Call] = {
    "role": lambda kit: kit.pipeline(images={"cheif": RoleImage(dockerfile="D")}),
    "role_image": lambda kit: kit.pipeline(images={"worker": {"dockerfile": "D"}}),
    "pipeline_field": lambda kit: kit.pipeline(worker_cuont=2),
    "step_field": lambda kit: kit.step(machine="n1"),
    "compare_field": lambda kit: kit.compare(label={"a": "b"}),
    "until": lambda _: TrainingJobSensor(task_id="wait", job_id="digits_1", until="done"),
}
#: Tasks: the error ends the task without a retry.
WHILE_RUN: dict[str, Call] = {
    "config_file": lambda kit: kit.submit(config_file="/nowhere/job.yaml"),
    "yaml": lambda kit: kit.submit_file("jobId: [a\n"),
    "json": lambda kit: kit.submit(job='{"jobId": '),
    "job_field": lambda kit: kit.submit(job={"trainingInput": {"masterTyp": "n1"}}),
    "worker_count": lambda kit: kit.submit(worker_type="n1-standard-4", worker_count="two"),
    "image": lambda kit: kit.submit(image="My Image"),
    "args": lambda kit: kit.submit(args='--name "a'),
    "scale_tier": lambda kit: kit.submit(scale_tier="HUGE"),
    "labels": lambda kit: kit.submit(labels=["a"]),
    "label": lambda kit: kit.submit(labels={"Team": "a"}),
    "job_dir": lambda kit: kit.submit(job_dir="/tmp/out"),
    "data_uris": lambda kit: kit.submit(reuse_results=True, data_uris=["s3://b/d"]),
    "goal": lambda kit: kit.submit(hyperparameters={"goal": "BEST", "params": []}),
    "max_cost": lambda kit: kit.submit(max_cost="cheap"),
    "detached": lambda kit: kit.submit(detached="maybe"),
    "priority": lambda kit: kit.submit(priority=5000),
    "training_conn_id": lambda kit: kit.submit(training_conn_id="nowhere"),
    "no_job": lambda kit: kit.run(TrainingJobSensor, job_id="None"),
    "unknown_job": lambda kit: kit.run(TrainingJobSensor, job_id="no_such"),
    "max_files": lambda kit: kit.after_job(CollectTrainingResultsOperator, max_files="many"),
    "metrics": lambda kit: kit.after_job(CollectTrainingResultsOperator, "metrics.json", b"<html>"),
    "plot": lambda kit: kit.run(PlotTrialsOperator, job_id="no_such"),
    "context_dir": lambda kit: kit.build(context_dir="/nowhere/at/all"),
    "dockerfile": lambda kit: kit.build(dockerfile="Dockerfle"),
    "build_args": lambda kit: kit.build(build_args=["A=1"]),
    "builder": lambda kit: kit.build(builder="kaniko"),
    "secrets": lambda kit: kit.build(secrets={"token": "variable:absent"}),
    "timeout": lambda kit: kit.run(TestImageOperator, image=IMAGE, timeout="soon"),
    "push": lambda kit: kit.run(PushImageOperator, image="digits"),
    "grant": lambda kit: kit.run(RevokeRegistryAccessOperator, grant=OTHER),
    "folder": lambda kit: kit.run(ImageBillOfMaterialsOperator, image=IMAGE),
    "preflight_args": lambda kit: kit.run(PreflightOperator, image=IMAGE, preflight_args='"'),
    "staging": lambda kit: kit.run(PackageTrainerOperator, package_path="t", staging="/tmp"),
    "package_path": lambda kit: kit.run(PackageTrainerOperator, package_path="/no", staging="gs://b/s"),
    "plan": lambda kit: kit.run(PlanTrainingOperator, image="My Image"),
    "airflow_conn_id": lambda kit: kit.run(CancelOrphanJobsOperator, airflow_conn_id="none"),
    "result": lambda kit: kit.run(RegisterModelOperator, model_folder=FOLDER, result=OTHER),
    "version_id": lambda kit: kit.register(version_id="../x"),
    "decision": lambda kit: kit.run(
        PromoteModelOperator, model_folder=FOLDER, version=VERSION, decision=OTHER
    ),
    "model_folder": lambda kit: kit.run(RollbackModelOperator, model_folder="/models"),
    "keep": lambda kit: kit.run(CleanUpModelsOperator, model_folder=FOLDER, keep=-1),
    "evaluation_args": lambda kit: kit.run(
        PrepareEvaluationsOperator, model_folder=FOLDER, challenger=VERSION, args=5
    ),
    "alpha": lambda kit: kit.decide(alpha=5),
    "job_ids": lambda kit: kit.decide(job_ids="digits_1"),
    "evaluation": lambda kit: kit.decide_on(b"<html>"),
    "sources": lambda kit: kit.run(SnapshotDataOperator, model_folder=FOLDER, sources="s3://b/d/"),
    "rule": lambda kit: kit.validate(rules={"colums": ["a"], "label": "a"}),
    "rules": lambda kit: kit.validate(rules="columns"),
    "host": lambda kit: kit.submit_over(host="", extra={"project": "p"}),
    "project": lambda kit: kit.submit_over(extra={}),
    "prices": lambda kit: kit.submit_over(extra={"project": "p", "prices": "{"}, max_cost=1),
    "verify": lambda kit: kit.submit_over(extra={"project": "p", "verify": "/nowhere.pem"}),
    "mlflow": lambda kit: (
        kit.setenv(MLFLOW, json.dumps({"conn_type": "mlflow_registry"})),
        kit.run(RollbackModelOperator, model_folder=FOLDER),
    ),
}
_OR_THE_FILE = "correct the argument, or what job or the job file says"
_NOT_CLOSED = "close the quote, or give a list"
_OUTPUT = "pass the .output of that task"
_EDIT = "edit it under Admin > Connections"
_RELATIVE = "a relative path starts at the folder of the DAG's file"

#: What the message has: argument, value, rule, way out.
EXPECTED: dict[str, tuple[str, str, str, str]] = {
    "role": ("images", "cheif", "must name roles of worker", "the master's image is that of context_dir"),
    "role_image": ("images['worker']", "{'dockerfile': 'D'}", "must be a RoleImage", "write RoleImage("),
    "pipeline_field": ("worker_cuont", "=2", "has no argument", "did you mean worker_count?"),
    "step_field": ("machine", "='n1'", "has no argument", "it has args, command, config_file"),
    "compare_field": ("label", "={'a': 'b'}", "has no argument", "did you mean labels?"),
    "until": ("until", "'done'", "one of left_queued, left_preparing, finished", "leave it out to wait for"),
    "config_file": ("config_file", "/nowhere/job.yaml", "no such file", _OR_THE_FILE),
    "yaml": ("config_file", "job.yaml:2:1", "expected ',' or ']'", _OR_THE_FILE),
    "json": ("job: ", """'{"jobId": '""", "must be a JSON object", _OR_THE_FILE),
    "job_field": ("trainingInput.masterTyp", "'n1'", "unknown field", _OR_THE_FILE),
    "worker_count": ("worker_count", "'two'", "must be a valid integer", _OR_THE_FILE),
    "image": ("image (", "'My Image'", "has no registry host", "expected HOST/PROJECT/NAME:TAG"),
    "args": ("args", """'--name "a'""", "words as a shell reads them", _NOT_CLOSED),
    "scale_tier": ("scale_tier", "'HUGE'", "must be 'BASIC', 'STANDARD_1'", _OR_THE_FILE),
    "labels": ("labels", "['a']", "must be a mapping", "write {'NAME': 'VALUE'}"),
    "label": ("labels", "'Team'", "must start with a-z", _OR_THE_FILE),
    "job_dir": ("job_dir", "'/tmp/out'", "must be a Cloud Storage path gs://BUCKET/FOLDER", _OR_THE_FILE),
    "data_uris": ("data_uris", "'s3://b/d'", "expected gs://BUCKET/NAME", "copy the data there"),
    "goal": ("hyperparameters", "'BEST'", "'MAXIMIZE' or 'MINIMIZE'", _OR_THE_FILE),
    "max_cost": ("max_cost", "'cheap'", "must be a number >= 0", "write it in digits"),
    "detached": ("detached", "'maybe'", "must be true or false", "write True or False"),
    "priority": ("priority", "5000", "must be from 0 to 1000", _OR_THE_FILE),
    "training_conn_id": ("training_conn_id", "'nowhere'", "the id of a connection", "add it under Admin"),
    "no_job": ("job_id", "'None'", "must be the id of a job", "clear that task with what is downstream"),
    "unknown_job": ("job_id", "'no_such'", "must be the id of a job of project", "look at the job's id"),
    "max_files": ("max_files", "'many'", "must be a whole number", "write it in digits"),
    "metrics": ("metrics.json", "got b'<html>'", "is not JSON that can be read", "must write a JSON object"),
    "plot": ("job_id", "'no_such'", "must be the id of a job of project", "look at the job's id"),
    "context_dir": ("context_dir", "'/nowhere/at/all'", "must be a folder", _RELATIVE),
    "dockerfile": ("dockerfile", "'Dockerfle'", "must be a file in the build context", "name another one"),
    "build_args": ("build_args", "['A=1']", "must be a mapping", "write {'NAME': 'VALUE'}"),
    "builder": ("builder", "'kaniko'", "one of auto, classic, buildkit", "'auto' fits most images"),
    "secrets": ("secrets.token", "'variable:absent'", "is no variable", "add it under Admin > Variables"),
    "timeout": ("timeout", "'soon'", "must be a number of seconds", "write 90 or timedelta(minutes=1.5)"),
    "push": ("image", "'digits'", "has no registry host", "or name the image as HOST/PROJECT/NAME"),
    "grant": ("grant", "'other_1'", "the result of GrantRegistryAccessOperator", _OUTPUT),
    "folder": ("folder", "None", "one of job_id and folder must be set", "set job_id to the job's id"),
    "preflight_args": ("preflight_args", "'\"'", "words as a shell reads them", _NOT_CLOSED),
    "staging": ("staging", "'/tmp'", "must be a Cloud Storage folder", "below the connection's job_bucket"),
    "package_path": ("package_path", "'/no'", "must be a folder", _RELATIVE),
    "plan": ("image (", "'My Image'", "has no registry host", "expected HOST/PROJECT/NAME:TAG"),
    "airflow_conn_id": ("airflow_conn_id", "'none'", "the id of a connection", "add it under Admin"),
    "result": ("result", "'other_1'", "the output of CollectTrainingResultsOperator", _OUTPUT),
    "version_id": ("version_id", "'../x'", "must be letters, digits", "correct the argument"),
    "decision": ("decision", "'other_1'", "the output of DecidePromotionOperator", _OUTPUT),
    "model_folder": ("model_folder", "'/models'", "gs://BUCKET/NAME", "give its address"),
    "keep": ("keep", "-1", "must be >= 0", "to keep nothing old, write 0"),
    "evaluation_args": ("args", "got 5", "must be a list of words", 'write ["--data"'),
    "alpha": ("alpha", "got 5", "must be less than 1", "correct the argument"),
    "job_ids": ("job_ids", "'digits_1'", "must be a list of ids of jobs", "pass the .output of the mapped"),
    "evaluation": ("evaluation.json", "<html>", "must be an evaluation", "have the command write it there"),
    "sources": ("sources", "'s3://b/d/'", "gs://BUCKET/NAME", "give its address"),
    "rule": ("colums", "['a']", "rules has no argument", "did you mean columns?"),
    "rules": ("rules", "'columns'", "must be a mapping", "write {'NAME': 'VALUE'}"),
    "host": ("'training_default'", "has no host", "the host of the training service", _EDIT),
    "project": ("extra.project", "has no", "the project id, under which jobs are submitted", _EDIT),
    "prices": ("extra.prices", "'{'", "must be JSON like", "correct the setting"),
    "verify": ("extra.verify", "'/nowhere.pem'", "must be the path of a file", _EDIT),
    "mlflow": ("'model_registry_default'", "has no host", "the host of the MLflow server", _EDIT),
}
#: Text of the libraries below us, which says nothing to the author of a DAG.
RAW = (
    "validation error",
    "errors.pydantic.dev",
    "Input should be",
    "Value error",
    "Field required",
    "KeyError",
)


@pytest.fixture
def kit(
    context: Any, service: FakeService, bucket: FakeBucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Kit]:
    (tmp_path / "Dockerfile").write_text("FROM scratch\n")
    with run_fake_docker() as engine:
        monkeypatch.setenv("DOCKER_HOST", engine.url)
        yield Kit(context, service, bucket, tmp_path, monkeypatch.setenv)


@pytest.mark.parametrize("name", EXPECTED)
def test_wrong_call_names_argument_value_rule_and_way_out_and_is_final(kit: Kit, name: str) -> None:
    final, call = (
        (InvalidArgument, WHILE_READ[name]) if name in WHILE_READ else (AirflowFailException, WHILE_RUN[name])
    )

    with pytest.raises(final) as refused:
        call(kit)

    message = str(refused.value)
    parts = zip(("argument", "value", "rule", "way out"), EXPECTED[name], strict=True)
    assert {part: text for part, text in parts if text not in message} == {}, message
    assert [raw for raw in RAW if raw in message] == []
    assert "\n" not in message
    assert kit.service.count("POST", "/jobs") == 0


def test_there_are_at_least_forty() -> None:
    assert EXPECTED.keys() == WHILE_READ.keys() | WHILE_RUN.keys()
    assert len(EXPECTED) >= 40
