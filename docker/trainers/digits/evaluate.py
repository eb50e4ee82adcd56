"""
Evaluate a model of ``task.py`` on the rows that ``--hold-out=content`` never trains on.

Writes ``evaluation.json`` and ``metrics.json`` to the job directory. Exit code: 0 done, 1 failed (the reason
is on stderr), 2 wrong arguments. Reading a model runs what is in its file: give it only models of your own.
"""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Sequence

import arguments
import data
import evaluation
import joblib
import storage


def main(words: Sequence[str] | None = None) -> int:
    """Run the evaluation; return its exit code."""
    options = parse_arguments(words)
    try:
        run(options)
    except (data.DataError, storage.StorageError, OSError) as error:
        print(f"digits evaluation: {error}", file=sys.stderr)
        return 1
    return 0


def run(options: argparse.Namespace) -> None:
    """Read the model and the rows, and write what it had right. Raises what ``main`` catches."""
    rows = data.split_by_content(*data.load_all(options.data), test_fraction=options.test_fraction)
    network = joblib.load(io.BytesIO(storage.read(options.model)))
    answers = data.DIGITS[network.predict_proba(rows.test_images).argmax(axis=1)]
    evaluation.write_evaluation(
        options.job_dir,
        options.model,
        rows.test_images,
        rows.test_labels,
        answers,
        data.hold_out(data.BY_CONTENT, options.test_fraction),
    )


def parse_arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the options; on a wrong one print what is wrong and exit with 2."""
    parser = argparse.ArgumentParser(
        prog="evaluate.py", description="Evaluate a classifier of handwritten digits.", allow_abbrev=False
    )
    parser.add_argument("--model", required=True, help="model.joblib, local or gs://BUCKET/NAME[#GENERATION]")
    parser.add_argument("--data", nargs="+", help="as that of task.py")
    parser.add_argument(
        "--job-dir", default="output", help="folder for the evaluation (default: %(default)s)"
    )
    parser.add_argument("--test-fraction", type=arguments.fraction, default=0.2, help="as that of task.py")
    return parser.parse_args(words)


if __name__ == "__main__":
    sys.exit(main())
