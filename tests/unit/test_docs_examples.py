"""What the documentation shows works, and what it names exists."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import json
import re
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
import yaml
from airflow.dag_processing.dagbag import DagBag
from pydantic_settings import BaseSettings

from container_training.hooks import metrics as hook_metrics
from container_training.hooks.image import ImageHook, training_environment
from container_training.hooks.training import TrainingHook
from container_training.operators.training import SubmitTrainingJobOperator
from container_training.work.submission.job_file_reader import parse_job_file
from container_training.work.submission.job_request import JobFields, job_request
from local_stack.settings import StackSettings
from tests.support.certificates import write_certificates
from tests.support.docs_examples import PAGES, README, ROOT, Example, examples, examples_in
from tests.support.public_operators import IN_THE_CLOUD, public_operators
from training_api.dialects.ml_v1.cluster import cluster_environment
from training_api.dialects.ml_v1.cost import parse_prices
from training_api.dialects.ml_v1.reader import job_spec_from_wire
from training_api.dialects.ml_v1.resources import TrainingInput
from training_api.job.cluster import ReplicaId, ReplicaRole, replica_host
from training_api.vertex_jobs.options import VertexOptions
from training_service.settings import ServiceSettings
from training_service.telemetry.gauges import GAUGES
from training_service.telemetry.health_gauges import HEALTH_GAUGES
from training_service.telemetry.metrics import Metrics

SETTINGS = ROOT / "docs" / "settings.md"
MONITORING = ROOT / "docs" / "monitoring.md"
CHAIN = {
    f"train.{name}"
    for name in (
        "build",
        "test",
        "preflight",
        "push",
        "grant",
        "submit",
        "wait_until_scheduled",
        "wait_until_running",
        "wait_until_finished",
        "collect",
    )
}
TASKS = {
    "train_and_upload": {"train.submit", "train.wait", "train.collect", "register"},
    "train_mine": CHAIN,
    "retrain": CHAIN | {"publish"},
    "train_cluster": CHAIN
    | {
        f"train.{name}_{role}"
        for name in ("build", "test", "push", "grant")
        for role in ("worker", "parameter_server")
    },
    "train_if_new": CHAIN,
    "build_with_secrets": {"build"},
    "train_my_model": CHAIN,
    "serve_my_model": {"deploy"},
    "train_image": {"submit", "finished", "collect"},
    "train_from_file": {"submit"},
    "train_shared_image": {"grant", "submit", "finished", "revoke"},
    "train_my_package": {"package", "submit"},
    "train_after_a_preflight": {"preflight", "submit"},
    "plan_mine": {"plan"},
    "tune_mine": {task.replace("train.", "tune.") for task in CHAIN} | {"tune.plot", "train_best"},
    "list_orphans": {"list"},
    "retrain_mine": CHAIN
    | {"snapshot", "validate", "register", "promote"}
    | {f"compare.{name}" for name in ("prepare", "submit", "wait", "decide")},
    "two_steps": {
        f"{step}.{task}" for step in ("prepare", "train") for task in ("submit", "wait", "collect")
    },
    "train_and_tell": {"submit", "finished"},
    "train_and_post": {"train"},
    "train_here_or_there": CHAIN | {"train.choose_service"},
    "train_everywhere": {"train.submit", "train.finished", "train.collect"},
}
#: Kinds of examples and the file that tests them; a kind that is not here is a typing error.
KINDS = {
    "dags": "here",
    "connection": "here",
    "docker connection": "here",
    "docker connection of a builder": "here",
    "vertex connection": "here",
    "vertex options": "here",
    "vertex operators before": "tests/integration/test_coming_from.py",
    "vertex operators after": "tests/integration/test_coming_from.py",
    "config.yaml": "here",
    "prices": "here",
    "python": "here",
    "migrate": "tests/unit/container_training/cli/test_migrate.py",
    "migrated": "tests/unit/container_training/cli/test_migrate.py",
    "own DAG": "tests/unit/container_training/cli/test_migrate.py",
    "own DAG for Vertex AI": "tests/unit/container_training/cli/test_migrate.py",
    "provider DAG": "tests/unit/container_training/cli/test_migrate.py",
    "migrated provider DAG": "tests/unit/container_training/cli/test_migrate.py",
    "plan": "tests/docker/test_plan.py",
    "cli": "tests/integration/test_cli.py",
    "python distributed": "here",
    "python faults": "tests/integration/test_faults.py",
    "shell faults": "tests/integration/test_faults.py",
    **dict.fromkeys(
        (f"operator {name}" for name in (*public_operators(), "_TrainingJobDecoratedOperator")),
        "tests/e2e/test_operator_examples.py",
    ),
    **{
        f"operator {name}": f"tests/unit/container_training/operators/test_{module}.py"
        for name, module in IN_THE_CLOUD.items()
    },
    "install": "tests/packaging/test_first_job.py",
    "shell": "tests/e2e/test_readme_shell.py",
    "trainer task.py": "tests/e2e/test_readme_shell.py",
    "trainer Dockerfile": "tests/e2e/test_readme_shell.py",
}


def variables_of(settings: type[BaseSettings]) -> dict[str, object]:
    """Return the environment variables of ``settings`` and their defaults."""
    prefix = settings.model_config["env_prefix"]
    return {f"{prefix}{name}".upper(): field.default for name, field in settings.model_fields.items()}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_marked_example_is_tested_somewhere(page: Path) -> None:
    assert {example.kind for example in examples_in(page)} <= set(KINDS)


def test_every_dag_of_the_documentation_has_its_test() -> None:
    code = "".join(example.code for example in examples("dags"))

    assert sorted(name for name in TASKS if f'"{name}"' in code) == sorted(TASKS)
    assert code.count("with DAG(") == len(TASKS)


@pytest.mark.parametrize("example", examples("dags"), ids=str)
def test_dags_are_read_without_an_error_and_have_their_tasks(
    example: Example, tmp_path: Path, airflow_db: Path
) -> None:
    file = tmp_path / "example.py"
    file.write_text(example.code, encoding="utf-8")

    bag = DagBag(str(file), collect_dags=False)
    bag.collect_dags(str(file))

    assert bag.import_errors == {}
    (dag,) = bag.dags.values()
    dag.check_cycle()
    assert set(dag.task_ids) == TASKS[dag.dag_id]


@pytest.mark.parametrize("name", public_operators())
def test_every_public_operator_has_an_example_that_uses_it(name: str) -> None:
    found = examples(f"operator {name}")

    assert found
    for example in found:
        called = {
            node.func.id
            for node in ast.walk(ast.parse(example.code))
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        }
        assert name in called


@pytest.mark.parametrize("use_chief", [True, False])
@pytest.mark.parametrize("example", examples("python"), ids=str)
def test_python_runs_as_it_does_in_a_replica(
    example: Example, use_chief: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    master, worker = ReplicaId(role=ReplicaRole.MASTER), ReplicaId(role=ReplicaRole.WORKER)
    answers = []

    for replica in (master, worker):
        environment = cluster_environment(
            job_id="j", replica=replica, replicas=[master, worker], job_parameters={}, use_chief=use_chief
        )
        monkeypatch.setenv("TF_CONFIG", environment["TF_CONFIG"])
        answers.append(run(example)["is_master"])
    monkeypatch.delenv("TF_CONFIG")
    answers.append(run(example)["is_master"])

    assert answers == [True, False, True]


@pytest.mark.parametrize("example", examples("python distributed"), ids=str)
def test_python_numbers_the_replicas_of_a_cluster(example: Example, monkeypatch: pytest.MonkeyPatch) -> None:
    replicas = [
        ReplicaId(role=ReplicaRole.MASTER),
        *(ReplicaId(role=ReplicaRole.WORKER, index=index) for index in range(2)),
        ReplicaId(role=ReplicaRole.PARAMETER_SERVER),
    ]
    answers = []

    for replica in replicas[:3]:
        environment = cluster_environment(
            job_id="j", replica=replica, replicas=replicas, job_parameters={}, use_chief=True
        )
        monkeypatch.setenv("CLUSTER_SPEC", environment["CLUSTER_SPEC"])
        answers.append(run(example))
    monkeypatch.delenv("CLUSTER_SPEC")
    alone = run(example)

    assert [(answer["rank"], answer["world_size"]) for answer in answers] == [(0, 3), (1, 3), (2, 3)]
    assert {answer["meeting_point"] for answer in answers} == {f"{replica_host('j', replicas[0])}:2222"}
    assert (alone["rank"], alone["world_size"], alone["meeting_point"]) == (0, 1, "localhost:2222")


@pytest.mark.parametrize("example", examples("trainer task.py"), ids=str)
def test_the_guides_trainer_is_python(example: Example) -> None:
    compile(example.code, str(example.page), "exec")


@pytest.mark.parametrize("example", examples("connection"), ids=str)
def test_the_connection_is_one_that_the_hook_takes(example: Example, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_TRAINING_DEFAULT", example.code)

    hook = TrainingHook()

    assert hook.client is not None
    assert hook.project == "demo-project"
    assert training_environment("training_default") == {
        "GOOGLE_CLOUD_PROJECT": "demo-project",
        "STORAGE_EMULATOR_HOST": "http://host.docker.internal:9023",
    }


@pytest.mark.parametrize("example", examples("vertex connection"), ids=str)
def test_the_vertex_connection_leads_to_vertex_ai(example: Example, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_TRAINING_DEFAULT", example.code)

    hook = TrainingHook()

    assert not hook.client.capabilities.has_unique_ids
    assert (hook.endpoint, hook.project) == (
        "https://europe-west4-aiplatform.googleapis.com",
        "my-project",
    )
    assert hook.prices is not None


@pytest.mark.parametrize("example", examples("vertex options"), ids=str)
def test_the_vertex_options_are_those_that_are_read(example: Example) -> None:
    made: dict[str, SubmitTrainingJobOperator] = {}

    class Recorded(SubmitTrainingJobOperator):
        def __init__(self, **given: Any) -> None:
            super().__init__(**given)
            made["operator"] = self

    code = example.code.replace("import SubmitTrainingJobOperator", "import SubmitTrainingJobOperator as _")
    exec(compile(code, str(example.page), "exec"), {"SubmitTrainingJobOperator": Recorded})  # noqa: S102

    options = made["operator"].vertex_options
    assert isinstance(options, dict)
    assert VertexOptions.of(options).strategy == "SPOT"
    page = example.page.read_text("utf-8")
    assert all(f"`{field.name}`" in page for field in dataclasses.fields(VertexOptions))


@pytest.mark.parametrize("example", examples("docker connection"), ids=str)
def test_the_docker_connection_names_an_engine_and_a_login(
    example: Example, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_DOCKER_DEFAULT", example.code)

    hook = ImageHook()

    assert hook.engine.environment() == {
        "DOCKER_HOST": "tcp://builder.example.com:2376",
        "DOCKER_TLS_VERIFY": "1",
        "DOCKER_CERT_PATH": "/etc/airflow/builder",
    }
    assert hook.find_login("registry.example.com")["username"] == "airflow"


@pytest.mark.parametrize("example", examples("docker connection of a builder"), ids=str)
def test_the_docker_connection_names_a_remote_builder(
    example: Example, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_certificates(tmp_path, "127.0.0.1")
    code = example.code.replace("/etc/airflow/builder", str(tmp_path))
    monkeypatch.setenv("AIRFLOW_CONN_DOCKER_DEFAULT", code)

    builder = ImageHook().remote_builder

    assert str(builder) == "tcp://builder.example.com:1234"
    assert builder is not None
    assert len(builder.certificates) == 3


@pytest.mark.parametrize("example", examples("config.yaml"), ids=str)
def test_a_job_file_is_read_and_runs_with_an_image_alone(example: Example) -> None:
    image = "127.0.0.1:5000/demo-project/digits:1"

    request = job_request(None, JobFields(image=image), parse_job_file(example.code, "config.yaml"))

    assert job_spec_from_wire("demo-project", request.model_copy(update={"job_id": "j"})).master
    assert request.training_input is not None
    assert request.training_input.to_wire() == {
        **yaml.safe_load(example.code)["trainingInput"],
        "masterConfig": {"imageUri": image},
    }


@pytest.mark.parametrize("example", examples("prices"), ids=str)
def test_prices_are_read_and_have_a_price_for_a_machine_with_an_accelerator(example: Example) -> None:
    prices = parse_prices(example.code, "extra.prices")

    given = {
        "scaleTier": "CUSTOM",
        "masterType": "n1-standard-4",
        "masterConfig": {"acceleratorConfig": {"count": 1, "type": "NVIDIA_TESLA_T4"}},
    }
    assert prices.cost_per_second(TrainingInput.model_validate(given)) == sum(
        json.loads(example.code)[name] for name in ("n1-standard-4", "NVIDIA_TESLA_T4")
    )


@pytest.mark.parametrize("settings", [StackSettings, ServiceSettings])
def test_the_settings_page_has_a_row_for_every_setting_with_its_default(settings: type[BaseSettings]) -> None:
    rows = dict(
        re.findall(r"^\| `([A-Z_]+)` \| (.*?) \|", SETTINGS.read_text(encoding="utf-8"), re.MULTILINE)
    )
    variables = variables_of(settings)

    prefix = settings.model_config["env_prefix"]
    assert {name for name in rows if name.startswith(prefix)} == set(variables)
    for name, default in variables.items():
        shown = re.fullmatch(r"`([^`]+)`", rows[name])
        if shown and default is not None:
            value = default.value if isinstance(default, Enum) else default
            assert _text(value) in {shown[1], f"{ROOT / shown[1]}"}, name


def test_every_setting_that_a_page_names_exists() -> None:
    known = {
        *variables_of(StackSettings),
        *variables_of(ServiceSettings),
        "TRAINING_ENDPOINT",
        "TRAINING_TOKEN",
        "TRAINING_TOKEN_FILE",
    }

    for page in PAGES:
        named = set(re.findall(r"\b((?:LOCAL_STACK|TRAINING)_[A-Z_]*[A-Z])\b", page.read_text("utf-8")))
        assert named - known == set(), page


def test_the_page_of_metrics_has_every_metric() -> None:
    first_cells = re.findall(
        r"^\| (`(?:training|airflow)_[^|]*)\|", MONITORING.read_text("utf-8"), re.MULTILINE
    )
    named = {name for cell in first_cells for name in re.findall(r"`((?:training|airflow)_\w+)", cell)}
    metrics = Metrics()
    metrics.watch_jobs(dict)
    service = {
        f"{metric.name}_total" if metric.type == "counter" else metric.name
        for metric in metrics.registry.collect()
        if metric.name.startswith("training_")
    }
    reported = re.findall(r'(incr|gauge)\(f"\{PREFIX\}\.(\w+)"', inspect.getsource(hook_metrics))
    airflow = {
        f"airflow_container_training_{name}" + ("_total" if kind == "incr" else "") for kind, name in reported
    }

    assert len(airflow) == 5
    assert named == service | {*GAUGES} | {*HEALTH_GAUGES} | airflow


def test_the_readme_has_every_make_target_and_no_page_an_unknown_one() -> None:
    (targets,) = re.findall(r"^\.PHONY: (.+)$", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)

    named = {page: set(re.findall(r"\bmake (?:-s )?([a-z][a-z-]*)\b", _code_of(page))) for page in PAGES}
    assert named[README] >= set(targets.split())
    assert set().union(*named.values()) <= set(targets.split())


def run(example: Example) -> dict[str, object]:
    namespace: dict[str, object] = {}
    exec(compile(example.code, str(example.page), "exec"), namespace)  # noqa: S102  # our own page
    return namespace


def _code_of(page: Path) -> str:
    """Return what stands in code blocks and backticks; prose may say "make sure"."""
    text = page.read_text(encoding="utf-8")
    return "\n".join(re.findall(r"^```.*?^```|`[^`\n]+`", text, re.DOTALL | re.MULTILINE))


def _text(value: object) -> str:
    if isinstance(value, bool | dict | tuple | list):
        return json.dumps(value)
    return f"{value:g}" if isinstance(value, float) else str(value)
