"""
Prepare the data: drop duplicate rows, and hold out a part for the final evaluation.

Writes ``train.npz``, ``holdout.npz`` and ``metrics.json`` to the job directory. Exit code: 0 done, 1 failed
(the reason is on stderr), 2 wrong arguments.
"""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Sequence

import arguments
import data
import numpy as np
import results
import storage
from numpy.typing import NDArray


def main(words: Sequence[str] | None = None) -> int:
    """Prepare; return the exit code."""
    options = parse_arguments(words)
    try:
        run(options)
    except (data.DataError, storage.StorageError, OSError) as error:
        print(f"prepare: {error}", file=sys.stderr)
        return 1
    return 0


def run(options: argparse.Namespace) -> None:
    """Read, prepare and write. Raises what ``main`` catches."""
    images, labels = data.load_all(options.data)
    _, first = np.unique(images, axis=0, return_index=True)
    kept = np.sort(first)
    rows = data.split_by_content(images[kept], labels[kept], test_fraction=options.test_fraction)
    files = {
        "train.npz": packed(rows.train_images, rows.train_labels),
        "holdout.npz": packed(rows.test_images, rows.test_labels),
    }
    counts = {
        "rows": len(labels),
        "duplicates": len(labels) - len(kept),
        "train_rows": len(rows.train_labels),
        "holdout_rows": len(rows.test_labels),
        "hold_out": data.hold_out(data.BY_CONTENT, options.test_fraction),
    }
    results.write_results(options.job_dir, files, counts)


def packed(images: NDArray[np.float64], labels: NDArray[np.int64]) -> bytes:
    """Return an NPZ file as ``data.load`` reads it; pure."""
    target = io.BytesIO()
    np.savez_compressed(target, data=images * data.BRIGHTEST, target=labels)
    return target.getvalue()


def parse_arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the options; on a wrong one print what is wrong and exit with 2."""
    parser = argparse.ArgumentParser(
        prog="prepare.py", description="Prepare the images of digits.", allow_abbrev=False
    )
    parser.add_argument("--data", nargs="+", help="as that of task.py")
    parser.add_argument("--job-dir", default="output", help="folder for the results (default: %(default)s)")
    parser.add_argument(
        "--test-fraction", type=arguments.fraction, default=0.2, help="share held out (default: %(default)s)"
    )
    return parser.parse_args(words)


if __name__ == "__main__":
    sys.exit(main())
