"""Bills of materials of real images, in a real object store."""

from __future__ import annotations

import json
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from docker.api import APIClient

from container_training.hooks.storage import StorageHook
from container_training.operators.bill_of_materials import ImageBillOfMaterialsOperator
from container_training.work.object_store import ObjectStore
from local_stack.stack import LocalStack
from tests.support.bed.image_tasks import LOCAL, OWN, build, make_context_dir, push, task_context

pytestmark = [pytest.mark.docker, pytest.mark.usefixtures("image_connections")]

DISTROLESS = "Package: tzdata\nVersion: 2024a\nArchitecture: all\n"
PYTHON = "Metadata-Version: 2.1\nName: My_Package\nVersion: 1.0\nLicense: MIT\n"
BEGIN = (
    f"ARG BASE_IMAGE\nFROM ${{BASE_IMAGE}}\n{OWN}COPY METADATA /opt/venv/lib/my_package-1.0.dist-info/METADATA\n"
    'COPY METADATA /gone-1.0.dist-info/METADATA\nRUN rm -r /gone-1.0.dist-info && echo \'{"name": "mkl", "version": "2024.0"}\' > /x.json\n'
)


@pytest.fixture
def store(stack: LocalStack, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    google = {
        "conn_type": "google_cloud_platform",
        "extra": {"is_anonymous": True, "project": "demo-project"},
    }
    monkeypatch.setenv("AIRFLOW_CONN_GOOGLE_CLOUD_DEFAULT", json.dumps(google))
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", stack.settings.object_store_url)
    with StorageHook() as storage:
        yield storage.get_conn()


@pytest.fixture
def folder(stack: LocalStack) -> str:
    return f"{stack.settings.job_bucket}/bills/{uuid.uuid4().hex[:8]}"


def make_bill(image: str, **arguments: Any) -> str:
    task = ImageBillOfMaterialsOperator(task_id="bill", image=image, **arguments)
    return task.execute(task_context())


def test_a_bill_has_what_is_installed_and_is_valid(
    tmp_path: Path, api: APIClient, base_image: str, registry: str, store: ObjectStore, folder: str
) -> None:
    context = make_context_dir(tmp_path, BEGIN, METADATA=PYTHON)
    image = push(build(context, f"{registry}/p-1/image-tests/bill", base_image))

    uri = make_bill(image, folder=folder)

    assert uri == f"{folder}/sbom.cdx.json"
    text = (store.read(uri, 2**24) or b"").decode()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    bill = json.loads(text)
    assert bill["metadata"]["component"]["version"] == image.rpartition("@")[2]
    names = {prop["name"] for prop in bill["metadata"]["component"]["properties"]}
    assert {"org.opencontainers.image.created", "container-training.context"} <= names
    packages = {component["purl"]: component for component in bill["components"] if "purl" in component}
    mine = packages["pkg:pypi/my-package@1.0"]
    assert mine["licenses"] == [{"license": {"name": "MIT"}}]
    assert mine["properties"] == [
        {"name": "container-training:found-in", "value": "opt/venv/lib/my_package-1.0.dist-info/METADATA"}
    ]
    query = [
        "docker",
        "run",
        "--rm",
        "--entrypoint",
        "dpkg-query",
        image,
        "-f",
        "${Package} ${Version}\\n",
        "-W",
    ]
    listed = subprocess.run(query, check=True, capture_output=True, text=True).stdout.split("\n")
    debian = [component for purl, component in packages.items() if purl.startswith("pkg:deb/debian/")]
    assert sorted(f"{component['name']} {component['version']}" for component in debian) == sorted(
        filter(None, listed)
    )
    assert len(debian) > 50
    assert "pkg:deb/debian/libc6@" in " ".join(packages)
    assert api.containers(all=True, filters={"ancestor": api.inspect_image(image)["Id"]}) == []


def test_the_bill_of_an_image_is_made_once(
    tmp_path: Path,
    base_image: str,
    registry: str,
    store: ObjectStore,
    folder: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    context = make_context_dir(tmp_path, BEGIN, METADATA=PYTHON)
    image = push(build(context, f"{registry}/p-1/image-tests/bill", base_image))
    first = make_bill(image, folder=f"{folder}/first", keep_in=f"{folder}/kept")
    exports: list[str] = []
    monkeypatch.setattr(APIClient, "export", lambda self, container, **_: exports.append(container))

    second = make_bill(
        image, folder=f"{folder}/second", keep_in=f"{folder}/kept", file_name="sbom-worker.cdx.json"
    )

    assert exports == []
    assert second == f"{folder}/second/sbom-worker.cdx.json"
    kept = store.read(first, 2**24)
    assert kept
    assert store.read(second, 2**24) == kept


def test_what_cannot_be_read_is_said(
    tmp_path: Path, api: APIClient, store: ObjectStore, folder: str, task_log: list[str]
) -> None:
    files = {"rpmdb.sqlite": "binary", "tzdata": DISTROLESS}
    dockerfile = "FROM scratch\nCOPY rpmdb.sqlite /var/lib/rpm/rpmdb.sqlite\nCOPY tzdata /var/lib/dpkg/status.d/tzdata\n"
    image = build(make_context_dir(tmp_path, dockerfile, **files), f"{LOCAL}/rpm", "")

    uri = make_bill(image, folder=folder)

    bill = json.loads(store.read(uri, 2**24) or b"")
    unread = {"name": "container-training:not-read", "value": "var/lib/rpm/rpmdb.sqlite"}
    assert unread in bill["metadata"]["component"]["properties"]
    assert [component["purl"] for component in bill["components"]] == [
        "pkg:deb/debian/tzdata@2024a?arch=all&distro=debian"
    ]


def test_a_bill_needs_a_place_and_an_image(store: ObjectStore, folder: str, airflow_db: Path) -> None:
    with pytest.raises(
        AirflowFailException, match="InvalidRequest: folder: one of job_id and folder must be set"
    ):
        make_bill(f"{LOCAL}/none:1")
    with pytest.raises(AirflowFailException, match=r"ImageNotFound: .*no registry has it"):
        make_bill(f"{LOCAL}/none:1", folder=folder)
