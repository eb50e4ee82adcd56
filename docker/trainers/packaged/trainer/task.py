"""
Fits a line to points around y = 2 x + 1, and writes its metrics and its model.

It uses gradient descent and writes below ``--job-dir``.

Run by a job as ``python -m trainer.task --steps 500 --job-dir gs://...``.
"""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path

POINTS = 200
NOISE = 0.1


def make_points(seed: int) -> list[tuple[float, float]]:
    """Return points around the line; pure."""
    source = random.Random(seed)  # noqa: S311  # data, no secret
    inputs = [source.uniform(-1, 1) for _ in range(POINTS)]
    return [(x, 2 * x + 1 + source.gauss(0, NOISE)) for x in inputs]


def fit(points: list[tuple[float, float]], steps: int, rate: float) -> tuple[float, float, float]:
    """
    Return slope, intercept and mean squared error.

    Pure, but for lines of progress.
    """
    slope = intercept = 0.0
    for step in range(1, steps + 1):
        errors = [(slope * x + intercept - y, x) for x, y in points]
        slope -= rate * 2 * sum(error * x for error, x in errors) / len(points)
        intercept -= rate * 2 * sum(error for error, _ in errors) / len(points)
        if step % max(steps // 5, 1) == 0:
            print(f"step {step}: loss {loss(points, slope, intercept):.5f}")
    return slope, intercept, loss(points, slope, intercept)


def loss(points: list[tuple[float, float]], slope: float, intercept: float) -> float:
    """Return the mean squared error; pure."""
    return sum((slope * x + intercept - y) ** 2 for x, y in points) / len(points)


def write(folder: str, name: str, value: dict[str, float]) -> None:
    """Write ``value`` as JSON into a ``gs://`` or local folder."""
    text = json.dumps(value)
    if folder.startswith("gs://"):
        from google.cloud import storage

        storage.Blob.from_uri(f"{folder.rstrip('/')}/{name}", client=storage.Client()).upload_from_string(
            text, "application/json"
        )
    else:
        Path(folder).mkdir(parents=True, exist_ok=True)
        Path(folder, name).write_text(text, encoding="utf-8")


def main() -> None:
    """Train and write the results."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--job-dir")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--learning-rate", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    slope, intercept, error = fit(make_points(options.seed), options.steps, options.learning_rate)
    print(f"y = {slope:.3f} x + {intercept:.3f}")
    if options.job_dir:
        write(options.job_dir, "model.json", {"slope": slope, "intercept": intercept})
        write(options.job_dir, "metrics.json", {"loss": error})


if __name__ == "__main__":
    main()
