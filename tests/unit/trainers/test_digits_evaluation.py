"""The digits trainer's evaluation: which rows are held out, and what a comparison reads."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from container_training.work.models.promotion import parse_evaluation
from container_training.work.models.versions import HoldOut
from tests.unit.trainers.trainer_modules import trainer_modules


@pytest.fixture(scope="module")
def trainer() -> Iterator[SimpleNamespace]:
    """The trainer's modules; nobody reads its reports."""
    hypertune = ModuleType("hypertune")
    hypertune.HyperTune = lambda: SimpleNamespace(  # type: ignore[attr-defined]
        report_hyperparameter_tuning_metric=lambda **_: None
    )
    with trainer_modules(
        ["digits"], ["data", "storage", "task", "evaluate"], {"hypertune": hypertune}
    ) as modules:
        yield modules


@pytest.fixture(scope="module")
def model(trainer: SimpleNamespace, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that was trained with rows held out by their content."""
    folder = tmp_path_factory.mktemp("job")
    assert trainer.task.main(["--hold-out", "content", "--epochs", "5", "--job-dir", str(folder)]) == 0
    return folder / "model.joblib"


def test_a_row_is_held_out_in_every_version_of_the_data(trainer: SimpleNamespace) -> None:
    images, _ = trainer.data.load(None)
    held_out = trainer.data.is_held_out(images, 0.2)
    order = np.random.default_rng(1).permutation(len(images))[:900]

    assert (trainer.data.is_held_out(images[order], 0.2) == held_out[order]).all()
    assert 0.15 < held_out.mean() < 0.25
    assert (held_out <= trainer.data.is_held_out(images, 0.5)).all()


def test_the_evaluation_is_what_the_trainer_measured(
    trainer: SimpleNamespace, model: Path, tmp_path: Path
) -> None:
    assert trainer.evaluate.main(["--model", str(model), "--job-dir", str(tmp_path)]) == 0

    evaluation = parse_evaluation((tmp_path / "evaluation.json").read_bytes(), "evaluation.json")
    measured = json.loads((model.parent / "metrics.json").read_text())
    assert evaluation.correct.count("1") / len(evaluation.correct) == pytest.approx(measured["accuracy"])
    assert len(evaluation.correct) == measured["test_rows"]
    assert evaluation.model == str(model)
    assert evaluation.hold_out == HoldOut.model_validate(measured["hold_out"])
    assert evaluation.hold_out == HoldOut(rule="content", fraction=0.2)
    assert json.loads((tmp_path / "metrics.json").read_text())["examples"] == measured["test_rows"]


def test_other_rows_have_another_digest(trainer: SimpleNamespace, model: Path, tmp_path: Path) -> None:
    digests = set()
    for fraction in ("0.2", "0.2", "0.3"):
        trainer.evaluate.main(
            ["--model", str(model), "--job-dir", str(tmp_path), "--test-fraction", fraction]
        )
        digests.add(json.loads((tmp_path / "evaluation.json").read_text())["examples_sha256"])

    assert len(digests) == 2


def test_copies_of_an_image_are_one_row_for_a_comparison(
    trainer: SimpleNamespace, model: Path, tmp_path: Path
) -> None:
    images, labels = trainer.data.load(None)
    once = np.flatnonzero(trainer.data.is_held_out(images, 0.2))
    rows = np.concatenate([np.arange(len(labels)), once[:50], once[:50]])
    np.savetxt(
        tmp_path / "rows.csv", np.column_stack([images[rows] * 16, labels[rows]]), fmt="%d", delimiter=","
    )
    assert (
        trainer.evaluate.main(
            ["--model", str(model), "--data", str(tmp_path / "rows.csv"), "--job-dir", str(tmp_path)]
        )
        == 0
    )

    evaluation = parse_evaluation((tmp_path / "evaluation.json").read_bytes(), "evaluation.json")

    assert evaluation.rows is not None
    assert len(evaluation.rows) == len(once) + 100
    assert len(set(evaluation.rows)) == len(once)


def test_several_files_are_one_data_set(trainer: SimpleNamespace, tmp_path: Path) -> None:
    images, labels = trainer.data.load(None)
    for name, rows in (("a", slice(0, 900)), ("b", slice(900, None))):
        table = np.column_stack([images[rows] * 16, labels[rows]])
        np.savetxt(tmp_path / f"{name}.csv", table, fmt="%d", delimiter=",")

    joined = trainer.data.load_all([str(tmp_path / "a.csv"), str(tmp_path / "b.csv")])

    assert (joined[0] == images).all()
    assert (joined[1] == labels).all()


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ("gs://b/d.npz#17", ("gs://b/d.npz", 17)),
        ("gs://b/d#x", ("gs://b/d#x", None)),
        ("gs://b/d", ("gs://b/d", None)),
        ("local#17", ("local#17", None)),
    ],
)
def test_an_address_may_name_a_generation(
    trainer: SimpleNamespace, location: str, expected: tuple[str, int | None]
) -> None:
    assert trainer.storage.split_generation(location) == expected


def test_a_side_without_rows_is_an_error(
    trainer: SimpleNamespace, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert trainer.evaluate.main(["--model", str(model), "--test-fraction", "1e-9"]) == 1
    assert "one side is empty" in capsys.readouterr().err


def test_a_model_that_is_not_there_is_an_error(
    trainer: SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    assert trainer.evaluate.main(["--model", "nowhere/model.joblib"]) == 1
    assert "cannot read 'nowhere/model.joblib'" in capsys.readouterr().err
