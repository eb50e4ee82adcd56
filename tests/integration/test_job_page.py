"""The API of a job's page, answered by a whole training service; and who gets an answer."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, get_args

import httpx
import pytest
from airflow.api_fastapi.common.db.common import SessionDep
from fastapi import FastAPI
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient

from container_engines.memory.engine import Behaviour
from container_training.dashboard.airflow_side.rights import Rights
from container_training.dashboard.app import make_app
from container_training.dashboard.routes import job as job_api
from container_training.hooks.storage import StorageHook
from container_training.work.object_store import ObjectStore
from tests.integration.live_service import IMAGE, LiveService, run_service
from tests.support import web
from tests.support.dashboard import dashboard_app
from tests.support.fakes.fake_bucket import FakeBucket
from tests.support.waiting import wait_until
from training_api.job.image_ref import parse_image_ref

PROJECT = "demo-project"
FAILS = "registry.test/demo-project/fails:1"
TALKS = "registry.test/demo-project/talks:1"
LINES = 2300
DAG, OTHER_DAG = "train_digits", "train_secrets"
#: Each route of the page, and how it is asked for.
OWN_ROUTES = [
    ("GET", ""),
    ("GET", "/timeline"),
    ("GET", "/usage"),
    ("GET", "/curves"),
    ("GET", "/plots/best-so-far"),
    ("GET", "/files"),
    ("GET", "/log"),
    ("GET", "/log.txt"),
    ("POST", "/cancel"),
]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveService]:
    lines = tuple(f"line {number} of the talk" for number in range(LINES))
    folder = tmp_path_factory.mktemp("service")
    # Jobs end at once, so that none waits for room that another one has.
    with run_service(folder, Behaviour(run_seconds=0)) as service:
        service.engine.add_image(parse_image_ref(FAILS), Behaviour(run_seconds=0, exit_code=3))
        service.engine.add_image(parse_image_ref(TALKS), Behaviour(run_seconds=0, lines=lines))
        yield service


@pytest.fixture
def app(service: LiveService, monkeypatch: pytest.MonkeyPatch) -> FastAPI:
    """The app for somebody who is logged in and may read one DAG of two, and edit none."""
    url = httpx.URL(service.endpoint)
    connection = {
        "conn_type": "container_training",
        "host": url.host,
        "port": url.port,
        "extra": {"project": PROJECT, "prices": {"n1-standard-4": 0.001}, "currency": "EUR"},
    }
    monkeypatch.setenv("AIRFLOW_CONN_TRAINING_PAGES", json.dumps(connection))
    known = frozenset({DAG, OTHER_DAG})
    rights = Rights(known=known, readable=frozenset({DAG}), reads_all=False, may_edit=lambda _: False)
    app = dashboard_app(rights)
    session = get_args(SessionDep)[1].dependency
    app.dependency_overrides[session] = lambda: None
    monkeypatch.setattr(job_api, "find_origins", lambda jobs, rights, session: {})
    return app


@pytest.fixture
def client(app: FastAPI) -> Iterator[TestClient]:
    with TestClient(app, base_url="http://127.0.0.1:8080") as client:
        yield client


@pytest.fixture
def ask(client: TestClient) -> Callable[..., Any]:
    """Ask a route of a job; the answer must be a good one."""

    def ask(job_id: str, path: str = "", **query: str) -> Any:
        answer = client.get(f"/api/jobs/{job_id}{path}", params={"conn_id": "training_pages", **query})
        assert answer.status_code == 200, answer.text
        return answer.json()

    return ask


_numbers = iter(range(10_000))


@pytest.fixture
def submit(service: LiveService) -> Callable[..., str]:
    """Submit a job, of the DAG that may be read unless another is named; returns its id."""

    def submit(image: str = IMAGE, dag: str | None = DAG, **training: Any) -> str:
        job_id = f"job_{next(_numbers)}"
        config = {"scaleTier": "CUSTOM", "masterType": "n1-standard-4", "masterConfig": {"imageUri": image}}
        labels = {"airflow-dag": dag, "team": "a"} if dag else {}
        body = {"jobId": job_id, "labels": labels, "trainingInput": config | training}
        jobs = f"{service.endpoint}/v1/projects/{PROJECT}/jobs"
        web.post(jobs, json=body).raise_for_status()
        return job_id

    return submit


def state_of(service: LiveService, job_id: str) -> str:
    url = f"{service.endpoint}/v1/projects/{PROJECT}/jobs/{job_id}"
    return str(web.get(url).json()["state"])


@pytest.fixture
def wait_for(service: LiveService) -> Callable[[str, str], None]:
    """Wait until a job is in a state; virtual time goes on meanwhile."""

    def wait_for(job_id: str, state: str) -> None:
        def is_there() -> bool:
            service.engine.advance(1)
            return state_of(service, job_id) == state

        # No page has asked for this job yet, so none has an older answer of the last half second.
        wait_until(is_there, f"{job_id} is {state}")

    return wait_for


@pytest.mark.parametrize(("method", "path"), OWN_ROUTES)
@pytest.mark.parametrize("dag", [OTHER_DAG, None])
def test_a_job_that_may_not_be_seen_is_not_there(
    client: TestClient, submit: Callable[..., str], method: str, path: str, dag: str | None
) -> None:
    hidden = submit(dag=dag)
    query, headers = {"conn_id": "training_pages"}, {"X-Training-Action": "1"}

    seen = client.request(method, f"/api/jobs/{hidden}{path}", params=query, headers=headers)
    absent = client.request(method, f"/api/jobs/nothing{path}", params=query, headers=headers)

    assert seen.status_code == absent.status_code == 404
    assert re.sub(hidden, "JOB", seen.text) == re.sub("nothing", "JOB", absent.text)


def test_every_route_of_a_job_is_looked_at_here() -> None:
    prefix = "/api/jobs/{job_id}"
    routes = {
        (method, route.path.replace("{name:path}", "{job_id}").removeprefix(prefix))
        for route in make_app().routes
        if isinstance(route, APIRoute) and route.path.startswith("/api/jobs/")
        for method in route.methods
    }

    assert routes == {(method, path.replace("best-so-far", "{name}")) for method, path in OWN_ROUTES}


def test_somebody_who_may_look_may_not_cancel(
    client: TestClient, submit: Callable[..., str], ask: Callable[..., Any]
) -> None:
    job_id = submit()

    answer = client.post(
        f"/api/jobs/{job_id}/cancel",
        params={"conn_id": "training_pages"},
        headers={"X-Training-Action": "1"},
    )

    assert answer.status_code == 403
    assert not ask(job_id)["job"]["canCancel"]


def test_the_page_of_a_failed_job_says_why(
    submit: Callable[..., str], ask: Callable[..., Any], wait_for: Callable[[str, str], None]
) -> None:
    job_id = submit(FAILS, args=["--epochs", "3"])
    wait_for(job_id, "FAILED")

    page = ask(job_id)

    assert page["explanation"]["cause"] == "PROGRAM_ERROR"
    assert "the status 3" in page["explanation"]["text"]
    assert page["job"]["error"] == "The replica master 0 exited with a non-zero status of 3."
    assert page["pools"][0]["args"] == ["--epochs", "3"]
    assert page["labels"]["team"] == "a"
    assert page["request"]["trainingInput"]["masterType"] == "n1-standard-4"
    assert page["images"][0]["pinned"].startswith("registry.test/demo-project/fails@sha256:")
    assert page["job"]["cost"]["currency"] == "EUR"
    (lane,) = ask(job_id, "/timeline")["lanes"]
    assert lane["replica"] == "master-replica-0"
    assert lane["runs"][0]["exitCode"] == 3


def test_the_log_is_read_backwards_from_its_end_and_forwards_from_a_cursor(
    service: LiveService,
    submit: Callable[..., str],
    ask: Callable[..., Any],
    wait_for: Callable[[str, str], None],
) -> None:
    job_id = submit(TALKS)
    wait_for(job_id, "SUCCEEDED")

    answer = ask(job_id, "/log")
    cursor = answer["cursor"]
    pages = [answer["lines"]]
    while answer["next"]:
        answer = ask(job_id, "/log", page=answer["next"])
        pages.insert(0, answer["lines"])
    lines = [line for page in pages for line in page]
    said = [line["text"] for line in lines if line["replica"] == "master-replica-0"]
    assert said == [f"line {number} of the talk" for number in range(LINES)]
    assert len({line["key"] for line in lines}) == len(lines)

    later = ask(job_id, "/log", after=cursor)
    assert not {line["key"] for line in later["lines"]} & {line["key"] for line in lines}


def test_the_log_is_searched_by_the_service(
    submit: Callable[..., str], ask: Callable[..., Any], wait_for: Callable[[str, str], None]
) -> None:
    job_id = submit(TALKS)
    wait_for(job_id, "SUCCEEDED")

    found = ask(job_id, "/log", search="LINE 17 of")
    assert [line["text"] for line in found["lines"]] == ["line 17 of the talk"]
    assert {line["replica"] for line in ask(job_id, "/log", replica="service")["lines"]} == {"service"}
    assert ask(job_id, "/log", search="nobody says this")["lines"] == []


def test_the_log_is_downloaded_whole(
    client: TestClient, submit: Callable[..., str], wait_for: Callable[[str, str], None]
) -> None:
    job_id = submit(TALKS)
    wait_for(job_id, "SUCCEEDED")

    answer = client.get(
        f"/api/jobs/{job_id}/log.txt", params={"conn_id": "training_pages", "replica": "master-replica-0"}
    )

    assert answer.headers["Content-Disposition"] == f'attachment; filename="{job_id}_master-replica-0.log"'
    assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert [line.partition(": ")[2] for line in answer.text.splitlines()] == [
        f"line {number} of the talk" for number in range(LINES)
    ]


def test_a_study_has_trials_and_plots(
    submit: Callable[..., str],
    ask: Callable[..., Any],
    wait_for: Callable[[str, str], None],
    client: TestClient,
) -> None:
    search = {
        "goal": "MAXIMIZE",
        "hyperparameterMetricTag": "accuracy",
        "maxTrials": 2,
        "maxParallelTrials": 2,
        "params": [
            {
                "parameterName": "lr",
                "type": "DOUBLE",
                "minValue": 0.001,
                "maxValue": 1,
                "scaleType": "UNIT_LOG_SCALE",
            }
        ],
    }
    job_id = submit(hyperparameters=search)
    wait_for(job_id, "FAILED")

    assert ask(job_id)["explanation"]["cause"] == "METRIC"
    study = ask(job_id)["study"]
    assert study["metric"] == "accuracy"
    assert study["parameters"] == ["lr"]
    assert study["trials"]
    assert ask(job_id, "/plots/parallel-coordinates")["$schema"].endswith("v6.json")
    missing = client.get(f"/api/jobs/{job_id}/plots/pie", params={"conn_id": "training_pages"})
    assert missing.status_code == 404
    assert ask(job_id, "/curves")["metrics"] == []


def test_files_and_metrics_come_from_the_store(
    submit: Callable[..., str], ask: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = FakeBucket()
    bucket.objects = {"jobs/1/metrics.json": b'{"accuracy": 0.97}', "jobs/1/model/weights.bin": b"1234"}
    monkeypatch.setattr(StorageHook, "store", ObjectStore(bucket))
    job_id = submit(jobDir="gs://bucket/jobs/1/")

    found = ask(job_id, "/files")

    assert [(file["name"], file["bytes"]) for file in found["files"]] == [
        ("metrics.json", 18),
        ("model/weights.bin", 4),
    ]
    assert found["metrics"] == {"accuracy": 0.97}
    assert not found["isCut"]
    assert ask(submit(), "/files")["folder"] is None


def test_a_bucket_of_another_project_is_not_shown(
    client: TestClient, submit: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = FakeBucket()
    bucket.project = "another"
    bucket.objects = {"jobs/1/metrics.json": b'{"accuracy": 0.97}', "jobs/1/secret.txt": b"1234"}
    monkeypatch.setattr(StorageHook, "store", ObjectStore(bucket))
    job_id = submit(jobDir="gs://bucket/jobs/1/")

    answer = client.get(f"/api/jobs/{job_id}/files", params={"conn_id": "training_pages"})

    assert answer.status_code == 502
    assert "bucket 'bucket' is not one of project" in answer.json()["message"]
    assert "extra 'buckets' of connection 'training_pages'" in answer.json()["message"]
    assert "secret" not in answer.text


def test_a_store_that_refuses_is_said_in_plain_words(
    client: TestClient, submit: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = FakeBucket()
    monkeypatch.setattr(bucket, "list_buckets", lambda **_: [SimpleNamespace(name="gone")])
    monkeypatch.setattr(StorageHook, "store", ObjectStore(bucket))
    job_id = submit(jobDir="gs://gone/jobs/1")

    answer = client.get(f"/api/jobs/{job_id}/files", params={"conn_id": "training_pages"})

    assert answer.status_code == 502
    assert "gs://gone/jobs/1 cannot be read" in answer.json()["message"]
    assert "google_cloud_default" in answer.json()["advice"]
