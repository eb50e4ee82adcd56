"""
Train a classifier of handwritten digits.

Writes ``model.joblib`` and ``metrics.json`` to the job directory. Exit code: 0 done, 1 failed (the reason is
on stderr), 2 wrong arguments.
"""

from __future__ import annotations

import argparse
import io
import json
import sys
import time
from collections.abc import Sequence

import arguments
import data
import hypertune
import joblib
import model
import storage

DEFAULT_JOB_DIR = "output"


def main(words: Sequence[str] | None = None) -> int:
    """Run the trainer; return its exit code."""
    options = parse_arguments(words)
    try:
        run(options)
    except (data.DataError, storage.StorageError, OSError) as error:
        print(f"digits trainer: {error}", file=sys.stderr)
        return 1
    return 0


def run(options: argparse.Namespace) -> None:
    """
    Train, evaluate, and write the results.

    :raises data.DataError: the data set cannot be used.
    :raises storage.StorageError: the data cannot be read, or the results cannot be written.
    :raises OSError: the report to the tuning service cannot be written.
    """
    rows = load_rows(options)
    network = model.make_model(
        hidden_units=options.hidden_units,
        learning_rate=options.learning_rate,
        activation=options.activation,
        train_rows=len(rows.train_labels),
        seed=options.seed,
    )
    # Only the service reads these reports: for tuning jobs, while the trainer runs.
    tuner = hypertune.HyperTune()
    started = time.monotonic()
    for epoch in model.train(network, rows, epochs=options.epochs):
        print(
            f"epoch {epoch.number}/{options.epochs}: train loss {epoch.train_loss:.4f}, "
            f"test loss {epoch.test_loss:.4f}, test accuracy {epoch.test_accuracy:.4f}"
        )
        tuner.report_hyperparameter_tuning_metric(
            hyperparameter_metric_tag="accuracy", metric_value=epoch.test_accuracy, global_step=epoch.number
        )
    metrics = {
        "accuracy": epoch.test_accuracy,
        "loss": epoch.test_loss,
        "epochs": options.epochs,
        "train_rows": len(rows.train_labels),
        "test_rows": len(rows.test_labels),
        "hold_out": data.hold_out(
            options.hold_out, options.test_fraction, None if is_by_content(options) else options.seed
        ),
    }
    print(f"trained in {time.monotonic() - started:.1f} s")
    write_results(options.job_dir, network, metrics)


def load_rows(options: argparse.Namespace) -> data.Split:
    """
    Return the rows to train and to test on.

    It raises ``data.DataError`` and ``storage.StorageError``.
    """
    images, labels = data.load_all(options.data)
    if is_by_content(options):
        rows = data.split_by_content(images, labels, test_fraction=options.test_fraction)
    else:
        rows = data.split(images, labels, test_fraction=options.test_fraction, seed=options.seed)
    source = ", ".join(options.data or ["scikit-learn's own copy"])
    print(f"data: {source}, {len(rows.train_labels)} rows to train, {len(rows.test_labels)} held out")
    return rows


def is_by_content(options: argparse.Namespace) -> bool:
    """Whether a row's own content decides if it is held out, and not the seed."""
    return bool(options.hold_out == data.BY_CONTENT)


def write_results(job_dir: str, network: object, metrics: dict[str, object]) -> None:
    """
    Write model and metrics to ``job_dir``.

    The metrics come last: if they exist, the model does. It raises ``StorageError``.
    """
    pickled = io.BytesIO()
    joblib.dump(network, pickled, compress=3)
    for name, contents in {
        "model.joblib": pickled.getvalue(),
        "metrics.json": json.dumps(metrics).encode(),
    }.items():
        location = storage.join(job_dir, name)
        storage.write(location, contents)
        print(f"wrote {location} ({len(contents)} bytes)")
    print(f"metrics: {json.dumps(metrics)}")


def parse_arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the options; on a wrong one print what is wrong and exit with 2."""
    parser = argparse.ArgumentParser(
        prog="task.py", description="Train a classifier of handwritten digits.", allow_abbrev=False
    )
    parser.add_argument(
        "--data",
        nargs="+",
        help="CSV or NPZ files, local or gs://BUCKET/NAME[#GENERATION]; without it, scikit-learn's own copy of the data",
    )
    parser.add_argument(
        "--hold-out",
        choices=("seed", data.BY_CONTENT),
        default="seed",
        help="which rows are held out: by chance, or by each row's own content, the same ones in every version of the data",
    )
    parser.add_argument(
        "--job-dir",
        default=DEFAULT_JOB_DIR,
        help="folder for model.joblib and metrics.json, local or gs://BUCKET/FOLDER (default: %(default)s)",
    )
    parser.add_argument(
        "--epochs",
        type=arguments.count,
        default=30,
        help="passes over the training rows (default: %(default)s)",
    )
    parser.add_argument(
        "--learning-rate",
        type=arguments.rate,
        default=0.002,
        help="step size, at most 1 (default: %(default)s)",
    )
    parser.add_argument(
        "--hidden-units",
        type=arguments.count,
        default=128,
        help="width of the hidden layer (default: %(default)s)",
    )
    parser.add_argument(
        "--activation",
        choices=model.ACTIVATIONS,
        default="relu",
        help="of the hidden layer (default: %(default)s)",
    )
    parser.add_argument(
        "--seed",
        type=arguments.seed,
        default=0,
        help="decides the split and the weights (default: %(default)s)",
    )
    parser.add_argument(
        "--test-fraction",
        type=arguments.fraction,
        default=0.2,
        help="share of rows held out (default: %(default)s)",
    )
    return parser.parse_args(words)


if __name__ == "__main__":
    sys.exit(main())
