"""Where the bill of materials of a job's image is written."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from container_training.operators.bill_of_materials import ImageBillOfMaterialsOperator
from tests.support.fakes.fake_bucket import FakeBucket
from tests.support.fakes.fake_service import FakeService, make_job


def test_nothing_is_written_for_a_job_to_a_bucket_of_another_project(
    service: FakeService, bucket: FakeBucket, context: Any
) -> None:
    service.add(make_job())
    bucket.project = "another"
    operator = ImageBillOfMaterialsOperator(task_id="bill", image="registry.test/p/i:1", job_id="digits_1")

    with pytest.raises(AirflowFailException, match="BucketRefused: bucket 'bucket' is not one of project"):
        operator.execute(context)

    assert bucket.objects == {}
