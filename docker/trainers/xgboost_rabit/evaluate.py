"""
Evaluate a model that ``task.py`` wrote, on all rows of ``--data``.

Writes ``evaluation.json`` and ``metrics.json`` to the job directory. Exit code: 0 done, 1 failed (the reason
is on stderr), 2 wrong arguments.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import data
import evaluation
import storage
import xgboost


def main(words: Sequence[str] | None = None) -> int:
    """Run the evaluation; return its exit code."""
    options = parse_arguments(words)
    try:
        run(options)
    except (data.DataError, storage.StorageError, xgboost.core.XGBoostError, OSError) as error:
        print(f"xgboost_rabit evaluation: {error}", file=sys.stderr)
        return 1
    return 0


def run(options: argparse.Namespace) -> None:
    """Read the model and the rows, and write what it had right. Raises what ``main`` catches."""
    images, labels = data.load_all(options.data)
    booster = xgboost.Booster()
    booster.load_model(bytearray(storage.read(options.model)))
    answers = data.DIGITS[booster.predict(xgboost.DMatrix(images)).argmax(axis=1)]
    evaluation.write_evaluation(options.job_dir, options.model, images, labels, answers)


def parse_arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the options; on a wrong one print what is wrong and exit with 2."""
    parser = argparse.ArgumentParser(
        prog="evaluate.py", description="Evaluate a classifier of handwritten digits.", allow_abbrev=False
    )
    parser.add_argument("--model", required=True, help="model.json, local or gs://BUCKET/NAME[#GENERATION]")
    parser.add_argument("--data", nargs="+", required=True, help="as that of task.py")
    parser.add_argument(
        "--job-dir", default="output", help="folder for the evaluation (default: %(default)s)"
    )
    return parser.parse_args(words)


if __name__ == "__main__":
    sys.exit(main())
