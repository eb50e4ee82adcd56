"""The image operators without an engine: templates, kinds of errors, killing, imports."""

from __future__ import annotations

import json
import threading
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
from airflow.sdk.exceptions import AirflowFailException

from container_training.hooks.image import ImageHook
from container_training.operators.image import (
    BuildAndPushImageOperator,
    BuildImageOperator,
    PushImageOperator,
    TestImageOperator,
)
from container_training.runtime import supervision
from container_training.work.images import image_builder, puller, pusher, remote_build
from container_training.work.images.image_builder import BuiltImage
from container_training.work.images.pusher import PushedImage
from container_training.work.preflight import container_run
from tests.support.fresh_airflow import FreshAirflow
from tests.support.speed import scaled
from training_api import errors
from training_api.job.image_ref import ImageRef, parse_image_ref

CONTEXT: Any = {"ti": SimpleNamespace(dag_id="d", task_id="t", run_id="r", map_index=-1)}
OPERATORS: list[tuple[type[Any], dict[str, Any]]] = [
    (BuildImageOperator, {"context_dir": "{{ x }}/c", "image": "{{ x }}/i"}),
    (TestImageOperator, {"image": "{{ x }}/i"}),
    (PushImageOperator, {"image": "{{ x }}/i"}),
    (BuildAndPushImageOperator, {"context_dir": "{{ x }}/c", "image": "{{ x }}/i"}),
]


@pytest.mark.parametrize(("operator", "arguments"), OPERATORS)
def test_every_templated_field_is_an_argument_and_is_rendered(
    operator: type[Any], arguments: dict[str, Any]
) -> None:
    task = operator(task_id="t", docker_url="{{ x }}.sock", **arguments)

    task.render_template_fields({"x": "rendered"})

    assert all(hasattr(task, field) for field in operator.template_fields)
    assert task.image == "rendered/i"
    assert task.docker_url == "rendered.sock"


def test_arguments_and_environment_of_a_test_are_rendered_within() -> None:
    task = TestImageOperator(
        task_id="t", image="i", args=["--epochs", "{{ n }}"], environment={"A": "{{ n }}"}, timeout="{{ n }}"
    )

    task.render_template_fields({"n": 3})

    assert task.args == ["--epochs", "3"]
    assert task.environment == {"A": "3"}
    assert task.timeout == "3"


@pytest.fixture
def build_context(tmp_path: Path) -> str:
    (tmp_path / "Dockerfile").write_text("FROM scratch\n")
    return str(tmp_path)


@pytest.fixture(autouse=True)
def engine(monkeypatch: pytest.MonkeyPatch) -> mock.Mock:
    client = mock.Mock()
    monkeypatch.setattr(ImageHook, "api_client", client)
    return client


