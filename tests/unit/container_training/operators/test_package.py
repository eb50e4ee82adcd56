"""
Packaging and uploading a trainer: what is uploaded where, and what is refused.

Another test covers the build itself.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from container_training.hooks.storage import StorageHook
from container_training.operators.package import PackageTrainerOperator
from container_training.work.object_store import ObjectStore
from container_training.work.packages import trainer_package
from container_training.work.packages.trainer_package import TrainerPackage
from tests.unit.container_training.operators.test_results import FakeBucket
from training_api.errors import PackageInvalid


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> FakeBucket:
    bucket = FakeBucket()
    monkeypatch.setattr(StorageHook, "get_conn", lambda self: ObjectStore(bucket))
    return bucket


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """
    The folders that were built.

    Each becomes a package of the same few bytes, with ``trainer.task`` as its only module.
    """
    folders: list[str] = []

    def build(folder: Path) -> TrainerPackage:
        folders.append(str(folder))
        return TrainerPackage(file_name="trainer-0.0.0.tar.gz", content=b"packed")

    monkeypatch.setattr(trainer_package, "build_package", build)
    monkeypatch.setattr(TrainerPackage, "modules", lambda self: frozenset({"trainer.task"}))
    return folders


def package(**arguments: Any) -> list[str]:
    given = {"package_path": "trainer", "staging": "gs://bucket/staging"} | arguments
    context: Any = {"dag": SimpleNamespace(fileloc="/dags/train.py")}
    return PackageTrainerOperator(task_id="package", **given).execute(context)


def test_the_package_is_uploaded_by_its_content_and_only_once(bucket: FakeBucket, built: list[str]) -> None:
    first = package(python_module="trainer.task")
    again = package(python_module="trainer.task")

    digest = TrainerPackage(file_name="x", content=b"packed").digest
    assert first == again == [f"gs://bucket/staging/{digest}/trainer-0.0.0.tar.gz"]
    assert bucket.objects == {f"staging/{digest}/trainer-0.0.0.tar.gz": b"packed"}
    assert bucket.writes == 1
    assert built == ["/dags/trainer", "/dags/trainer"]


def test_other_packages_follow_the_trainers(bucket: FakeBucket, built: list[str], tmp_path: Path) -> None:
    wheel = tmp_path / "helpers-1.0-py3-none-any.whl"
    wheel.write_bytes(b"wheel")

    uris = package(packages=["gs://other/shared.tar.gz", str(wheel)])

    assert [uri.rpartition("/")[2] for uri in uris] == ["trainer-0.0.0.tar.gz", wheel.name, "shared.tar.gz"]
    assert uris[2] == "gs://other/shared.tar.gz"
    assert sorted(bucket.objects.values()) == [b"packed", b"wheel"]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"python_module": "trainer.tusk"}, "no module 'trainer.tusk' in the package; it has trainer.task"),
        ({"packages": ["gs://other/trainer-0.0.0.tar.gz"]}, "packages must have different file names"),
        ({"packages": ["missing.whl"]}, "packages must be files or gs:// addresses, got '/dags/missing.whl'"),
        ({"staging": "bucket/folder"}, "staging must be a Cloud Storage folder, gs://BUCKET/FOLDER"),
        ({"staging": "gs://"}, "staging must be a Cloud Storage folder, gs://BUCKET/FOLDER"),
    ],
)
def test_a_mistake_ends_the_task_without_a_retry_and_nothing_is_uploaded(
    bucket: FakeBucket, built: list[str], arguments: dict[str, Any], why: str
) -> None:
    with pytest.raises(AirflowFailException, match=f"^{PackageInvalid.__name__}: .*{why}"):
        package(**arguments)

    assert bucket.objects == {}


def test_everything_but_the_task_itself_is_templated() -> None:
    own = vars(PackageTrainerOperator(task_id="t", package_path="p", staging="s"))

    assert set(PackageTrainerOperator.template_fields) <= set(own)
    assert {"package_path", "packages", "staging", "python_module", "gcp_conn_id"} == set(
        PackageTrainerOperator.template_fields
    )
