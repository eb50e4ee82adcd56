"""A trial's event files in the object store, read as they grow."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.fakes.summary_objects import FakeObjects
from training_service.intake import summary_files
from training_service.intake.summary_files import SummaryFiles

TF1 = Path(__file__).parent / "events" / "tf1-0.tfevents"


def test_a_growing_file_is_read_once() -> None:
    objects, content = FakeObjects(), TF1.read_bytes()
    files = SummaryFiles(objects, "gs://bucket/jobs/1")
    name = "jobs/1/eval/events.out.tfevents.1.host"
    objects.put("jobs/10/events.out.tfevents.1.other-trial", content)
    objects.put("jobs/1/model.txt", content)

    found = []
    for end in (100, 100, 250, len(content)):
        objects.put(name, content[:end])
        found += list(files.look())

    assert [one.sequence for one in found] == list(range(10))
    assert {one.source for one in found} == {"eval/events.out.tfevents.1.host"}
    assert list(files.look()) == []
    # Of a record that had only begun the bytes are read again.
    assert len(content) <= objects.read_bytes < len(content) + 2 * 100


def test_an_unfinished_record_takes_no_memory_between_looks() -> None:
    objects, content = FakeObjects(), TF1.read_bytes()
    files = SummaryFiles(objects, "gs://bucket/jobs/1")
    objects.put("jobs/1/events.out.tfevents.1.host", content[:-3])

    first = list(files.look())
    objects.put("jobs/1/events.out.tfevents.1.host", content)
    second = list(files.look())

    assert [one.sequence for one in first + second] == list(range(10))
    assert second
    (progress,) = files._progress.values()
    assert progress.reader._rest == b""


def test_a_large_file_is_read_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(summary_files, "PIECE_BYTES", 50)
    objects = FakeObjects()
    objects.put("jobs/1/events.out.tfevents.1.host", TF1.read_bytes())

    found = list(SummaryFiles(objects, "gs://bucket/jobs/1").look())

    assert [one.sequence for one in found] == list(range(10))


def test_each_file_is_a_source_of_its_own() -> None:
    objects = FakeObjects()
    for name in ("train", "eval"):
        objects.put(f"jobs/1/{name}/events.out.tfevents.1.host", TF1.read_bytes())

    found = list(SummaryFiles(objects, "gs://bucket/jobs/1/").look())

    assert [one.sequence for one in found] == [*range(10), *range(10)]
    assert {one.source for one in found} == {
        "eval/events.out.tfevents.1.host",
        "train/events.out.tfevents.1.host",
    }
