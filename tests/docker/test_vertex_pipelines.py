"""A training pipeline of Vertex AI in a real container, by the SDK as it is published."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from google.auth.credentials import AnonymousCredentials

from container_training.work.object_store import ObjectStore
from local_stack.stack import LocalStack
from training_api.job.image_ref import ImageRef

pytestmark = pytest.mark.docker

#: Writes its arguments as the model, to where the service says.
TRAINER = """
import os, sys, urllib.parse, urllib.request

bucket, _, folder = os.environ["AIP_MODEL_DIR"].removeprefix("gs://").partition("/")
name = urllib.parse.quote(folder + "model.txt", safe="")
url = f"{os.environ['STORAGE_EMULATOR_HOST']}/upload/storage/v1/b/{bucket}/o?uploadType=media&name={name}"
urllib.request.urlopen(urllib.request.Request(url, data=" ".join(sys.argv[1:]).encode(), method="POST"))
"""


@pytest.fixture
def sdk(stack: LocalStack) -> Iterator[Any]:
    """``google.cloud.aiplatform`` over REST; what it keeps is the process's."""
    from google.cloud import aiplatform

    aiplatform.init(
        project=stack.settings.project,
        location="us-central1",
        api_endpoint=f"{stack.settings.training_url}/vertex",
        api_transport="rest",
        credentials=AnonymousCredentials(),
        staging_bucket=stack.settings.job_bucket,
    )
    yield aiplatform
    aiplatform.initializer.global_config.__init__()


def test_a_training_job_of_the_sdk_leaves_a_model_with_its_files(
    sdk: Any, stack: LocalStack, stack_store: ObjectStore, pushed_image: ImageRef
) -> None:
    job = sdk.CustomContainerTrainingJob(
        display_name="real",
        container_uri=str(pushed_image),
        command=["python3", "-u", "-c", TRAINER],
        model_serving_container_image_uri="registry.test/p/server:1",
    )

    model = job.run(
        model_display_name="a real model",
        args=["--epochs=3"],
        base_output_dir=f"{stack.settings.job_bucket}/vertex-pipeline",
    )

    assert (model.display_name, model.gca_resource.training_pipeline) == ("a real model", job.resource_name)
    assert model.uri == f"{stack.settings.job_bucket}/vertex-pipeline/model/"
    assert stack_store.read(f"{model.uri}model.txt", 100) == b"--epochs=3"
    model.delete()
    job.delete()


def test_a_trainer_that_fails_fails_its_pipeline_and_leaves_no_model(
    sdk: Any, stack: LocalStack, pushed_image: ImageRef
) -> None:
    job = sdk.CustomContainerTrainingJob(
        display_name="failing",
        container_uri=str(pushed_image),
        command=["python3", "-c", "raise SystemExit(3)"],
        model_serving_container_image_uri="registry.test/p/server:1",
    )

    with pytest.raises(RuntimeError, match="The replica workerpool0-0 exited with a non-zero status of 3"):
        job.run(model_display_name="no model", base_output_dir=f"{stack.settings.job_bucket}/failing")

    assert not sdk.Model.list(filter='display_name="no model"')
