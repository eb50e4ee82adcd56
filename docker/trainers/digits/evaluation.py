"""The evaluation of one model on held-out rows, as the comparison of two models reads it."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import storage
from numpy.typing import NDArray


def write_evaluation(
    job_dir: str,
    model: str,
    images: NDArray[np.float64],
    labels: NDArray[np.int64],
    answers: NDArray[np.int64],
) -> None:
    """
    Write ``evaluation.json`` to ``job_dir``.

    It says which of the N rows ``model`` had right, and has a digest of the rows.

    Two evaluations are of the same rows in the same order if the digests are the same.

    :param model: location of the model, with its generation.
    :param images: N x 64.
    :param labels: N, what is right.
    :param answers: N, what the model said.
    :raises storage.StorageError: it cannot be written.
    """
    rows = np.ascontiguousarray(images).tobytes() + np.ascontiguousarray(labels).tobytes()
    right = answers == labels
    evaluation = {
        "examples_sha256": hashlib.sha256(rows).hexdigest(),
        "correct": "".join("1" if is_right else "0" for is_right in right),
        "model": model,
    }
    metrics = {"accuracy": float(right.mean()), "examples": len(labels)}
    for name, contents in (("evaluation.json", evaluation), ("metrics.json", metrics)):
        storage.write(storage.join(job_dir, name), json.dumps(contents).encode())
    print(f"{model}: {int(right.sum())} of {len(labels)} rows right, accuracy {right.mean():.4f}")
