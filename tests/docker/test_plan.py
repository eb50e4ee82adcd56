"""
``plan`` and ``apply`` on a real engine, registry and service.

A plan changes nothing; ``apply`` does what it says or nothing.
"""

from __future__ import annotations

import io
import json
import shlex
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import docker
import httpx
import pytest
import requests

from container_training.cli.parser import main
from container_training.operators.plan import PlanTrainingOperator
from local_stack.parts.airflow import airflow_environment
from local_stack.people.credentials import airflow_principal, airflow_token, developers_header, registry_login
from local_stack.stack import LocalStack
from tests.support import web
from tests.support.bed.real_parts import PROJECT, end_all_jobs
from tests.support.docs_examples import Example, examples
from tests.support.own_images import remove_own_images
from training_api.clients.training import TrainingClient
from training_api.dialects.ml_v1.dialect import AGENT as ML_AGENT
from training_api.job.image_ref import parse_image_ref

pytestmark = pytest.mark.docker

OTHER = "other-project"
AGENT = f"serviceAccount:{ML_AGENT.email(PROJECT)}"
READS = ("GET", "HEAD")


@dataclass(frozen=True)
class Done:
    returncode: int
    stdout: str
    stderr: str


Run = Callable[..., Done]


@pytest.fixture
def run(
    stack: LocalStack, base_image: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Run:
    """Run ``python -m container_training`` with the connections of the stack."""
    for name, value in airflow_environment(
        stack.settings, base_image=base_image, token=airflow_token(stack.settings)
    ).items():
        if name.startswith("AIRFLOW_CONN_"):
            monkeypatch.setenv(name, value)

    def run(*arguments: str | Path) -> Done:
        status = main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return Done(status, out, err)

    return run


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What this process sends, to service, policies, registry and engine: ``METHOD URL``."""
    sent: list[str] = []
    send, send_to_engine = httpx.Client.send, requests.Session.send

    def record(self: httpx.Client, request: httpx.Request, **options: Any) -> httpx.Response:
        sent.append(f"{request.method} {request.url}")
        return send(self, request, **options)

    def record_engine(self: requests.Session, request: Any, **options: Any) -> requests.Response:
        sent.append(f"{request.method} {request.url}")
        return send_to_engine(self, request, **options)

    monkeypatch.setattr(httpx.Client, "send", record)
    monkeypatch.setattr(requests.Session, "send", record_engine)
    return sent


@dataclass(frozen=True)
class Trainer:
    """A job file and a build context, and the name of the image that is made from it."""

    config: Path
    folder: Path
    image: str
    options: tuple[str, ...]


@pytest.fixture
def trainer(
    tmp_path: Path,
    stack: LocalStack,
    training: TrainingClient,
    engine_client: docker.APIClient,
    base_image: str,
) -> Iterator[Trainer]:
    folder = tmp_path / "trainer"
    folder.mkdir()
    once = uuid.uuid4().hex
    (folder / "Dockerfile").write_text(
        'ARG BASE_IMAGE\nFROM ${BASE_IMAGE}\nCOPY task.py /\nENTRYPOINT ["python3", "/task.py"]\n'
    )
    (folder / "task.py").write_text(f"print('{once}')\n")
    config = tmp_path / "config.yaml"
    config.write_text(
        "trainingInput:\n  region: us-central1\n  scaleTier: CUSTOM\n  masterType: n1-standard-4\n"
    )
    image = f"{stack.settings.registry}/{PROJECT}/plan-{once[:6]}"
    yield Trainer(
        config, folder, image, ("--context", str(folder), "--build-arg", f"BASE_IMAGE={base_image}")
    )
    end_all_jobs(training)
    remove_own_images(engine_client, lambda name: f"/plan-{once[:6]}" in name)


def set_policy(stack: LocalStack, resource: str, role: str = "", member: str = "") -> None:
    bindings = [{"role": role, "members": [member]}] if role else []
    web.post(
        f"{stack.settings.training_url}/v1/{resource}:setIamPolicy",
        json={"policy": {"bindings": bindings}},
        headers=developers_header(stack.settings),
    ).raise_for_status()


def test_a_plan_changes_nothing_and_apply_does_what_it_says(
    run: Run,
    trainer: Trainer,
    sent: list[str],
    training: TrainingClient,
    engine_client: docker.APIClient,
    job_id: str,
) -> None:
    options = (*trainer.options, "--image", trainer.image, "--job-id", job_id)
    file = trainer.folder.parent / "plan.json"
    jobs_before = training.list_jobs().to_wire()

    sent.clear()
    planned = run("plan", trainer.config, *options, "--json", "--output", file, "--", "--epochs", "3")
    during = list(sent)
    jobs_after, images = training.list_jobs().to_wire(), engine_client.images(trainer.image)
    applied = run("apply", file, "--json")
    again = run("plan", trainer.config, *options[:-1], f"{job_id}_2")

    assert planned.returncode == 0, planned.stderr
    plan = json.loads(planned.stdout)
    writes = [line for line in during if not line.startswith(READS) and not line.endswith(":getIamPolicy")]
    assert (len(during) > 5, writes) == (True, [])
    assert (jobs_after, images) == (jobs_before, [])
    (image,) = plan["images"]
    assert image["actions"] == ["build", "push"]
    assert image["changes"] == [f"the engine has no earlier image of {trainer.image}"]
    assert plan["request"]["trainingInput"] == {
        "region": "us-central1",
        "scaleTier": "CUSTOM",
        "masterType": "n1-standard-4",
        "args": ["--epochs", "3"],
        "masterConfig": {"imageUri": image["ref"]},
        "jobDir": plan["request"]["trainingInput"]["jobDir"],
    }
    assert plan["request"]["trainingInput"]["jobDir"].endswith(f"/{job_id}")
    assert [access["is_granted_by_plan"] for access in plan["access"]] == [False]
    assert "nothing has to be granted" in plan["access"][0]["reason"]
    assert plan["machines"] == [
        {"role": "master", "count": 1, "machine_type": "n1-standard-4", "gpus": 0, "gpu": None}
    ]
    assert plan["cost"] == {"per_hour": 36.0, "currency": "EUR", "parallel_trials": 1, "reason": ""}

    assert applied.returncode == 0, applied.stderr
    job = json.loads(applied.stdout)
    built = parse_image_ref(job["trainingInput"]["masterConfig"]["imageUri"])
    assert (job["jobId"], built.name, built.digest is not None) == (job_id, trainer.image, True)
    assert {**job["trainingInput"], "masterConfig": None} == {
        **plan["request"]["trainingInput"],
        "masterConfig": None,
    }
    assert "nothing to build, nothing to push" in again.stdout
    assert str(built.digest) in again.stdout


def test_a_stale_plan_changes_nothing_and_says_what_is_not_as_it_was(
    run: Run, trainer: Trainer, sent: list[str], training: TrainingClient, job_id: str
) -> None:
    file = trainer.folder.parent / "plan.json"
    run(
        "plan",
        trainer.config,
        *trainer.options,
        "--image",
        trainer.image,
        "--job-id",
        job_id,
        "--output",
        file,
    )
    (trainer.folder / "task.py").write_text("print('changed')\n")
    trainer.config.write_text("trainingInput: {region: europe-west1}\n")

    sent.clear()
    done = run("apply", file)

    assert (done.returncode, done.stdout) == (4, "")
    assert "the plan is stale, and nothing was changed" in done.stderr
    assert "config_sha256 was" in done.stderr
    assert 'request.trainingInput.region was "us-central1", is "europe-west1"' in done.stderr
    assert "build context: task.py changed" in done.stderr
    assert done.stderr.endswith("plan again, look at the new plan, and apply that one\n")
    assert [line for line in sent if not line.startswith(READS)] == []


def test_a_grant_is_planned_applied_once_and_watched_by_its_etag(
    run: Run, trainer: Trainer, stack: LocalStack, sent: list[str], job_id: str
) -> None:
    repository = trainer.image.rpartition("/")[2]
    resource = f"projects/{OTHER}/locations/local/repositories/{repository}"
    image = f"{stack.settings.registry}/{OTHER}/{repository}"
    airflow = airflow_principal(stack.settings)
    set_policy(stack, f"projects/{OTHER}", "roles/owner", airflow)
    options = (*trainer.options, "--image", image, "--job-id", job_id)
    first, second = trainer.folder.parent / "first.json", trainer.folder.parent / "second.json"

    sent.clear()
    planned = run("plan", trainer.config, *options, "--output", first)
    writes = [line for line in sent if not line.startswith(READS)]
    set_policy(stack, resource, "roles/artifactregistry.writer", airflow)
    stale = run("apply", first)
    run("plan", trainer.config, *options, "--output", second)
    applied = run("apply", second)
    taken = run("apply", second)
    after = run("plan", trainer.config, *options, "--json")
    set_policy(stack, f"projects/{OTHER}")

    assert writes == []
    assert f"GRANT {AGENT} gets roles/artifactregistry.reader on {resource}" in planned.stdout
    assert stale.returncode == 4
    assert f"access.{image}.etag was" in stale.stderr
    assert applied.returncode == 0, applied.stderr
    assert f"{AGENT} gets roles/artifactregistry.reader on {resource}" in applied.stderr
    assert applied.stdout == f"{job_id}\n"
    assert taken.returncode == 4
    assert f"job id '{job_id}' is taken" in taken.stderr
    (access,) = json.loads(after.stdout)["access"]
    assert (access["is_granted_by_plan"], "already" in access["reason"]) == (False, True)
    assert json.loads(after.stdout)["blockers"] != []


def test_a_tag_that_moved_makes_a_plan_stale(
    run: Run,
    trainer: Trainer,
    stack: LocalStack,
    engine_client: docker.APIClient,
    base_image: str,
    job_id: str,
) -> None:
    file = trainer.folder.parent / "plan.json"

    def push(text: str) -> None:
        dockerfile = f"FROM {base_image}\nLABEL text={text}\n".encode()
        list(engine_client.build(fileobj=io.BytesIO(dockerfile), tag=f"{trainer.image}:1", rm=True))
        login = registry_login(stack.settings)
        lines = list(engine_client.push(trainer.image, "1", stream=True, decode=True, auth_config=login))
        assert not [line for line in lines if "error" in line]

    push(f"{job_id}-first")
    planned = run("plan", trainer.config, "--image", f"{trainer.image}:1", "--job-id", job_id, "-o", file)
    push(f"{job_id}-second")
    done = run("apply", file)

    assert "in the registry as sha256:" in planned.stdout
    assert done.returncode == 4
    assert 'images.master.digest was "sha256:' in done.stderr


def test_an_image_that_is_not_built_here_is_looked_up_in_the_registry(
    run: Run,
    trainer: Trainer,
    stack: LocalStack,
    engine_client: docker.APIClient,
    base_image: str,
    job_id: str,
) -> None:
    built = run(
        "plan", trainer.config, *trainer.options, "--image", trainer.image, "--job-id", job_id, "--json"
    )
    missing = json.loads(built.stdout)["images"][0]["ref"]

    done = run("plan", trainer.config, "--image", missing, "--job-id", job_id, "--json")

    (image,) = json.loads(done.stdout)["images"]
    assert (image["digest"], image["actions"]) == (None, [])
    assert image["note"] == f"the registry has no {missing}: push it first"


@pytest.mark.parametrize("example", examples("plan"), ids=str)
def test_the_guides_commands_work(
    example: Example,
    run: Run,
    trainer: Trainer,
    training: TrainingClient,
    base_image: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(trainer.config.parent)
    own = {"$BASE_IMAGE": base_image, "$IMAGE_PREFIX/mine": trainer.image}
    plan, apply = example.code.replace("\\\n", "").splitlines()
    for name, value in own.items():
        plan = plan.replace(name, value)

    planned = run(*shlex.split(plan)[3:])
    applied = run(*shlex.split(apply)[3:])

    assert planned.returncode == 0, planned.stderr
    assert applied.returncode == 0, applied.stderr
    (job_id,) = applied.stdout.split()
    training_input = training.get_job(job_id).training_input
    assert training_input is not None
    assert training_input.args == ["--epochs", "3"]


def test_the_task_plans_as_the_command_does(
    run: Run, trainer: Trainer, sent: list[str], base_image: str
) -> None:
    context: Any = {"ti": SimpleNamespace(dag_id="d", task_id="plan", run_id="r", map_index=-1)}
    task = PlanTrainingOperator(
        task_id="plan",
        context_dir=str(trainer.folder),
        build_args={"BASE_IMAGE": base_image},
        image=trainer.image,
        config_file=str(trainer.config),
        args=["--epochs", "3"],
        for_task="submit",
    )

    plan = task.execute(context)

    assert plan["request"]["jobId"].startswith("d_submit_")
    assert plan["images"][0]["actions"] == ["build", "push"]
    writes = [line for line in sent if not line.startswith(READS) and not line.endswith(":getIamPolicy")]
    assert writes == []
