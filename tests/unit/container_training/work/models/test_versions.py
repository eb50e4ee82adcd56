"""Snapshots and versions as values: their names, and what makes two of them the same."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from container_training.work.models.versions import DataSnapshot, ModelVersion, snapshot_id_of
from tests.support.bed.model_versions import NOW, make_version
from training_api.job.results import ResultFile


def make_file(name: str, generation: int = 1) -> ResultFile:
    return ResultFile(uri=f"gs://b/{name}", size_bytes=1, crc32c="", generation=generation)


@pytest.mark.parametrize("name", ["a", "9", "digits_1", "2026-11-20.1", "a" * 128])
def test_a_version_may_be_called_like_a_job_or_a_date(name: str) -> None:
    assert make_version(name).version_id == name


@pytest.mark.parametrize("name", ["", ".hidden", "-x", "a/b", "../a", "a b", "ä", "a\n", "a" * 129])
def test_a_name_that_could_leave_its_folder_is_refused(name: str) -> None:
    with pytest.raises(ValidationError, match="version_id must be letters"):
        make_version(name)


def test_a_version_survives_as_json() -> None:
    version = make_version()

    assert ModelVersion.model_validate_json(version.model_dump_json()) == version
    assert version.model_uri == f"{version.model.uri}#1"


def test_the_same_objects_are_the_same_snapshot_in_any_order() -> None:
    one, other = make_file("a"), make_file("b")

    assert snapshot_id_of([one, other]) == snapshot_id_of([other, one])
    assert len(snapshot_id_of([one])) == 16


def test_the_id_of_a_snapshot_is_the_one_that_earlier_versions_stored() -> None:
    assert snapshot_id_of([make_file("b"), make_file("a")]) == "44c3ca2b30e10a95"
    assert snapshot_id_of([]) == "4f53cda18c2baa0c"


@pytest.mark.parametrize(
    "files", [[], [make_file("a", 2)], [make_file("b")], [make_file("a"), make_file("b")]]
)
def test_another_object_or_generation_is_another_snapshot(files: list[ResultFile]) -> None:
    assert snapshot_id_of(files) != snapshot_id_of([make_file("a")])


def test_what_to_train_on_is_named_with_generations() -> None:
    snapshot = DataSnapshot(
        snapshot_id="x",
        created_at=NOW,
        sources=[make_file("in")],
        files=[make_file("a", 3), make_file("b", 4)],
    )

    assert snapshot.uris == ["gs://b/a#3", "gs://b/b#4"]
