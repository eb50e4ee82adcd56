"""What the replicas of a pool run."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.fakes.custom_jobs import IMAGE, PACKAGE, make_package_pool, make_pool
from training_api.dialects.vertex_v1.pool_tasks import image_of, read_task, task_of
from training_api.job.image_ref import parse_image_ref
from training_api.job.packages.python_package import PackageTask
from training_api.job.violations import Violations


def broken(pool: dict[str, Any]) -> dict[str, str]:
    rules = Violations()
    read_task(rules, "p", pool)
    return {each.field: each.description for each in rules.found}


def test_packages_run_in_the_image_that_is_named() -> None:
    rules = Violations()
    task = read_task(rules, "p", make_package_pool(args=["--epochs", "3"], env=[{"name": "A"}]))

    assert task is not None
    assert not rules.found
    assert (task.image, task.command, task.args) == (parse_image_ref(IMAGE), (), ("--epochs", "3"))
    assert task.installs == PackageTask(uris=(PACKAGE,), module="trainer.task")


@pytest.mark.parametrize("pool", [make_pool(env=[{"name": "A"}]), make_package_pool(env=[{"name": "A"}])])
def test_both_kinds_have_an_image_and_variables(pool: dict[str, Any]) -> None:
    assert image_of(pool) == IMAGE
    assert task_of(pool)["env"] == [{"name": "A"}]
    assert (image_of({}), task_of({})) == ("", {})


@pytest.mark.parametrize(
    ("changes", "field", "told"),
    [
        ({"executorImageUri": ""}, "executorImageUri", "is required"),
        ({"executorImageUri": "no host"}, "executorImageUri", "no host"),
        ({"packageUris": []}, "packageUris", "must be 1 to 100 objects; got 0"),
        ({"packageUris": [PACKAGE] * 101}, "packageUris", "must be 1 to 100 objects; got 101"),
        ({"packageUris": [PACKAGE, "a.whl"]}, "packageUris[1]", "gs://BUCKET/NAME; got 'a.whl'"),
        ({"pythonModule": ""}, "pythonModule", "is required: a module's dotted name"),
        ({"pythonModule": "task.py -c"}, "pythonModule", "got 'task.py -c'"),
        ({"env": [{"name": "1A"}]}, "env[0].name", "must be a C identifier"),
    ],
)
def test_packages_that_break_a_rule_are_refused(changes: dict[str, Any], field: str, told: str) -> None:
    assert told in broken(make_package_pool(**changes))[f"p.pythonPackageSpec.{field}"]


@pytest.mark.parametrize(
    "container",
    [
        {"args": ["--out", "/gcs/bkt/out/"]},
        {"command": ["sh", "-c", "ls /gcs/bkt"]},
        {"env": [{"name": "DATA", "value": "/gcs"}]},
    ],
)
def test_a_folder_below_gcs_is_refused_with_the_way_out(container: dict[str, Any]) -> None:
    found = broken(make_pool(**container))

    assert "buckets are not mounted here" in found["p.containerSpec"]
    assert "gs:// by a client of Cloud Storage" in found["p.containerSpec"]


def test_objects_below_gcs_need_a_command() -> None:
    named = {"args": ["--data=/gcs/bkt/a.csv"]}

    assert "the image's own entry point is not known" in broken(make_pool(**named))["p.containerSpec.command"]
    assert not broken(make_pool(command=["train"], **named))
    assert not broken(make_package_pool(**named))
