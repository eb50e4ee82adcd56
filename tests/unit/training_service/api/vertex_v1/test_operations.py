"""Operations: done when they are answered, and kept for a while."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime

import pytest

from training_api.errors import ResourceNotFound
from training_api.job.project_number import project_number
from training_service.api.vertex_v1.canonical import canonical
from training_service.api.vertex_v1.messages import OPERATION
from training_service.api.vertex_v1.operations import Operations

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.fixture
def operations() -> Operations:
    return Operations(lambda: NOW, itertools.count().__next__, kept=2)


def test_an_operation_is_done_and_a_message_of_the_api(operations: Operations) -> None:
    found = operations.done("demo", "us-central1")

    assert found == {
        "name": f"projects/{project_number('demo')}/locations/us-central1/operations/{10**18}",
        "metadata": {
            "@type": "type.googleapis.com/google.cloud.aiplatform.v1.DeleteOperationMetadata",
            "genericMetadata": {
                "createTime": "2026-01-01T12:00:00.000000Z",
                "updateTime": "2026-01-01T12:00:00.000000Z",
            },
        },
        "done": True,
        "response": {"@type": "type.googleapis.com/google.protobuf.Empty"},
    }
    assert canonical(OPERATION, found)["done"]
    assert operations.get("demo", "us-central1", str(10**18)) == found


def test_an_operation_that_made_something_has_its_response(operations: Operations) -> None:
    found = operations.answered("demo", "us-central1", "UploadModel", {"model": "m", "modelVersionId": "1"})

    package = "type.googleapis.com/google.cloud.aiplatform.v1"
    assert found["metadata"]["@type"] == f"{package}.UploadModelOperationMetadata"
    assert found["response"] == {
        "@type": f"{package}.UploadModelResponse",
        "model": "m",
        "modelVersionId": "1",
    }
    assert canonical(OPERATION, found)["response"] == found["response"]


def test_the_newest_are_kept(operations: Operations) -> None:
    first, second, third = (operations.done("demo", "us-central1") for _ in range(3))

    assert operations.of("demo", "us-central1") == [third, second]
    with pytest.raises(ResourceNotFound, match="this process knows its newest 2"):
        operations.get("demo", "us-central1", first["name"].rpartition("/")[2])


def test_an_operation_is_one_of_its_project_and_location(operations: Operations) -> None:
    operations.done("demo", "us-central1")

    assert operations.of("demo", "us-central") == []
    assert operations.of("other", "us-central1") == []
    with pytest.raises(ResourceNotFound):
        operations.get("other", "us-central1", str(10**18))
