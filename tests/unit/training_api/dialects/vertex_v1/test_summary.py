"""What a table of jobs shows of a CustomJob."""

from __future__ import annotations

from tests.support.fakes.custom_jobs import IMAGE, make_custom_job, make_pool
from tests.support.fakes.vertex_tuning_jobs import make_tuning_job
from training_api.dialects.vertex_v1.summary import summary


def test_a_row_shows_machines_images_and_accelerators_by_role() -> None:
    gpu = {"machineType": "n1-standard-4", "acceleratorType": "NVIDIA_TESLA_T4", "acceleratorCount": 1}

    assert summary(make_custom_job({**make_pool(), "machineSpec": gpu}, {}, make_pool(2))) == {
        "scaleTier": "CUSTOM",
        "masterType": "n1-standard-4",
        "masterConfig": {"imageUri": IMAGE, "acceleratorConfig": {"type": "NVIDIA_TESLA_T4", "count": "1"}},
        "parameterServerType": "n1-standard-4",
        "parameterServerCount": "2",
        "parameterServerConfig": {"imageUri": IMAGE},
    }


def test_a_row_of_a_tuning_job_shows_the_machines_of_a_trial_and_the_search() -> None:
    assert summary(make_tuning_job()) == {
        "scaleTier": "CUSTOM",
        "masterType": "n1-standard-4",
        "masterConfig": {"imageUri": IMAGE},
        "hyperparameters": {
            "goal": "MAXIMIZE",
            "maxTrials": 4,
            "maxParallelTrials": 2,
            "hyperparameterMetricTag": "accuracy",
        },
    }
