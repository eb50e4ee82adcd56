"""Packages and scripts of CustomJobs in real containers, by Google's SDK."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from google.auth.credentials import AnonymousCredentials
from google.cloud import storage  # noqa: TID253  # what the SDK stages with

from local_stack.stack import LocalStack
from tests.support.bed.vertex import OFFLINE, PREBUILT, source_package
from tests.support.speed import scaled
from tests.support.waiting import wait_until
from training_api.clients.log_cursor import job_log_filter
from training_api.clients.training import TrainingClient
from training_api.job.image_ref import ImageRef

pytestmark = [pytest.mark.docker, pytest.mark.timeout(300)]

TRAINER = """\
import json, os, sys
print("told", json.dumps({"args": sys.argv[1:], "word": os.environ["WORD"], "user": os.getuid()}), flush=True)
"""
#: What a user of the SDK writes who asks for no transport; it uses gRPC and TLS.
OVER_GRPC = """
import sys
from google.auth.credentials import AnonymousCredentials
from google.cloud import aiplatform

project, endpoint, bucket, package, image, script = sys.argv[1:]
aiplatform.init(
    project=project,
    location="us-central1",
    api_endpoint=endpoint,
    credentials=AnonymousCredentials(),
    staging_bucket=bucket,
)

def packaged(name):
    return aiplatform.CustomPythonPackageTrainingJob(
        display_name=name, python_package_gcs_uri=package, python_module_name="trainer.task", container_uri=image
    )

offline = {"PIP_NO_INDEX": "1", "PIP_NO_BUILD_ISOLATION": "0"}
pipelines = {
    packaged("a package"): {"WORD": "of the package"},
    aiplatform.CustomTrainingJob(display_name="a script", script_path=script, container_uri=image): {
        "WORD": "of the script"
    },
    packaged("failing"): {},
}
for pipeline, variables in pipelines.items():
    pipeline.run(args=["--epochs", "3"], environment_variables=offline | variables, sync=False)
for pipeline in pipelines:
    try:
        pipeline.wait()
    except RuntimeError as error:
        print(error, file=sys.stderr)
    job = pipeline.gca_resource.training_task_metadata["backingCustomJob"].rpartition("/")[2]
    print("ended", job, pipeline.state.name)