DIGEST = "sha256:" + "a" * 64


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was done with the image, in order; every step goes well."""
    done: list[str] = []

    def build(*_: Any, **__: Any) -> BuiltImage:
        done.append("build")
        return BuiltImage(ref=parse_image_ref("h:1/i:ctx-1"), image_id="sha256:1", is_reused=False)

    def run(api_client: Any, image: str, args: Any, **_: Any) -> float:
        done.append(f"run {image} {' '.join(args)}".strip())
        return 1.0

    def push(api_client: Any, ref: ImageRef, **_: Any) -> PushedImage:
        done.append(f"push {ref}")
        return PushedImage(ref=ref.at(DIGEST), is_reused=False)

    monkeypatch.setattr(image_builder, "build_image", build)
    monkeypatch.setattr(container_run, "run_container", run)
    monkeypatch.setattr(pusher, "push_image", push)
    return done


def test_a_build_hands_over_what_any_host_can_pull(build_context: str, steps: list[str]) -> None:
    task = BuildImageOperator(task_id="t", context_dir=build_context, image="h:1/i")

    assert task.execute(CONTEXT) == f"h:1/i:ctx-1@{DIGEST}"
    assert steps == ["build", "push h:1/i:ctx-1"]


def test_an_image_without_a_registry_stays_on_its_engine(
    build_context: str, steps: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    built = BuiltImage(ref=parse_image_ref("localhost/i:ctx-1"), image_id="sha256:1", is_reused=False)
    monkeypatch.setattr(image_builder, "build_image", mock.Mock(return_value=built))

    task = BuildImageOperator(task_id="t", context_dir=build_context, image="localhost/i")

    assert task.execute(CONTEXT) == "localhost/i:ctx-1"
    assert steps == []


def test_in_one_task_the_image_is_pushed_after_its_test(
    build_context: str, steps: list[str], airflow_db: Path
) -> None:
    task = BuildAndPushImageOperator(
        task_id="t", context_dir=build_context, image="h:1/i", test_args="--epochs 1"
    )

    assert task.execute(CONTEXT) == f"h:1/i@{DIGEST}"
    assert steps == ["build", "run h:1/i:ctx-1 --epochs 1", "push h:1/i:ctx-1"]


@pytest.fixture
def remote(monkeypatch: pytest.MonkeyPatch, steps: list[str], airflow_db: Path) -> None:
    """A connection that names a remote builder."""

    def build(context: Any, name: str, builder: Any, **_: Any) -> BuiltImage:
        steps.append(f"build {name} on {builder}")
        return BuiltImage(ref=parse_image_ref(f"{name}:ctx-1@{DIGEST}"), image_id="sha256:1", is_reused=False)

    monkeypatch.setattr(remote_build, "build_remotely", build)
    monkeypatch.setattr(puller, "ensure_image", lambda client, name, *_: steps.append(f"pull {name}"))
    connection = {"conn_type": "docker", "extra": {"builder_name": "shared"}}
    monkeypatch.setenv("AIRFLOW_CONN_DOCKER_DEFAULT", json.dumps(connection))


@pytest.mark.parametrize("builder", ["auto", "buildx"])
def test_what_a_remote_builder_pushed_is_not_pushed_again(
    build_context: str, steps: list[str], remote: None, builder: str
) -> None:
    task = BuildImageOperator(task_id="t", context_dir=build_context, image="h:1/i", builder=builder)

    assert task.execute(CONTEXT) == f"h:1/i:ctx-1@{DIGEST}"
    assert steps == ["build h:1/i on shared"]


def test_a_builder_of_the_engine_is_taken_where_it_was_asked_for(
    build_context: str, steps: list[str], remote: None
) -> None:
    BuildImageOperator(task_id="t", context_dir=build_context, image="h:1/i", builder="classic").execute(
        CONTEXT
    )

    assert steps == ["build", "push h:1/i:ctx-1"]


def test_a_builder_of_the_engine_needs_no_remote_one_that_is_right(
    build_context: str, steps: list[str], remote: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = {"conn_type": "docker", "extra": {"builder_url": "http://builder.example"}}
    monkeypatch.setenv("AIRFLOW_CONN_DOCKER_DEFAULT", json.dumps(connection))

    BuildImageOperator(task_id="t", context_dir=build_context, image="h:1/i", builder="buildkit").execute(
        CONTEXT
    )

    assert steps == ["build", "push h:1/i:ctx-1"]
    with pytest.raises(AirflowFailException, match=r"extra\.builder_url: must be tcp://HOST:PORT"):
        BuildImageOperator(task_id="t", context_dir=build_context, image="h:1/i").execute(CONTEXT)


def test_in_one_task_the_engine_pulls_for_the_test_what_a_remote_builder_pushed(
    build_context: str, steps: list[str], remote: None
) -> None:
    task = BuildAndPushImageOperator(
        task_id="t", context_dir=build_context, image="h:1/i", test_args="--epochs 1"
    )

    image = f"h:1/i:ctx-1@{DIGEST}"
    assert task.execute(CONTEXT) == f"h:1/i@{DIGEST}"
    assert steps == ["build h:1/i on shared", f"pull {image}", f"run {image} --epochs 1"]


def test_in_one_task_a_test_is_not_run_unasked(build_context: str, steps: list[str]) -> None:
    BuildAndPushImageOperator(task_id="t", context_dir=build_context, image="h:1/i").execute(CONTEXT)

    assert steps == ["build", "push h:1/i:ctx-1"]


def test_in_one_task_an_image_that_fails_its_test_is_not_pushed(
    build_context: str, steps: list[str], monkeypatch: pytest.MonkeyPatch, airflow_db: Path
) -> None:
    failing = mock.Mock(side_effect=errors.ImageTestFailed("exited with 3"))
    monkeypatch.setattr(container_run, "run_container", failing)
    task = BuildAndPushImageOperator(task_id="t", context_dir=build_context, image="h:1/i", test_args=[])

    with pytest.raises(AirflowFailException, match="ImageTestFailed: exited with 3"):
        task.execute(CONTEXT)

    assert steps == ["build"]


def test_in_one_task_an_image_without_a_registry_is_refused_before_it_is_built(
    build_context: str, steps: list[str]
) -> None:
    task = BuildAndPushImageOperator(task_id="t", context_dir=build_context, image="localhost/i")

    with pytest.raises(AirflowFailException, match=r"InvalidImageRef: .*must be at a registry"):
        task.execute(CONTEXT)

    assert steps == []


def build_that_raises(
    error: Exception, build_context: str, monkeypatch: pytest.MonkeyPatch
) -> BuildImageOperator:
    monkeypatch.setattr(image_builder, "build_image", mock.Mock(side_effect=error))
    return BuildImageOperator(task_id="t", context_dir=build_context, image="h:1/i")


@pytest.mark.parametrize(
    "kind",
    [
        errors.BuildFailed,
        errors.BuildContextMissing,
        errors.InvalidImageRef,
        errors.ImageNotFound,
        errors.EngineError,
    ],
)
def test_the_callers_errors_end_the_task_without_a_retry(
    kind: type[errors.TrainingError], build_context: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = build_that_raises(kind("what went wrong"), build_context, monkeypatch)

    with pytest.raises(AirflowFailException, match=f"{kind.__name__}: what went wrong") as caught:
        task.execute(CONTEXT)

    assert isinstance(caught.value.__cause__, kind)


@pytest.mark.parametrize(
    "kind",
    [
        errors.DiskFull,
        errors.EngineUnavailable,
        errors.EngineBusy,
        errors.RegistryUnavailable,
        errors.PushFailed,
    ],
)
def test_what_may_pass_is_left_to_airflows_retries(
    kind: type[errors.TrainingError], build_context: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = build_that_raises(kind("later"), build_context, monkeypatch)

    with pytest.raises(kind, match="later"):
        task.execute(CONTEXT)


def test_a_short_name_and_the_base_image_are_the_connections(
    build_context: str, monkeypatch: pytest.MonkeyPatch, airflow_db: Path
) -> None:
    extra = {"image_prefix": "127.0.0.1:5000/demo", "base_image": "own:1"}
    monkeypatch.setenv("AIRFLOW_CONN_OTHER", json.dumps({"conn_type": "container_training", "extra": extra}))
    (Path(build_context) / "Dockerfile").write_text("ARG BASE_IMAGE=b\nFROM ${BASE_IMAGE}\n")
    ref = parse_image_ref("127.0.0.1:5000/demo/digits:1")
    built = mock.Mock(return_value=BuiltImage(ref=ref, image_id="sha256:1", is_reused=False))
    pushed = mock.Mock(return_value=PushedImage(ref=ref.at("sha256:" + "1" * 64), is_reused=False))
    monkeypatch.setattr(image_builder, "build_image", built)
    monkeypatch.setattr(pusher, "push_image", pushed)

    BuildImageOperator(
        task_id="b", context_dir=build_context, image="digits", training_conn_id="other"
    ).execute(CONTEXT)
    PushImageOperator(task_id="p", image="digits:1", training_conn_id="other").execute(CONTEXT)

    _, context, name = built.call_args.args
    assert (context.build_args, name) == ({"BASE_IMAGE": "own:1"}, "127.0.0.1:5000/demo/digits")
    assert str(pushed.call_args.args[1]) == "127.0.0.1:5000/demo/digits:1"


@pytest.mark.parametrize("timeout", ["soon", 0, timedelta(0)])
def test_a_time_limit_that_makes_no_sense_is_refused(timeout: Any, airflow_db: Path) -> None:
    task = TestImageOperator(task_id="t", image="i", timeout=timeout)

    with pytest.raises(AirflowFailException, match=r"Invalid(Argument|JobSpec): timeout:? must be"):
        task.execute(CONTEXT)


def test_an_image_without_a_registry_cannot_be_pushed() -> None:
    with pytest.raises(AirflowFailException, match=r"InvalidImageRef: .*no registry host"):
        PushImageOperator(task_id="t", image="digits:1").execute(CONTEXT)


def test_killing_before_anything_runs_does_nothing() -> None:
    PushImageOperator(task_id="t", image="h:1/i").on_kill()


def test_killing_cancels_the_call_under_way(build_context: str, monkeypatch: pytest.MonkeyPatch) -> None:
    task = BuildImageOperator(task_id="t", context_dir=build_context, image="h:1/i")
    seen: list[bool] = []

    def build(*_: Any, cancellation: Any, **__: Any) -> Any:
        task.on_kill()
        seen.append(cancellation.is_cancelled)
        raise errors.BuildFailed("the build was cancelled")

    monkeypatch.setattr(image_builder, "build_image", build)

    with pytest.raises(AirflowFailException):
        task.execute(CONTEXT)
    assert seen == [True]


def test_a_build_ends_when_the_worker_is_gone(build_context: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervision, "has_supervisor", lambda: True)
    monkeypatch.setattr(supervision, "_LOOK_SECONDS", 0.01)
    seen: list[bool] = []

    def build(*_: Any, cancellation: Any, **__: Any) -> Any:
        with cancellation.stops_with((stopped := threading.Event()).set):
            monkeypatch.setattr(supervision.os, "getppid", lambda: 0)
            seen.append(stopped.wait(scaled(60)))
        raise errors.BuildFailed("the build was cancelled")

    monkeypatch.setattr(image_builder, "build_image", build)

    with pytest.raises(AirflowFailException):
        BuildImageOperator(task_id="t", context_dir=build_context, image="h:1/i").execute(CONTEXT)
    assert seen == [True]


def test_a_dag_that_imports_the_operators_does_not_import_docker(fresh_airflow: FreshAirflow) -> None:
    code = (
        "import json, sys, container_training.operators.image; print(json.dumps('docker.api' in sys.modules))"
    )

    assert fresh_airflow.run(code) is False
