"""Packages get the generation that they have when their job is created."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from tests.support.fakes.custom_jobs import make_custom_job, make_package_pool
from training_api.dialects.ml_v1.reader import job_spec_from_wire
from training_api.dialects.ml_v1.resources import HyperparameterSpec, Job, TrainingInput
from training_api.dialects.ml_v1.trial_spec import trial_spec
from training_api.dialects.vertex_v1.reader import custom_job_spec
from training_api.errors import InvalidJobSpec, ServiceUnavailable
from training_api.job.job_spec import JobSpec
from training_service.access.bucket_access import BucketRefused
from training_service.intake.cloud_storage import StorageUnavailable
from training_service.use_cases.package_pins import PackagePins

TRAINER, HELPERS = "gs://ours/trainer-0.0.0.tar.gz", "gs://ours/helpers-0.0.0.tar.gz"


@dataclass
class Store:
    """Generations by bucket and name, and what was asked."""

    generations: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    is_up: bool = True
    asked: list[str] = field(default_factory=list)

    def generation(self, bucket: str, name: str, wanted: int | None = None) -> int | None:
        if not self.is_up:
            raise StorageUnavailable("it was switched off")
        self.asked.append(f"gs://{bucket}/{name}")
        there = self.generations.get((bucket, name), [])
        if wanted is None:
            return there[-1] if there else None
        return wanted if wanted in there else None

    def check_bucket(self, spec: JobSpec, bucket: str) -> None:
        if bucket != "ours":
            raise BucketRefused(f"bucket {bucket!r} is not one of project {spec.project!r}")


@pytest.fixture
def store() -> Store:
    """A store with both packages; one has been replaced."""
    return Store({("ours", "trainer-0.0.0.tar.gz"): [7, 9], ("ours", "helpers-0.0.0.tar.gz"): [3]})


def spec_of(*uris: str, **more: object) -> JobSpec:
    training = TrainingInput(
        package_uris=list(uris),
        python_module="trainer.task",
        runtime_version="2.11",
        python_version="3.7",
        args=["--package=gs://ours/trainer-0.0.0.tar.gz"],
        job_dir="gs://ours/jobs",
        **more,  # type: ignore[arg-type]
    )
    return job_spec_from_wire("p", Job(job_id="job", training_input=training))


def pinned(store: Store, spec: JobSpec) -> JobSpec:
    return PackagePins(store, store.check_bucket).pin(spec)


def test_every_replica_gets_the_generations_and_the_rest_stays(store: Store) -> None:
    spec = spec_of(
        TRAINER, HELPERS, scale_tier="CUSTOM", master_type="standard", worker_type="standard", worker_count=2
    )

    found = pinned(store, spec)

    assert [replica.args[:2] for replica in found.replicas] == [
        (f"--package={TRAINER}#9", f"--package={HELPERS}#3")
    ] * 3
    # What follows is as it was, the trainer's own arguments among it.
    assert [replica.args[2:] for replica in found.replicas] == [replica.args[2:] for replica in spec.replicas]
    assert found.packages is not None
    assert found.packages.uris == (f"{TRAINER}#9", f"{HELPERS}#3")


def test_trials_get_the_generations_of_their_job(store: Store) -> None:
    search = HyperparameterSpec.model_validate(
        {
            "goal": "MAXIMIZE",
            "params": [{"parameterName": "x", "type": "DOUBLE", "minValue": 0, "maxValue": 1}],
        }
    )

    trial = trial_spec(pinned(store, spec_of(TRAINER, hyperparameters=search)), 1, {"x": "0.5"})

    assert trial.master.args[0] == f"--package={TRAINER}#9"


def test_a_generation_that_was_asked_for_must_be_there(store: Store) -> None:
    assert pinned(store, spec_of(f"{TRAINER}#7")).master.args[0] == f"--package={TRAINER}#7"

    with pytest.raises(InvalidJobSpec, match=r"trainer-0\.0\.0\.tar\.gz#8"):
        pinned(store, spec_of(f"{TRAINER}#8"))


def test_all_packages_that_are_not_there_are_named_at_once(store: Store) -> None:
    with pytest.raises(InvalidJobSpec) as caught:
        pinned(store, spec_of("gs://ours/a.whl", TRAINER, "gs://ours/b.whl"))

    assert [violation.field for violation in caught.value.violations] == [
        "packages.uris[0]",
        "packages.uris[2]",
    ]
    assert "there is no gs://ours/a.whl, or this service may not read it; upload it" in str(caught.value)


def test_a_bucket_that_the_job_may_not_read_is_not_asked(store: Store) -> None:
    store.generations["theirs", "secret.whl"] = [1]

    with pytest.raises(InvalidJobSpec, match="bucket 'theirs' is not one of project 'p'"):
        pinned(store, spec_of("gs://theirs/secret.whl"))

    assert store.asked == []


def test_a_store_that_does_not_answer_makes_the_client_ask_again(store: Store) -> None:
    store.is_up = False

    with pytest.raises(ServiceUnavailable, match="it was switched off"):
        pinned(store, spec_of(TRAINER))


def test_a_job_of_an_image_is_left_as_it_is(store: Store) -> None:
    job = Job.model_validate({"jobId": "j", "trainingInput": {"masterConfig": {"imageUri": "h.io/p/i:1"}}})
    spec = job_spec_from_wire("p", job)

    assert pinned(store, spec) is spec
    assert store.asked == []


def pools_of(*uris: list[str]) -> JobSpec:
    pools = [make_package_pool(packageUris=each) for each in uris]
    return custom_job_spec("p", "us-central1", "1", make_custom_job(*pools))


def test_each_pool_gets_the_generations_of_its_packages(store: Store) -> None:
    found = pinned(store, pools_of([TRAINER], [TRAINER, HELPERS]))

    assert [each.installs.uris if each.installs else () for each in found.replicas] == [
        (f"{TRAINER}#9",),
        (f"{TRAINER}#9", f"{HELPERS}#3"),
    ]
    assert store.asked == [TRAINER, HELPERS]


def test_a_package_of_a_pool_is_refused_at_its_place(store: Store) -> None:
    with pytest.raises(InvalidJobSpec) as caught:
        pinned(store, pools_of([TRAINER], [HELPERS, "gs://theirs/x.whl"]))

    assert [each.field for each in caught.value.violations] == ["installs.worker.uris[1]"]
