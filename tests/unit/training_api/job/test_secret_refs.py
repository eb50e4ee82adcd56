"""Secrets as labels: what a job names, and which names break a rule."""

from __future__ import annotations

import pytest

from training_api.dialects.ml_v1.reader import accepted_job_spec, job_spec_from_wire
from training_api.dialects.ml_v1.resources import Job, ReplicaConfig, TrainingInput
from training_api.dialects.ml_v1.rules.job_rules import label_violations
from training_api.errors import InvalidJobSpec
from training_api.job.secret_refs import SecretRef, secret_labels

#: What somebody pasted who took a label for the place of the value.
VALUE = "hunter-2"


def make_job(labels: dict[str, str]) -> Job:
    training = TrainingInput(master_config=ReplicaConfig(image_uri="registry.test/p/i:1"))
    return Job(job_id="job", labels=labels, training_input=training)


def test_labels_name_files_and_variables() -> None:
    labels = {"team": "a", "secret-wandb-key": "wandb_api_key", "secret-ca": ""}

    spec = job_spec_from_wire("demo", make_job(labels))

    assert spec.secrets == (SecretRef(name="ca"), SecretRef(name="wandb-key", variable="WANDB_API_KEY"))
    assert secret_labels({"wandb-key": "WANDB_API_KEY", "ca": None}) == {
        label: value for label, value in labels.items() if label != "team"
    }
    assert not label_violations(labels)


def test_a_job_of_before_has_labels_only() -> None:
    assert accepted_job_spec("demo", make_job({"secret-santa": "yes"})).secrets == ()


@pytest.mark.parametrize(
    ("labels", "field", "text"),
    [
        ({"secret-": ""}, "labels.secret-", "must hold only"),
        ({"secret--a": ""}, "labels.secret--a", "begin with a letter or a digit"),
        ({"secret-a": VALUE}, "labels.secret-a", "the name of a variable"),
        ({"secret-a": "1x"}, "labels.secret-a", "not a digit first"),
        ({"secret-a": "x", "secret-b": "x"}, "labels.secret-b", "already holds the secret 'a'"),
    ],
)
def test_a_name_that_breaks_a_rule_is_refused(labels: dict[str, str], field: str, text: str) -> None:
    with pytest.raises(InvalidJobSpec) as caught:
        job_spec_from_wire("demo", make_job(labels))

    (violation,) = caught.value.violations
    assert violation.field == field
    assert text in violation.description
    assert VALUE not in violation.description


@pytest.mark.parametrize("text", ["wandb_api_key", "sk-live-0123456789"])
def test_a_variable_in_small_letters_is_refused_and_not_shown(text: str) -> None:
    with pytest.raises(InvalidJobSpec, match="in capitals") as caught:
        secret_labels({"wandb-key": text})

    assert text not in str(caught.value)
