"""A configurable trainer that needs only Python: for tests of everything around it."""

from __future__ import annotations

from pathlib import Path

DOCKERFILE = """\
ARG BASE_IMAGE=python:3.11-slim-bookworm
FROM ${BASE_IMAGE}
COPY task.py /task.py
ENTRYPOINT ["python3", "-u", "/task.py"]
"""
TASK = """\
import argparse
import json
import os
import time
import urllib.parse
import urllib.request

parser = argparse.ArgumentParser()
parser.add_argument("--job-dir", default="")
parser.add_argument("--epochs", type=int, default=1)
parser.add_argument("--accuracy", type=float, default=0.5)
parser.add_argument("--learning-rate", type=float, default=0.1)
parser.add_argument("--sleep", type=float, default=0.0)
parser.add_argument("--model", default="")
parser.add_argument("--exit-code", type=int, default=0)
options = parser.parse_args()


def write(name, value):
    bucket, _, folder = options.job_dir.removeprefix("gs://").partition("/")
    place = urllib.parse.quote(f"{folder.rstrip('/')}/{name}", safe="")
    url = f"{os.environ['STORAGE_EMULATOR_HOST']}/upload/storage/v1/b/{bucket}/o?uploadType=media&name={place}"
    headers = {"Content-Type": "application/octet-stream"}
    urllib.request.urlopen(urllib.request.Request(url, json.dumps(value).encode(), headers)).close()


for epoch in range(options.epochs):
    print("epoch", epoch + 1, flush=True)
time.sleep(options.sleep)
if options.exit_code:
    raise SystemExit(options.exit_code)
report = os.environ.get("CLOUD_ML_HP_METRIC_FILE")
if report:
    with open(report, "a") as file:
        line = {"timestamp": time.time(), "trial": os.environ.get("CLOUD_ML_TRIAL_ID", "0")}
        line |= {"accuracy": str(1 - options.learning_rate), "global_step": "1"}
        file.write(json.dumps(line) + "\\n")
if options.job_dir:
    write("metrics.json", {"accuracy": options.accuracy, "epochs": options.epochs})
    if options.model:
        answers = {"examples_sha256": "0" * 64, "correct": "1101", "model": options.model}
        write("evaluation.json", answers)
    else:
        write("model.joblib", {"weights": []})
"""


def write_trainer(folder: Path, *, name: str = "trainer") -> Path:
    """Write the trainer to ``folder/name`` and return that; images of other names differ."""
    trainer = folder / name
    trainer.mkdir(parents=True)
    (trainer / "Dockerfile").write_text(DOCKERFILE + f'LABEL trainer="{name}"\n', encoding="utf-8")
    (trainer / "task.py").write_text(TASK, encoding="utf-8")
    return trainer
