"""What wrong calls are made with: operators, functions, connections, a service, a bucket."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from airflow.sdk import DAG

from container_training.comparison import compare_with_champion
from container_training.operators.data import ValidateDataOperator
from container_training.operators.image import BuildImageOperator
from container_training.operators.models import RegisterModelOperator
from container_training.operators.promotion import DecidePromotionOperator
from container_training.operators.training import SubmitTrainingJobOperator
from container_training.pipeline import training_pipeline
from container_training.step import training_step
from container_training.work.models.versions import DataSnapshot
from tests.support.bed.model_versions import NOW, make_version
from tests.support.fakes.fake_bucket import FakeBucket
from tests.support.fakes.fake_service import EPOCH, FakeService, make_job
from training_api.job.results import JobResult, StateSeconds
from training_api.states import JobState

IMAGE = "127.0.0.1:5000/demo-project/digits@sha256:" + "a" * 64
VERSION = make_version().model_dump(mode="json")
#: What a task of somebody else returned.
OTHER = {"job_id": "other_1", "rows": 7}
FOLDER = "gs://bucket/m"


@dataclass(frozen=True)
class Kit:
    """
    Makes calls; what is not given is right.

    :param setenv: sets a variable of the environment for the time of the test.
    """

    context: Any
    service: FakeService
    bucket: FakeBucket
    folder: Path
    setenv: Callable[[str, str], None]

    def run(self, operator: type[Any], **arguments: Any) -> None:
        operator(task_id="task", **arguments).execute(self.context)

    def submit(self, **arguments: Any) -> None:
        self.run(SubmitTrainingJobOperator, **{"image": IMAGE, **arguments})

    def submit_file(self, text: str) -> None:
        (self.folder / "job.yaml").write_text(text)
        self.submit(config_file=str(self.folder / "job.yaml"))

    def build(self, **arguments: Any) -> None:
        given = {"context_dir": str(self.folder), "image": "127.0.0.1:5000/demo-project/digits", **arguments}
        self.run(BuildImageOperator, **given)

    def pipeline(self, **arguments: Any) -> None:
        with DAG("wrong", schedule=None):
            training_pipeline(context_dir=str(self.folder), image="127.0.0.1:5000/p/digits", **arguments)

    def step(self, **arguments: Any) -> None:
        with DAG("wrong", schedule=None):
            training_step("step", image=IMAGE, **arguments)

    def compare(self, **arguments: Any) -> None:
        with DAG("wrong", schedule=None):
            compare_with_champion(challenger=VERSION, model_folder=FOLDER, command=["e"], **arguments)

    def after_job(self, operator: type[Any], file: str = "", content: bytes = b"", **arguments: Any) -> None:
        """Run a task about the job ``digits_1``, which ended well."""
        self.service.add(make_job(state=JobState.SUCCEEDED, start_time=EPOCH, end_time=EPOCH))
        if file:
            self.bucket.objects[f"jobs/digits_1/{file}"] = content
        self.run(operator, job_id="digits_1", **arguments)

    def decide(self, **changes: Any) -> None:
        champion = {"version": None, "generation": 0}
        given = {"challenger": VERSION, "champion": champion, "job_ids": ["digits_1"], **changes}
        self.run(DecidePromotionOperator, model_folder=FOLDER, **given)

    def decide_on(self, content: bytes) -> None:
        self.service.add(make_job(state=JobState.SUCCEEDED))
        self.bucket.objects["jobs/digits_1/evaluation.json"] = content
        self.decide()

    def register(self, **changes: Any) -> None:
        result = JobResult(
            job_id="digits_1",
            state=JobState.SUCCEEDED,
            image=IMAGE,
            job_dir="gs://bucket/jobs/digits_1",
            metrics={},
            model_uri="gs://bucket/jobs/digits_1/model.joblib",
            files=[],
            seconds=StateSeconds(queued=0, preparing=0, running=0, total=0),
        )
        self.run(RegisterModelOperator, model_folder=FOLDER, result=result.model_dump(mode="json"), **changes)

    def validate(self, **changes: Any) -> None:
        snapshot = DataSnapshot(
            snapshot_id="x", created_at=NOW, sources=[], files=[], manifest_uri=f"{FOLDER}#1"
        )
        given = snapshot.model_dump(mode="json")
        self.run(ValidateDataOperator, model_folder=FOLDER, snapshot=given, **changes)

    def submit_over(self, *, max_cost: float | None = None, **connection: Any) -> None:
        """Submit over a connection that is described so."""
        given = {"conn_type": "container_training", "host": "training.test", **connection}
        self.setenv("AIRFLOW_CONN_TRAINING_DEFAULT", json.dumps(given))
        self.submit(max_cost=max_cost)