"""


@pytest.fixture
def bucket(stack: LocalStack, monkeypatch: pytest.MonkeyPatch) -> Iterator[storage.Bucket]:
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", stack.settings.object_store_url)
    client = storage.Client(project=stack.settings.project, credentials=AnonymousCredentials())
    yield client.bucket(stack.settings.bucket)
    client._http.close()
    client.close()


@pytest.fixture
def sdk(stack: LocalStack) -> Iterator[Any]:
    from google.cloud import aiplatform

    aiplatform.init(
        project=stack.settings.project,
        location="us-central1",
        api_endpoint=f"{stack.settings.training_url}/vertex",
        api_transport="rest",
        credentials=AnonymousCredentials(),
        staging_bucket=f"gs://{stack.settings.bucket}",
    )
    yield aiplatform
    # What it keeps is the process's.
    aiplatform.initializer.global_config.__init__()


@pytest.fixture
def run(training: TrainingClient) -> Callable[[Any], tuple[Any, str]]:
    """Submit a job, and return it when it has ended, with its log."""

    def run(job: Any) -> tuple[Any, str]:
        job.submit()
        wait_until(lambda: job.end_time, f"{job.name} has ended", seconds=150)
        return job, log_text(training, job.name)

    return run


def log_text(training: TrainingClient, job_id: str) -> str:
    entries = training.list_log_entries(job_log_filter(job_id)).entries or []
    return "\n".join(entry.message or "" for entry in entries)


def package_job(sdk: Any, image: str, uri: str, *args: str) -> Any:
    pool = {
        "machine_spec": {"machine_type": "n1-standard-4"},
        "replica_count": 1,
        "python_package_spec": {
            "executor_image_uri": image,
            "package_uris": [uri],
            "python_module": "trainer.task",
            "args": list(args),
            "env": [{"name": "WORD", "value": "of the pool"}],
        },
    }
    return sdk.CustomJob(display_name="packages", worker_pool_specs=[pool])


@pytest.fixture
def package(bucket: storage.Bucket, job_id: str) -> str:
    name = f"{job_id}/trainer-0.0.0.tar.gz"
    bucket.blob(name).upload_from_string(source_package(TRAINER))
    return f"gs://{bucket.name}/{name}"


def told(log: str) -> dict[str, Any]:
    (line,) = [line for line in log.splitlines() if line.startswith("told ")]
    found: dict[str, Any] = json.loads(line.removeprefix("told "))
    return found


def test_packages_run_in_a_plain_image_and_in_what_a_prebuilt_one_stands_for(
    sdk: Any, run: Callable[[Any], Any], pushed_image: ImageRef, package: str
) -> None:
    plain, log = run(package_job(sdk, str(pushed_image), package, "--who", "$(WORD)"))
    prebuilt, other_log = run(package_job(sdk, PREBUILT, package))

    assert plain.state.name == "JOB_STATE_SUCCEEDED", log
    assert told(log) == {"args": ["--who", "of the pool"], "word": "of the pool", "user": 0}
    assert "the packages run on the image's Python 3." in log
    assert prebuilt.state.name == "JOB_STATE_SUCCEEDED", other_log
    assert told(other_log)["user"] == 65534  # the runtime image's
    (pool,) = prebuilt.gca_resource.job_spec.worker_pool_specs
    assert pool.python_package_spec.executor_image_uri == PREBUILT


def test_a_package_that_cannot_be_installed_fails_the_job_with_pips_words(
    sdk: Any, run: Callable[[Any], Any], pushed_image: ImageRef, bucket: storage.Bucket, job_id: str
) -> None:
    name = f"{job_id}/trainer-0.0.0.tar.gz"
    bucket.blob(name).upload_from_string(b"no archive")

    job, log = run(package_job(sdk, str(pushed_image), f"gs://{bucket.name}/{name}"))

    assert job.state.name == "JOB_STATE_FAILED"
    assert job.error.code == 3
    assert "workerpool0-0 exited with a non-zero status of 65" in job.error.message
    assert f"{name}#" in log
    assert "is no tar archive" in log


@pytest.mark.extended
def test_a_local_script_on_an_image_of_its_own_runs_from_the_package_below_gcs(
    sdk: Any, run: Callable[[Any], Any], pushed_image: ImageRef, bucket: storage.Bucket, tmp_path: Path
) -> None:
    script = tmp_path / "script.py"
    script.write_text(TRAINER)

    job, log = run(
        sdk.CustomJob.from_local_script(
            display_name="a script",
            script_path=str(script),
            container_uri=str(pushed_image),
            args=["--epochs", "3"],
            environment_variables={"WORD": "of the script", **OFFLINE},
        )
    )

    assert job.state.name == "JOB_STATE_SUCCEEDED", log
    assert told(log) == {"args": ["--epochs", "3"], "word": "of the script", "user": 0}
    assert f"[runtime] /gcs/{bucket.name}/aiplatform-" in log


def data_job(sdk: Any, command: str, *args: str) -> Any:
    pool = {
        "machine_spec": {"machine_type": "n1-standard-4"},
        "replica_count": 1,
        "container_spec": {"image_uri": PREBUILT, "command": ["sh", "-c", command], "args": list(args)},
    }
    return sdk.CustomJob(display_name="data", worker_pool_specs=[pool])


def test_a_user_without_rights_finds_the_objects_below_gcs_and_writes_nothing_there(
    sdk: Any, run: Callable[[Any], Any], bucket: storage.Bucket, job_id: str
) -> None:
    bucket.blob(f"{job_id}/data.csv").upload_from_string(b"a,b\n")
    data = f"/gcs/{bucket.name}/{job_id}/data.csv"

    job, log = run(data_job(sdk, 'cat "$0"; id -u; touch "$(dirname "$0")/new" || true', data))
    refused, why = run(data_job(sdk, 'cat "$0" > "$1"', data, f"/gcs/{bucket.name}/{job_id}/copy"))

    assert job.state.name == "JOB_STATE_SUCCEEDED", log
    assert {"a,b", "65534"} <= set(log.splitlines())
    assert "Permission denied" in log
    assert "workerpool0-0 exited with a non-zero status of 66" in refused.error.message
    assert f"there is no gs://{bucket.name}/{job_id}/copy; /gcs has only the objects that" in why


def log_of(training: TrainingClient, pipeline: Any) -> str:
    """Return the log of the job that the pipeline ran."""
    pipeline._sync_gca_resource()
    job = pipeline.gca_resource.training_task_metadata["backingCustomJob"]
    return log_text(training, job.rpartition("/")[2])


def test_a_pipeline_of_a_package_runs_it_on_a_prebuilt_image(
    sdk: Any, training: TrainingClient, package: str
) -> None:
    pipeline = sdk.CustomPythonPackageTrainingJob(
        display_name="package",
        python_package_gcs_uri=package,
        python_module_name="trainer.task",
        container_uri=PREBUILT,
    )

    model = pipeline.run(args=["--epochs", "3"], environment_variables={"WORD": "of the package"})

    log = log_of(training, pipeline)
    assert model is None
    assert pipeline.state.name == "PIPELINE_STATE_SUCCEEDED", log
    assert told(log) == {"args": ["--epochs", "3"], "word": "of the package", "user": 65534}


@pytest.mark.extended
def test_a_pipeline_of_a_package_that_fails_has_the_trainers_last_words(
    sdk: Any, training: TrainingClient, bucket: storage.Bucket, job_id: str
) -> None:
    name = f"{job_id}/trainer-0.0.0.tar.gz"
    bucket.blob(name).upload_from_string(source_package("raise SystemExit('no data')\n"))
    pipeline = sdk.CustomPythonPackageTrainingJob(
        display_name="failing",
        python_package_gcs_uri=f"gs://{bucket.name}/{name}",
        python_module_name="trainer.task",
        container_uri=PREBUILT,
    )

    with pytest.raises(RuntimeError, match="workerpool0-0 exited with a non-zero status of 1") as caught:
        pipeline.run()

    assert "no data" in str(caught.value)
    assert pipeline.state.name == "PIPELINE_STATE_FAILED"
    assert pipeline.error.code == 3
    assert "no data" in log_of(training, pipeline)


@pytest.mark.extended
def test_a_pipeline_of_a_local_script_runs_on_a_prebuilt_image(
    sdk: Any, training: TrainingClient, bucket: storage.Bucket, tmp_path: Path
) -> None:
    script = tmp_path / "script.py"
    script.write_text(TRAINER)
    pipeline = sdk.CustomTrainingJob(display_name="script", script_path=str(script), container_uri=PREBUILT)

    pipeline.run(args=["--epochs", "3"], environment_variables={"WORD": "of the script", **OFFLINE})

    log = log_of(training, pipeline)
    assert pipeline.state.name == "PIPELINE_STATE_SUCCEEDED", log
    assert told(log) == {"args": ["--epochs", "3"], "word": "of the script", "user": 65534}


@pytest.mark.extended
def test_pipelines_over_grpc_train_and_end_with_the_trainers_last_words(
    stack: LocalStack, training: TrainingClient, package: str, tmp_path: Path
) -> None:
    script = tmp_path / "script.py"
    script.write_text(TRAINER)
    trusted = stack.settings.certificates_dir / "authority.pem"
    endpoint = f"127.0.0.1:{stack.settings.grpc_port}"
    given = (stack.settings.project, endpoint, stack.settings.job_bucket, package, PREBUILT, str(script))

    done = subprocess.run(
        [sys.executable, "-c", OVER_GRPC, *given],
        env={**os.environ, "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH": str(trusted)},
        capture_output=True,
        text=True,
        timeout=scaled(120),
        check=False,
    )

    assert done.returncode == 0, done.stderr
    ends = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("ended ")]
    jobs, states = zip(*ends, strict=True)
    assert states == ("PIPELINE_STATE_SUCCEEDED", "PIPELINE_STATE_SUCCEEDED", "PIPELINE_STATE_FAILED"), (
        done.stderr
    )
    words = [told(log_text(training, job)) for job in jobs[:2]]
    assert [(each["word"], each["args"]) for each in words] == [
        ("of the package", ["--epochs", "3"]),
        ("of the script", ["--epochs", "3"]),
    ]
    assert "workerpool0-0 exited with a non-zero status of 1" in done.stderr
    assert "KeyError: " in done.stderr
