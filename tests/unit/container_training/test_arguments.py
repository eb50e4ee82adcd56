"""Where the arguments of task groups go: argument x function x task, of parsed DAGs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk import DAG, TaskGroup
from airflow.sdk.definitions.mappedoperator import MappedOperator

from container_training.comparison import compare_with_champion
from container_training.pipeline import RoleImage, training_pipeline
from container_training.step import training_step

SEARCH = {"maxTrials": 4, "params": [{"parameterName": "lr", "type": "DOUBLE", "minValue": 0, "maxValue": 1}]}
#: Where an author can say something; a place wins over those before it.
PLACES = ("dag", "group", "default_args", "argument")
#: What concerns all tasks, and what each place says of it: a value names the place that it comes from.
OF_AIRFLOW: dict[str, Callable[[int], Any]] = {
    "queue": lambda place: f"queue-{place}",
    "pool": lambda place: f"pool-{place}",
    "retries": lambda place: 10 + place,
    "retry_delay": lambda place: timedelta(seconds=100 + place),
    "execution_timeout": lambda place: timedelta(hours=1 + place),
}
CONNECTIONS: dict[str, Callable[[int], Any]] = {
    f"{name}_conn_id": lambda place, name=name: f"{name}-{place}"  # type: ignore[misc]
    for name in ("training", "gcp", "docker", "registry")
}
ARGUMENTS = OF_AIRFLOW | CONNECTIONS


def pipeline(**said: Any) -> None:
    training_pipeline(
        context_dir="/trainer",
        image="HOST/demo/mine",
        images={"worker": RoleImage(dockerfile="Dockerfile-worker")},
        bill_of_materials=True,
        hyperparameters=SEARCH,
        **said,
    )


def step(**said: Any) -> None:
    training_step("step", image="HOST/demo/mine@sha256:" + "a" * 64, **said)


def comparison(**said: Any) -> None:
    compare_with_champion(challenger={"version_id": "v2"}, model_folder="gs://b/m", command=["eval"], **said)


#: Function -> connections that none of its tasks has.
FUNCTIONS = {
    pipeline: {"registry_conn_id"},
    step: {"registry_conn_id", "docker_conn_id"},
    comparison: {"docker_conn_id"},
}
#: The tasks of each function that is asked for all that it can make -> the connections of each.
TASKS: dict[Callable[..., None], dict[str, str]] = {
    pipeline: {
        **{f"{name}{role}": "docker training" for name in ("build", "push") for role in ("", "_worker")},
        **{f"test{role}": "docker training" for role in ("", "_worker")},
        **{f"grant{role}": "training gcp" for role in ("", "_worker")},
        **{f"bill_of_materials{role}": "docker training gcp" for role in ("", "_worker")},
        "preflight": "docker training gcp",
        "submit": "training gcp",
        "wait_until_scheduled": "training",
        "wait_until_running": "training",
        "wait_until_finished": "training",
        "collect": "training gcp",
        "plot": "training gcp",
    },
    step: {"submit": "training gcp", "wait": "training", "collect": "training gcp"},
    comparison: {
        "prepare": "gcp registry",
        "submit": "training gcp",
        "wait": "training",
        "decide": "training gcp registry",
    },
}
#: Every place alone, and each beside those that it wins over.
SAID = [(), *((place,) for place in PLACES), *(PLACES[:count] for count in (2, 3, 4))]


def make_dag(function: Callable[..., None], places: tuple[str, ...]) -> DAG:
    """Return a DAG with the tasks of ``function``, of which ``places`` say something."""
    said: dict[str, dict[str, Any]] = {place: {} for place in PLACES}
    for place in places:
        said[place] = {name: value(PLACES.index(place)) for name, value in ARGUMENTS.items()}
    for name in FUNCTIONS[function]:
        said["argument"].pop(name, None)
    with (
        DAG(name_of(function, places), schedule=None, default_args=said["dag"]) as dag,
        TaskGroup("around", default_args=said["group"]),
    ):
        function(default_args=said["default_args"], **said["argument"])
    return dag


def name_of(function: Callable[..., None], places: tuple[str, ...]) -> str:
    return ".".join([function.__name__, *places])


@pytest.fixture(scope="module")
def parsed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, DAG]:
    """Return the DAGs of all functions and places, parsed from files by Airflow."""
    folder: Path = tmp_path_factory.mktemp("dags")
    for function in FUNCTIONS:
        for places in SAID:
            lines = (
                "from airflow.sdk import DAG",
                f"from {__name__} import make_dag, {function.__name__}",
                f"dag = make_dag({function.__name__}, {places!r})",
            )
            (folder / f"{name_of(function, places)}.py").write_text("\n".join(lines), encoding="utf-8")
    bag = DagBag(dag_folder=str(folder))
    assert bag.import_errors == {}
    return dict(bag.dags)  # type: ignore[arg-type]


def values(dag: DAG, name: str) -> Iterator[tuple[str, Any]]:
    """Yield task and value of every task of ``dag`` that has the argument ``name``."""
    for task in dag.tasks:
        operator: Any = task
        if isinstance(task, MappedOperator):
            if name in OF_AIRFLOW:  # the scheduler reads these of the task before it is mapped
                yield task.label, getattr(task, name)
            operator = task.unmap({"image": "i", "args": []} if task.label == "submit" else {"job_id": "j"})
        if hasattr(operator, name):
            yield operator.label, getattr(operator, name)


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("places", [places for places in SAID if places], ids="-".join)
@pytest.mark.parametrize("argument", ARGUMENTS)
def test_what_an_author_says_reaches_every_task(
    parsed: dict[str, DAG], argument: str, places: tuple[str, ...], function: Callable[..., None]
) -> None:
    is_taken = argument not in FUNCTIONS[function]
    heard = [place for place in places if is_taken or place != "argument"]
    kind = argument.removesuffix("_conn_id")
    expected = {
        task: ARGUMENTS[argument](PLACES.index(heard[-1]))
        for task, connections in TASKS[function].items()
        if heard and (argument in OF_AIRFLOW or kind in connections.split())
    }

    found = set(values(parsed[name_of(function, places)], argument))

    assert found >= set(expected.items())
    assert {task for task, _ in found} == {task for task, _ in expected.items()} or not heard
    assert len(found) == len(expected) or not heard
