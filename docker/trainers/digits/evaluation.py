"""The evaluation of one model on held-out rows, as the comparison of two models reads it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

import numpy as np
import storage
from numpy.typing import NDArray


def write_evaluation(
    job_dir: str,
    model: str,
    images: NDArray[np.float64],
    labels: NDArray[np.int64],
    answers: NDArray[np.int64],
    hold_out: Mapping[str, object] | None = None,
) -> None:
    """
    Write ``evaluation.json`` to ``job_dir``.

    It says which of the N rows ``model`` had right, and has a digest of the rows and one of each image.

    Two evaluations are of the same rows in the same order if the digests are the same. A copy of an image
    counts once where the models are compared.

    :param model: location of the model, with its generation.
    :param images: N x 64.
    :param labels: N, what is right.
    :param answers: N, what the model said.
    :param hold_out: how the rows were chosen, if that is known.
    :raises storage.StorageError: it cannot be written.
    """
    images = np.ascontiguousarray(images)
    rows = images.tobytes() + np.ascontiguousarray(labels).tobytes()
    right = answers == labels
    evaluation = {
        "examples_sha256": hashlib.sha256(rows).hexdigest(),
        "correct": "".join("1" if is_right else "0" for is_right in right),
        "model": model,
        "rows": [hashlib.sha256(image.tobytes()).hexdigest()[:16] for image in images],
        "hold_out": hold_out,
    }
    metrics = {"accuracy": float(right.mean()), "examples": len(labels)}
    for name, contents in (("evaluation.json", evaluation), ("metrics.json", metrics)):
        storage.write(storage.join(job_dir, name), json.dumps(contents).encode())
    print(f"{model}: {int(right.sum())} of {len(labels)} rows right, accuracy {right.mean():.4f}")
