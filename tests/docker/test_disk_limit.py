"""Trainers that write more than a job may are stopped with the reason, others go on."""

from __future__ import annotations

import uuid
from contextlib import closing

import docker
import pytest

from container_engines.disk_use import DiskUse
from container_engines.docker import engine as module
from container_engines.docker.engine import DockerEngine
from local_stack.stack import LocalStack
from tests.support.bed.job_watch import until_end
from tests.support.run_id import current_run
from training_api.clients.training import TrainingClient
from training_api.dialects.ml_v1.resources import Job, ReplicaConfig, TrainingInput
from training_api.job.image_ref import ImageRef
from training_api.states import JobState

pytestmark = pytest.mark.docker

#: More than the test bed's TRAINING_DISK_LIMIT_BYTES.
TOO_MUCH = 2200 * 2**20
#: Blocks are taken at once, without the time that it takes to write them.
TAKES = "import os, time\nos.posix_fallocate(os.open({path}, os.O_CREAT | os.O_WRONLY), 0, {size})\n"
MAKES_FILES = "import time\nfor number in range(60_000):\n  open(f'/tmp/{number}', 'w').close()\n"
#: A copy takes no disk, and counts as often as it is there.
MAKES_OBJECTS = """
import os, time, urllib.request
host, bucket, folder = os.environ["STORAGE_EMULATOR_HOST"], "{bucket}", "{folder}"
name = folder.replace("/", "%2F")
def post(path, content=b""):
    urllib.request.urlopen(urllib.request.Request(host + path, content, {{"Content-Type": "a/b"}}, method="POST"))
post(f"/upload/storage/v1/b/{{bucket}}/o?uploadType=media&name={{name}}%2F0", bytes(64 * 2**20))
for number in range(1, 40):
    source = f"b/{{bucket}}/o/{{name}}%2F0"
    post(f"/storage/v1/{{source}}/rewriteTo/b/{{bucket}}/o/{{name}}%2F{{number}}")
"""
WAITS = "\ntime.sleep({seconds})\n"


@pytest.mark.proves("limits of what a container writes to its disk", on="one machine")
def test_trainers_that_write_too_much_are_stopped_with_the_reason(
    training: TrainingClient, stack: LocalStack, pushed_image: ImageRef, engine_client: docker.APIClient
) -> None:
    run, bucket = uuid.uuid4().hex[:8], stack.settings.bucket
    metrics = "os.path.dirname(os.environ['CLOUD_ML_HP_METRIC_FILE']) + '/big'"
    objects = MAKES_OBJECTS.format(bucket=bucket, folder=f"jobs/objects_{run}")
    programs = {
        "root": (TAKES.format(path="'/tmp/big'", size=TOO_MUCH), "its container's root"),
        "mounted": (TAKES.format(path="'/etc/hosts'", size=TOO_MUCH), "its container's root"),
        "files": (MAKES_FILES, "files to its container's root"),
        "metrics": (TAKES.format(path=metrics, size=300 * 2**20), "its folder for metrics"),
        "objects": (objects, f"its job directory gs://{bucket}/jobs/objects_{run}"),
        "polite": (TAKES.format(path="'/tmp/small'", size=100 * 2**20), ""),
    }
    for name, (program, where) in programs.items():
        waits = WAITS.format(seconds=600 if where else 40)
        master = ReplicaConfig(
            image_uri=str(pushed_image), container_command=["python3", "-c", program + waits]
        )
        training_input = TrainingInput(master_config=master, job_dir=f"gs://{bucket}/jobs/{name}_{run}")
        training.create_job(Job(job_id=f"{name}_{run}", training_input=training_input))

    ended = {name: until_end(training, f"{name}_{run}") for name in programs}

    for name, (_, where) in programs.items():
        message = ended[name].error_message or ""
        assert ended[name].state is (JobState.FAILED if where else JobState.SUCCEEDED), (name, message)
        assert where in message, (name, message)
        label = {"label": f"container-training.job={name}_{run}"}
        assert not engine_client.containers(filters=label)
    assert "(TRAINING_DISK_LIMIT_BYTES, TRAINING_DISK_LIMIT_FILES)" in (ended["root"].error_message or "")


@pytest.mark.extended
@pytest.mark.parametrize("reads_folders", [True, False])
def test_an_engine_tells_what_a_container_has_written(
    engine_client: docker.APIClient, base_image: str, monkeypatch: pytest.MonkeyPatch, reads_folders: bool
) -> None:
    """By the engine's folders, which root may read, or by the engine's own count."""
    if not reads_folders:
        monkeypatch.setattr(module, "can_be_read", lambda _: False)
    program = TAKES.format(path="'/tmp/big'", size=50 * 2**20)
    made = engine_client.create_container(base_image, ["python3", "-c", program], labels=current_run().labels)
    try:
        engine_client.start(made)
        assert engine_client.wait(made)["StatusCode"] == 0
        with closing(DockerEngine("service")) as engine:
            use = engine.read_disk(made["Id"], DiskUse(bytes=0, files=0))
    finally:
        engine_client.remove_container(made, force=True)

    assert use is not None
    assert 50 * 2**20 <= use.bytes < 60 * 2**20
    assert (use.files is not None) is reads_folders
