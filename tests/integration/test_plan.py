"""
``plan`` against a live service.

Jobs whose image exists, jobs that tune or run packages, and what cannot be planned.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import docker
import httpx
import pytest

from container_training.cli.parser import main
from container_training.work.plan.plan import PlanInputs
from container_training.work.plan.planning import PlanSources, make_plan
from container_training.work.plan.run import apply_plan
from tests.integration.live_service import LiveService
from training_api.clients.iam import IamEndpoints, IamPoliciesClient
from training_api.clients.training import TrainingClient
from training_api.dialects.ml_v1.cost import PriceList
from training_api.dialects.ml_v1.resources import Job
from training_api.errors import TransportError

CONFIG = """
jobId: census_7
labels: {team: vision}
trainingInput:
  region: us-central1
  scaleTier: CUSTOM
  masterType: n1-standard-4
  workerType: n1-standard-8
  workerCount: 2
  workerConfig: {acceleratorConfig: {type: NVIDIA_TESLA_T4, count: 1}}
  hyperparameters:
    goal: MAXIMIZE
    hyperparameterMetricTag: accuracy
    maxTrials: 6
    maxParallelTrials: 3
    params: [{parameterName: lr, type: DOUBLE, minValue: 0.1, maxValue: 1}]
"""
#: Nobody listens there: a plan says so, and goes on.
IMAGE = "127.0.0.1:9/demo-project/trainer:1"


@dataclass(frozen=True)
class Done:
    returncode: int
    stdout: str
    stderr: str


Plan = Callable[..., Done]


@pytest.fixture
def plan(
    service: LiveService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Plan:
    """Run ``plan`` on a job file, with the environment of ``make env`` and without a connection."""
    monkeypatch.setenv("AIRFLOW_CONN_TRAINING_DEFAULT", "")  # so that what the command sets is taken back
    monkeypatch.delenv("AIRFLOW_CONN_TRAINING_DEFAULT")
    monkeypatch.setenv("TRAINING_ENDPOINT", service.endpoint)
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "demo-project")
    monkeypatch.setenv("JOB_BUCKET", "gs://demo-jobs/jobs")

    def plan(*arguments: str, config: str = CONFIG) -> Done:
        file = tmp_path / "config.yaml"
        file.write_text(config)
        status = main(["plan", str(file), *arguments])
        return Done(status, *capsys.readouterr())

    return plan


def test_a_job_of_several_roles_that_tunes_is_planned_in_full(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = json.loads(plan("--image", IMAGE, "--json").stdout)
    connection = json.loads(_connection())
    connection["extra"] |= {
        "prices": {"n1-standard-4": 0.01, "n1-standard-8": 0.02, "NVIDIA_TESLA_T4": 0.005},
        "currency": "EUR",
    }
    monkeypatch.setenv("AIRFLOW_CONN_TRAINING_DEFAULT", json.dumps(connection))
    second = json.loads(plan("--image", IMAGE, "--json").stdout)

    assert first["request"]["jobId"] == "census_7"
    assert first["request"]["labels"] == {"team": "vision"}
    assert first["request"]["trainingInput"]["jobDir"] == "gs://demo-jobs/jobs/census_7"
    assert [
        (each["role"], each["count"], each["machine_type"], each["gpus"]) for each in first["machines"]
    ] == [
        ("master", 1, "n1-standard-4", 0),
        ("worker", 2, "n1-standard-8", 1),
    ]
    assert first["images"][0]["roles"] == ["master", "worker"]
    assert "cannot look whether the registry has it" in first["images"][0]["note"]
    assert first["cost"]["per_hour"] is None
    assert "has no price for 'n1-standard-4'" in first["cost"]["reason"]
    # 3 trials side by side, each a master and two workers with an accelerator.
    assert second["cost"] == {
        "per_hour": pytest.approx(3600 * 3 * (0.01 + 2 * (0.02 + 0.005))),
        "currency": "EUR",
        "parallel_trials": 3,
        "reason": "",
    }


def test_overrides_are_laid_over_the_file(plan: Plan) -> None:
    options = ("--labels", "a=b", "--region", "europe-west1", "--job-id", "mine", "--set")
    extra = '{"trainingInput": {"workerCount": 1}}'

    done = plan("--image", IMAGE, *options, extra, "--json", "--", "--lr=1", "--", "--region")

    request = json.loads(done.stdout)["request"]
    assert (request["jobId"], request["labels"]) == ("mine", {"a": "b"})
    training = request["trainingInput"]
    assert (training["region"], training["workerCount"]) == ("europe-west1", "1")
    assert training["args"] == ["--lr=1", "--", "--region"]


def test_a_job_without_an_id_gets_one_that_is_in_its_folder(plan: Plan) -> None:
    done = plan("--image", IMAGE, "--json", config="trainingInput: {region: us-central1}")

    request = json.loads(done.stdout)["request"]
    assert request["jobId"].startswith("job_2")
    assert request["trainingInput"]["jobDir"].endswith(f"/{request['jobId']}")


def test_a_job_of_packages_needs_no_image_and_no_grant(plan: Plan) -> None:
    config = (
        "trainingInput: {region: us-central1, packageUris: ['gs://code/t.tar.gz'], pythonModule: trainer.task, "
        "runtimeVersion: '2.11', pythonVersion: '3.7'}"
    )

    done = plan(config=config)

    assert done.returncode == 0, done.stderr
    assert "none: the job runs packages on an image of the service's own" in done.stdout
    assert "nothing to grant" in done.stdout


def test_a_taken_job_id_is_said_before_anybody_tries(plan: Plan, client: TrainingClient) -> None:
    client.create_job(
        Job.model_validate(
            {
                "jobId": "census_7",
                "trainingInput": {"region": "us-central1", "masterConfig": {"imageUri": IMAGE}},
            }
        )
    )

    done = plan("--image", IMAGE)

    assert done.returncode == 0
    assert "not possible: job id 'census_7' is taken by a job that is" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        ((), 1, "trainingInput.masterConfig.imageUri: is required"),
        (("--image", IMAGE, "--scale-tier", "HUGE"), 1, "trainingInput.scaleTier"),
        (("--image", IMAGE, "--labels", "a"), 2, "--labels must be NAME=VALUE, got 'a'"),
        (("--image", IMAGE, "--context", "/nowhere"), 1, "must have no tag and no digest"),
        (("--context", "."), 1, "an image that is built needs a name to be pushed as"),
        (
            ("--image", "127.0.0.1:9/demo-project/x", "--context", "/nowhere"),
            1,
            "context_dir must be a folder",
        ),
    ],
)
def test_what_cannot_be_planned_is_said(
    arguments: tuple[str, ...], status: int, message: str, plan: Plan, tmp_path: Path
) -> None:
    if (arguments[0:2] == ("--image", IMAGE) and "--context" in arguments) or arguments[-1:] == (".",):
        (tmp_path / "Dockerfile").write_text("FROM scratch\n")
        arguments = (*arguments[:-1], str(tmp_path))

    done = plan(*arguments)

    assert (done.returncode, done.stdout) == (status, "")
    assert message in done.stderr


@pytest.mark.docker
def test_a_base_image_that_the_engine_lacks_is_to_be_pulled_by_hand(plan: Plan, tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("FROM registry.test/no/such-image:1\n")

    done = plan("--image", "127.0.0.1:9/demo-project/x", "--context", str(tmp_path))

    assert done.returncode == 1
    assert "a plan pulls nothing; run: docker pull registry.test/no/such-image:1" in done.stderr


def test_without_a_connection_the_way_out_is_named(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRAINING_ENDPOINT")

    done = plan("--image", IMAGE)

    assert (
        done.returncode,
        "set AIRFLOW_CONN_TRAINING_DEFAULT, or TRAINING_ENDPOINT and" in done.stderr,
    ) == (2, True)


class LosesTheAnswer(httpx.HTTPTransport):
    """Hands requests on, and loses the answer to the first one that creates a job."""

    def __init__(self, *, before: bool) -> None:
        super().__init__()
        self._before = before
        self.creates = 0

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if request.method == "POST" and request.url.path.endswith("/jobs"):
            self.creates += 1
            if not self._before:
                super().handle_request(request).read()
            raise httpx.ReadError("the line went dead", request=request)
        return super().handle_request(request)


@pytest.fixture
def sources(service: LiveService) -> Iterator[Callable[[httpx.BaseTransport], PlanSources]]:
    endpoints = IamEndpoints(
        resource_manager=service.endpoint, artifact_registry=service.endpoint, storage=service.endpoint
    )

    opened = ExitStack()

    def sources(transport: httpx.BaseTransport) -> PlanSources:
        def no_engine() -> docker.APIClient:
            raise AssertionError("nothing is built")

        return PlanSources(
            training=opened.enter_context(
                TrainingClient(service.endpoint, "demo-project", transport=transport)
            ),
            policies=opened.enter_context(IamPoliciesClient(endpoints)),
            engine=no_engine,
            find_login=lambda _: {},
            prices=PriceList(source="none", per_second={}),
            endpoint=service.endpoint,
            project="demo-project",
        )

    with opened:
        yield sources


@pytest.mark.parametrize("before", [False, True])
def test_a_lost_answer_is_looked_up_and_never_submitted_twice(
    before: bool, sources: Callable[[httpx.BaseTransport], PlanSources], client: TrainingClient
) -> None:
    transport = LosesTheAnswer(before=before)
    now = datetime(2026, 11, 20, tzinfo=UTC)
    where = sources(transport)
    made = make_plan(PlanInputs(fields={"image": IMAGE}, job_id="census_8"), where, now)

    lines: list[str] = []
    if before:
        with pytest.raises(TransportError):
            apply_plan(made, where, now, lines.append)
    else:
        assert apply_plan(made, where, now, lines.append).job_id == "census_8"

    assert transport.creates == 1
    assert len(client.list_jobs().jobs or []) == (0 if before else 1)


def _connection() -> str:
    return os.environ["AIRFLOW_CONN_TRAINING_DEFAULT"]
