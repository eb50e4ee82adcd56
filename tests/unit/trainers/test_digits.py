"""The digits trainer, without a container: its data, arguments, results and accuracy."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.unit.trainers.trainer_modules import trainer_modules


@pytest.fixture(scope="module")
def trainer() -> Iterator[SimpleNamespace]:
    """The trainer's modules, and what it reported to the tuning service."""
    reports: list[dict[str, Any]] = []
    hypertune = ModuleType("hypertune")
    hypertune.HyperTune = lambda: SimpleNamespace(  # type: ignore[attr-defined]
        report_hyperparameter_tuning_metric=lambda **report: reports.append(report)
    )
    names = ["data", "model", "storage", "task"]
    with trainer_modules(["digits"], names, {"hypertune": hypertune}) as modules:
        modules.reports = reports
        yield modules


def make_csv(header: str = "") -> bytes:
    text = io.StringIO()
    rows = np.column_stack([np.tile(np.arange(64) % 17, (40, 1)), np.arange(40) % 10])
    np.savetxt(text, rows, fmt="%d", delimiter=",")
    return (header + text.getvalue()).encode()


@pytest.mark.extended
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_defaults_reach_the_promised_accuracy(
    trainer: SimpleNamespace, tmp_path: Path, seed: int
) -> None:
    code = trainer.task.main(["--seed", str(seed), "--job-dir", str(tmp_path / "job")])

    metrics = json.loads((tmp_path / "job" / "metrics.json").read_text())
    assert code == 0
    assert metrics["accuracy"] >= 0.95
    assert (metrics["epochs"], metrics["train_rows"], metrics["test_rows"]) == (30, 1437, 360)
    assert trainer.reports[-1]["metric_value"] == metrics["accuracy"]
    assert (tmp_path / "job" / "model.joblib").stat().st_size > 0


def test_the_saved_model_has_the_reported_accuracy(trainer: SimpleNamespace, tmp_path: Path) -> None:
    import joblib

    trainer.task.main(["--epochs", "3", "--seed", "5", "--job-dir", str(tmp_path)])

    images, labels = trainer.data.load(None)
    rows = trainer.data.split(images, labels, test_fraction=0.2, seed=5)
    accuracy = joblib.load(tmp_path / "model.joblib").score(rows.test_images, rows.test_labels)
    assert accuracy == json.loads((tmp_path / "metrics.json").read_text())["accuracy"]


def test_the_tuning_service_gets_the_accuracy_of_every_epoch(
    trainer: SimpleNamespace, tmp_path: Path
) -> None:
    trainer.reports.clear()

    words = ["--learning-rate=0.01", "--hidden-units=16.0", "--activation=tanh", "--epochs", "3"]
    assert trainer.task.main([*words, "--job-dir", str(tmp_path)]) == 0

    assert [report["global_step"] for report in trainer.reports] == [1, 2, 3]
    assert {report["hyperparameter_metric_tag"] for report in trainer.reports} == {"accuracy"}
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    assert trainer.reports[-1]["metric_value"] == metrics["accuracy"]


@pytest.mark.parametrize("header", ["", "pixel_0,label\n"])
def test_a_csv_file_is_read_with_and_without_a_header(trainer: SimpleNamespace, header: str) -> None:
    images, labels = trainer.data.parse_csv(make_csv(header))

    assert images.shape == (40, 64)
    assert images.max() == 1.0
    assert labels[:3].tolist() == [0, 1, 2]


def test_an_npz_file_is_the_same_data(trainer: SimpleNamespace) -> None:
    packed = io.BytesIO()
    np.savez(packed, data=np.full((3, 64), 8), target=np.array([1, 2, 3]))

    images, labels = trainer.data.parse_npz(packed.getvalue())

    assert images.tolist() == np.full((3, 64), 0.5).tolist()
    assert labels.tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("name", "contents", "message"),
    [
        ("words.csv", b"a,b\nc,d\n", "not a CSV file of numbers"),
        ("narrow.csv", b"1,2,3\n", "got 3 columns"),
        ("empty.csv", b"", "the file is empty"),
        ("label.csv", b"0," * 64 + b"12\n", "digit from 0 to 9"),
        ("bright.csv", b"17," * 64 + b"1\n", "between 0 and 16"),
        ("few.csv", b"0," * 64 + b"1\n", "1 rows cannot be split"),
        ("broken.npz", b"no zip", "not an NPZ file"),
    ],
)
def test_data_that_cannot_be_used_ends_with_1_and_a_reason(
    trainer: SimpleNamespace,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    name: str,
    contents: bytes,
    message: str,
) -> None:
    (tmp_path / name).write_bytes(contents)

    code = trainer.task.main(["--data", str(tmp_path / name), "--job-dir", str(tmp_path)])

    assert code == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["--epochs", "0"],
        ["--epochs", "1.5"],
        ["--epochs", "inf"],
        ["--learning-rate", "0"],
        ["--learning-rate", "nan"],
        ["--hidden-units", "x"],
        ["--activation", "step"],
        ["--test-fraction", "1"],
        ["--seed", "-1"],
        ["--unknown", "1"],
        ["--epoch", "1"],
    ],
)
def test_wrong_arguments_end_with_2_and_name_the_argument(
    trainer: SimpleNamespace, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        trainer.task.main(arguments)

    assert caught.value.code == 2
    assert arguments[0] in capsys.readouterr().err


def test_a_searched_integer_may_come_as_a_float(trainer: SimpleNamespace) -> None:
    assert trainer.task.parse_arguments(["--epochs", "30.0"]).epochs == 30


@pytest.mark.parametrize(
    ("folder", "expected"),
    [("gs://b/job/", "gs://b/job/x"), ("gs://b/job", "gs://b/job/x"), ("out", "out/x"), ("/", "/x")],
)
def test_locations_are_joined(trainer: SimpleNamespace, folder: str, expected: str) -> None:
    assert trainer.storage.join(folder, "x") == expected


@pytest.mark.parametrize("uri", ["gs://", "gs://b", "gs://b/", "gs:///x"])
def test_a_uri_without_bucket_or_name_is_refused(trainer: SimpleNamespace, uri: str) -> None:
    with pytest.raises(trainer.storage.StorageError, match="must be gs://BUCKET/NAME"):
        trainer.storage.split_uri(uri)
