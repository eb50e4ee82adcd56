"""What a trainer leaves in its job directory."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import storage


def write_results(job_dir: str, model: Mapping[str, bytes], metrics: Mapping[str, Any]) -> None:
    """
    Write the files of a model, then ``metrics.json``: if the metrics exist, the model does.

    :param job_dir: local folder or ``gs://BUCKET/FOLDER``.
    :param model: contents by name below ``job_dir``.
    :raises storage.StorageError: it cannot be written.
    """
    for name, contents in {**model, "metrics.json": json.dumps(metrics).encode()}.items():
        location = storage.join(job_dir, name)
        storage.write(location, contents)
        print(f"wrote {location} ({len(contents)} bytes)")
    print(f"metrics: {json.dumps(metrics)}")


def add_job_dir(parser: argparse.ArgumentParser) -> None:
    """
    Add the argument ``--job-dir``.

    AI Platform Training passes it. Vertex AI does not, and has a variable.
    """
    parser.add_argument(
        "--job-dir",
        default=os.environ.get("AIP_MODEL_DIR", "output"),
        help="folder for the results, local or gs://BUCKET/FOLDER (default: %(default)s)",
    )


def files_below(folder: Path, prefix: str) -> dict[str, bytes]:
    """Return the contents of all files below ``folder``, by ``prefix`` and their path."""
    return {
        f"{prefix}/{path.relative_to(folder).as_posix()}": path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
