"""Data before training: recorded, checked, and compared with those of the champion."""

from __future__ import annotations

import csv
import gzip
import io
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from container_training.operators.data import ValidateDataOperator
from container_training.work.object_store import ObjectStore
from tests.support.bed.model_tasks import Context, connect_hooks, judge, promote, put, register, taken

RULES = {
    "columns": 65,
    "label": "64",
    "labels": [str(digit) for digit in range(10)],
    "low": 0,
    "high": 16,
    "min_rows": "1000",
    "min_label_share": 0.05,
}


@pytest.fixture(autouse=True)
def _connected(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    connect_hooks(store, monkeypatch)


@pytest.fixture(scope="module")
def digits() -> list[list[str]]:
    """scikit-learn's images as rows of text."""
    package = find_spec("sklearn")
    assert package is not None
    (folder,) = package.submodule_search_locations or ()
    packed = (Path(folder) / "datasets" / "data" / "digits.csv.gz").read_bytes()
    return list(csv.reader(io.StringIO(gzip.decompress(packed).decode())))


def validated(folder: str, snapshot: dict[str, Any], **changes: Any) -> dict[str, Any]:
    rules = {**RULES, **changes.pop("rules", {})}
    task = ValidateDataOperator(task_id="t", snapshot=snapshot, model_folder=folder, rules=rules, **changes)
    return task.execute(Context())  # type: ignore[arg-type]


def test_good_data_pass_and_leave_a_profile_for_the_next_time(
    store: ObjectStore, folder: str, digits: list[list[str]]
) -> None:
    put(store, folder, digits)
    snapshot, pushed = taken(folder)
    report = validated(folder, snapshot)
    version = register(store, folder, "a", snapshot_uri=pushed["manifest_uri"])
    promote(folder, version, 0)

    put(store, folder, digits[:1700])
    later = validated(folder, taken(folder)[0])

    assert report["rows"] == 1797
    assert [check["name"] for check in report["checks"]][-1] == "label balance"
    assert [check["name"] for check in later["checks"]][-1] == "drift"
    assert pushed["uris"] == [f"{file['uri']}#{file['generation']}" for file in snapshot["files"]]


def test_data_that_have_drifted_stop_the_run_and_a_person_can_let_them_pass(
    store: ObjectStore, folder: str, digits: list[list[str]]
) -> None:
    put(store, folder, digits)
    snapshot, pushed = taken(folder)
    validated(folder, snapshot)
    promote(folder, register(store, folder, "a", snapshot_uri=pushed["manifest_uri"]), 0)
    inverted = [[*(str(16 - int(pixel)) for pixel in row[:-1]), row[-1]] for row in digits]
    put(store, folder, inverted)
    drifted, _ = taken(folder)

    with pytest.raises(AirflowFailException, match=r"DataInvalid: 1 of 6 checks .* columns drifted: PSI"):
        validated(folder, drifted)

    assert validated(folder, drifted, rules={"max_drift": "100"})["rows"] == 1797


def test_every_check_that_failed_is_in_the_error_and_nothing_is_kept(
    store: ObjectStore, folder: str, digits: list[list[str]]
) -> None:
    put(store, folder, [row for row in digits if row[-1] != "3"][:500])
    snapshot, _ = taken(folder)

    with pytest.raises(AirflowFailException) as caught:
        validated(folder, snapshot)

    assert "2 of 5 checks" in str(caught.value)
    assert "rows: 500 rows, min_rows 1000" in str(caught.value)
    assert "missing: 3" in str(caught.value)
    assert store.find(f"{folder}/snapshots/{snapshot['snapshot_id']}/profile.json") is None


def everything(store: ObjectStore, folder: str) -> dict[str, int | None]:
    """Return every object of the model and its data, with its generation."""
    files, has_more = store.list_files(f"{folder}/", 1000)
    assert not has_more
    return {file.uri: file.generation for file in files}


@pytest.mark.parametrize("is_champions", [False, True])
def test_a_failed_check_leaves_everything_as_it_was(
    store: ObjectStore, folder: str, digits: list[list[str]], is_champions: bool
) -> None:
    put(store, folder, digits)
    snapshot, pushed = taken(folder)
    validated(folder, snapshot)
    version = register(store, folder, "a", snapshot_uri=pushed["manifest_uri"])
    promote(folder, version, 0)
    judge(store, folder, version)
    if not is_champions:
        put(store, folder, digits[:500])
        snapshot, _ = taken(folder)
    before = everything(store, folder)

    with pytest.raises(AirflowFailException, match="1 of 6 checks"):
        validated(folder, snapshot, rules={"min_rows": 2000})

    assert everything(store, folder) == before
    names = {uri.rpartition("/")[2] for uri in before}
    assert names >= {"champion.json", "looks.json", "version.json", "profile.json", "digits.csv"}


def test_data_are_tried_once_a_decision_was_made_and_not_when_a_version_is_there(
    store: ObjectStore, folder: str, digits: list[list[str]]
) -> None:
    put(store, folder, digits)
    snapshot, pushed = taken(folder)
    validated(folder, snapshot, skip_tried="True")
    version = register(store, folder, "refused", snapshot_uri=pushed["manifest_uri"])

    # The comparison failed before it decided; the next run has to judge.
    assert validated(folder, snapshot, skip_tried="True")["rows"] == 1797
    judge(store, folder, version)

    with pytest.raises(AirflowSkipException, match=r"version 'refused' was made from .* and judged"):
        validated(folder, snapshot, skip_tried="True")
    assert validated(folder, snapshot, skip_tried="False")["rows"] == 1797


def test_the_data_of_a_champion_of_before_decisions_were_kept_are_tried(
    store: ObjectStore, folder: str, digits: list[list[str]]
) -> None:
    put(store, folder, digits)
    snapshot, pushed = taken(folder)
    promote(folder, register(store, folder, "a", snapshot_uri=pushed["manifest_uri"]), 0)

    with pytest.raises(AirflowSkipException, match="version 'a' was made"):
        validated(folder, snapshot, skip_tried=True)


def test_data_that_are_too_large_for_a_worker_are_an_error(
    store: ObjectStore, folder: str, digits: list[list[str]]
) -> None:
    put(store, folder, digits)

    with pytest.raises(AirflowFailException, match="must be at most 1000 bytes"):
        validated(folder, taken(folder)[0], max_bytes=1000)
