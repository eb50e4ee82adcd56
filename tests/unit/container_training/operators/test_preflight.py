"""The preflight without an engine: templates, kinds of errors, the job directory, imports."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
import requests
from airflow.sdk.exceptions import AirflowFailException
from google.api_core.exceptions import Forbidden, ServiceUnavailable

from container_training.hooks.image import ImageHook
from container_training.operators.preflight import PreflightOperator
from container_training.work.object_store import ObjectStore
from container_training.work.preflight.folder_probe import probe_folder
from tests.support.fakes.google_project import GoogleProject, limit, serve
from tests.support.fresh_airflow import FreshAirflow
from training_api.errors import EngineUnavailable, ResultsMissing, TransportError
from training_api.job.results import ResultFile

CONTEXT: Any = {"ti": SimpleNamespace(dag_id="d", task_id="t", run_id="r", map_index=-1)}
METRIC = "aiplatform.googleapis.com/custom_model_training_cpus"
FOLDER = "gs://bucket/jobs/j/preflight/0123"
CONTENT = b"This object is deleted again at once.\n"


@pytest.fixture(autouse=True)
def connection(monkeypatch: pytest.MonkeyPatch) -> None:
    extra = {"project": "p"}
    connection = {"conn_type": "container_training", "host": "127.0.0.1", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_TRAINING_DEFAULT", json.dumps(connection))


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> mock.Mock:
    client = mock.Mock()
    monkeypatch.setattr(ImageHook, "api_client", client)
    return client


def test_every_templated_field_is_an_argument_and_is_rendered() -> None:
    task = PreflightOperator(
        task_id="t",
        image="{{ x }}/i",
        preflight_args=["{{ x }}"],
        gcp_conn_id="{{ x }}",
        docker_url="{{ x }}",
    )

    task.render_template_fields({"x": "rendered"})

    assert all(hasattr(task, field) for field in PreflightOperator.template_fields)
    assert (task.image, task.preflight_args) == ("rendered/i", ["rendered"])
    assert (task.gcp_conn_id, task.docker_url) == ("rendered", "rendered")


def test_a_job_that_breaks_a_rule_ends_the_task_before_anything_runs(engine: mock.Mock) -> None:
    with pytest.raises(AirflowFailException, match=r"InvalidJobSpec: job_dir \(trainingInput\.jobDir\)"):
        PreflightOperator(task_id="t", image="h:1/p/i", job_dir="/tmp/results").execute(CONTEXT)

    assert engine.mock_calls == []


def test_an_engine_that_does_not_answer_is_left_to_airflows_retries(engine: mock.Mock) -> None:
    engine.info.side_effect = requests.ConnectionError("refused")

    with pytest.raises(EngineUnavailable, match="did not answer"):
        PreflightOperator(task_id="t", image="h:1/p/i").execute(CONTEXT)


def test_what_vertex_ai_lacks_fails_the_task_and_the_whole_job_counts(
    engine: mock.Mock, monkeypatch: pytest.MonkeyPatch
) -> None:
    google = GoogleProject()
    google.has_machines("machineTypes", "n1-standard-4", "us-central1-a")
    google.has_quota("preemptible_cpus", limit(("", 23)))
    pushed = mock.Mock()
    context: Any = {"ti": SimpleNamespace(**vars(CONTEXT["ti"]), xcom_push=pushed)}
    monkeypatch.setattr(PreflightOperator, "_run", lambda *_: [])
    task = PreflightOperator(
        task_id="t",
        image="h:1/p/i",
        master_type="n1-standard-4",
        worker_type="n1-standard-4",
        worker_count=5,
        check_access="false",
        vertex_options={"strategy": "SPOT"},
    )

    with serve(google) as url:
        connection = {
            "conn_type": "vertex_training",
            "host": url,
            "password": "t",
            "extra": {"project": "my-project"},
        }
        monkeypatch.setenv("AIRFLOW_CONN_TRAINING_DEFAULT", json.dumps(connection))
        with pytest.raises(
            AirflowFailException, match=f"uses 24 of {METRIC.replace('_cpus', '_preemptible_cpus')}"
        ):
            task.execute(context)

    rows = pushed.call_args.kwargs["value"]["rows"]
    assert {(row["check"], row["result"]) for row in rows} == {
        ("job directory", "not checked"),
        ("image access", "not checked"),
        ("bucket", "not checked"),
        ("machines", "ok"),
        ("quota", "failed"),
    }


def make_store(**changes: Any) -> mock.Mock:
    """Return a store in which all works, but for ``changes`` to its methods."""
    written = [
        ResultFile(uri=f"{FOLDER}/{name}", size_bytes=1, crc32c="")
        for name in ("model", "written-by-preflight")
    ]
    store = mock.create_autospec(ObjectStore, instance=True)
    store.configure_mock(**{"read.return_value": CONTENT, "delete_folder.return_value": written, **changes})
    return store  # type: ignore[no-any-return]


def test_a_folder_that_can_be_written_is_emptied_and_what_was_in_it_is_named() -> None:
    probe = probe_folder(make_store(), FOLDER)

    assert probe.problem == ""
    assert [file.uri for file in probe.files] == [f"{FOLDER}/model"]


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        (
            {"write_if_changed.side_effect": ResultsMissing("bucket 'b' does not exist")},
            "bucket 'b' does not exist",
        ),
        (
            {"write_if_changed.side_effect": Forbidden("no storage.objects.create")},
            "Forbidden: 403 no storage.objects.create",
        ),
        ({"delete_folder.side_effect": Forbidden("no storage.objects.delete")}, "no storage.objects.delete"),
        ({"read.return_value": b"another"}, "what is read back is not what was written"),
        ({"read.return_value": None}, "what is read back is not what was written"),
    ],
)
def test_a_folder_that_cannot_be_used_says_why(changes: dict[str, Any], problem: str) -> None:
    assert problem in probe_folder(make_store(**changes), FOLDER).problem


@pytest.mark.parametrize("error", [ServiceUnavailable("later"), requests.ConnectionError("refused")])
def test_a_store_that_does_not_answer_is_left_to_airflows_retries(error: Exception) -> None:
    with pytest.raises(TransportError, match="the object store did not answer"):
        probe_folder(make_store(**{"write_if_changed.side_effect": error}), FOLDER)


def test_a_dag_with_a_preflight_imports_neither_docker_nor_google(fresh_airflow: FreshAirflow) -> None:
    code = """
import json, sys, container_training.operators.preflight
print(json.dumps(sorted({"docker.api", "google.cloud.storage"} & set(sys.modules))))
"""

    assert fresh_airflow.run(code) == []
