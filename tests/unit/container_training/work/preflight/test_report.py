"""What a preflight runs of a job, and what its table says."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from container_training.work.preflight.cluster_agreement import cluster_disagreements
from container_training.work.preflight.plan import preflight_job, preflight_replicas
from container_training.work.preflight.report import (
    Check,
    PreflightReport,
    PreflightRow,
    ReplicaOutcome,
    Stop,
    Verdict,
    cluster_hint,
    replica_rows,
)
from training_api.dialects.ml_v1.cluster import cluster_environment
from training_api.dialects.ml_v1.reader import job_spec_from_wire
from training_api.dialects.ml_v1.resources import Job
from training_api.errors import InvalidJobSpec
from training_api.job.cluster import ReplicaId, ReplicaRole, replica_host
from training_api.job.job_spec import JobSpec

DIGEST = "0123456789abcdef"
MASTER = ReplicaId(role=ReplicaRole.MASTER)
WORKER = ReplicaId(role=ReplicaRole.WORKER)
EVALUATOR = ReplicaId(role=ReplicaRole.EVALUATOR)
NOW = datetime(2026, 11, 20, tzinfo=UTC)
TRACEBACK = "Traceback (most recent call last):"


def make_job(**training: Any) -> Job:
    config = {"imageUri": "h:1/p/i"}
    return Job.model_validate(
        {
            "jobId": "j",
            "trainingInput": {
                "region": "us-central1",
                "scaleTier": "CUSTOM",
                "masterType": "n1-standard-4",
                "masterConfig": config,
                "workerType": "n1-standard-4",
                "parameterServerType": "n1-standard-4",
                **training,
            },
        }
    )


def make_spec(**training: Any) -> JobSpec:
    return job_spec_from_wire("p", preflight_job(make_job(**training), DIGEST))


def names(spec: JobSpec) -> list[str]:
    return [item.replica.task_name for item in preflight_replicas(spec, None)]


@pytest.mark.parametrize(
    ("training", "expected"),
    [
        ({}, ["master-replica-0"]),
        ({"workerCount": 1}, ["master-replica-0", "worker-replica-0"]),
        (
            {"workerCount": 9, "parameterServerCount": 3},
            ["master-replica-0", "worker-replica-0", "worker-replica-1", "ps-replica-0", "ps-replica-1"],
        ),
        (
            {"scaleTier": "STANDARD_1", "masterType": None, "workerType": None, "parameterServerType": None},
            [
                "master-replica-0",
                "worker-replica-0",
                "worker-replica-1",
                "ps-replica-0",
                "ps-replica-1",
            ],
        ),
    ],
)
def test_at_most_two_replicas_of_each_role_are_started(training: dict[str, Any], expected: list[str]) -> None:
    assert names(make_spec(**training)) == expected


def test_the_job_itself_says_how_many_it_has() -> None:
    training = preflight_job(make_job(workerCount=9, parameterServerCount=1), DIGEST).training_input

    assert training is not None
    assert (training.worker_count, training.parameter_server_count) == (2, 1)
    assert training.evaluator_count is None


@pytest.mark.parametrize("job_dir", ["gs://bucket/jobs/j", "gs://bucket/jobs/j/"])
def test_results_go_to_a_folder_of_the_preflights_own(job_dir: str) -> None:
    (master,) = preflight_replicas(make_spec(jobDir=job_dir, args=["--epochs", "9"]), ["--epochs", "1"])

    assert master.args == ("--epochs", "1", "--job-dir", "gs://bucket/jobs/j/preflight/0123456789ab")


@pytest.mark.parametrize(
    ("training", "args", "expected"),
    [
        ({"args": ["a"]}, None, [("a",), ("a",)]),
        ({"args": ["a"]}, [], [("a",), ("a",)]),
        ({"args": ["a"]}, ["one"], [("one",), ("one",)]),
        ({}, ["one"], [("one",), ("one",)]),
        ({"workerConfig": {"containerArgs": ["w"]}}, ["one"], [("one",), ("w",)]),
    ],
    ids=["the job's own", "none given", "replaced", "added", "a role with its own"],
)
def test_arguments_of_one_step_replace_those_that_the_master_has(
    training: dict[str, Any], args: list[str] | None, expected: list[tuple[str, ...]]
) -> None:
    replicas = preflight_replicas(make_spec(workerCount=1, **training), args)

    assert [item.args for item in replicas] == expected


def test_a_job_of_packages_is_refused() -> None:
    packages = {
        "masterConfig": None,
        "packageUris": ["gs://bucket/p.tar.gz"],
        "pythonModule": "trainer.task",
        "runtimeVersion": "2.11",
        "pythonVersion": "3.7",
    }

    with pytest.raises(InvalidJobSpec, match=r"trainingInput.packageUris: a preflight starts images"):
        preflight_replicas(make_spec(**packages), None)


def environments(*replicas: ReplicaId, **changes: str) -> dict[ReplicaId, dict[str, str]]:
    """Return what each replica has; ``changes`` are the first one's."""
    found = {
        replica: cluster_environment(job_id="j", replica=replica, replicas=replicas, job_parameters={})
        for replica in replicas
    }
    found[replicas[0]] |= changes
    return found


def disagreements(found: Mapping[ReplicaId, Mapping[str, str]]) -> list[str]:
    return cluster_disagreements(found, {replica: replica_host("j", replica) for replica in found})


def test_replicas_of_one_job_agree() -> None:
    assert disagreements(environments(MASTER, WORKER, EVALUATOR)) == []


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("{", "TF_CONFIG of master-replica-0 is not JSON"),
        ("[]", "TF_CONFIG of master-replica-0 has no 'cluster' and 'task'"),
        ('{"cluster": {}}', "TF_CONFIG of master-replica-0 has no 'cluster' and 'task'"),
        (
            '{"cluster": {}, "task": {"type": "master", "index": 0}}',
            "TF_CONFIG of master-replica-0: its task master 0 is not cmle-training-master-",
        ),
    ],
)
def test_a_variable_that_is_spoilt_is_named(value: str, problem: str) -> None:
    (first, *_) = disagreements(environments(MASTER, WORKER, TF_CONFIG=value))

    assert problem in first


def test_a_variable_that_is_missing_or_of_another_cluster_is_named() -> None:
    missing = environments(MASTER)
    del missing[MASTER]["CLUSTER_SPEC"]
    other = environments(MASTER, WORKER)
    other[WORKER] = environments(WORKER)[WORKER]

    assert disagreements(missing) == ["CLUSTER_SPEC of master-replica-0 is not set"]
    assert "CLUSTER_SPEC: the replicas have 2 different clusters" in disagreements(other)


@pytest.mark.parametrize(
    ("tail", "hint"),
    [
        ((), ""),
        (("KeyError: 'chief'",), ""),
        ((TRACEBACK, "ValueError: no such file"), ""),
        ((TRACEBACK, "KeyError: 'label'"), ""),
        ((TRACEBACK, "KeyError: 'chief'"), "set useChiefInTfConfig"),
        ((TRACEBACK, "KeyError: 'ps'"), "it looks for 'ps'"),
        ((TRACEBACK, "KeyError: 'TF_CONFIG'"), "its traceback is about TF_CONFIG"),
        (
            (TRACEBACK, '    spec = json.loads(os.environ["CLUSTER_SPEC"])', "json.decoder.JSONDecodeError"),
            "its traceback is about CLUSTER_SPEC",
        ),
        ((TRACEBACK, "KeyError: 'TF_CONFIG'", "while handling it:", TRACEBACK, "OSError: no data"), ""),
    ],
)
def test_a_traceback_is_read_for_the_cluster_variables(tail: tuple[str, ...], hint: str) -> None:
    found = cluster_hint(tail)

    assert hint in found
    assert bool(hint) == bool(found)


def make_outcome(replica: ReplicaId = MASTER, **fields: Any) -> ReplicaOutcome:
    fields.setdefault("environment", environments(MASTER, WORKER).get(replica, {}))
    return ReplicaOutcome(replica=replica, hostname=replica_host("j", replica), ran_seconds=1.5, **fields)


def row(outcome: ReplicaOutcome, check: Check) -> PreflightRow:
    (found,) = [row for row in replica_rows([outcome], 10) if row.check is check and "replica-" in row.where]
    return found


@pytest.mark.parametrize(
    ("fields", "result", "why"),
    [
        ({"exit_code": 0}, "ok", "ended with 0 after 1.5 s"),
        ({}, "ok", "ran for 1.5 s"),
        ({"start_error": "no such image"}, "failed", "no such image"),
        ({"exit_code": 3}, "failed", "exited with 3 after 1.5 s; no output"),
        (
            {"exit_code": 3, "tail": ("a", " ", "b")},
            "failed",
            "exited with 3 after 1.5 s; its last output:\n  a\n  b",
        ),
        (
            {"exit_code": 137, "out_of_memory": True, "memory_bytes": 2**26},
            "failed",
            "ran out of memory after 1.5 s (exit code 137, limit 64 MiB); no output",
        ),
    ],
)
def test_how_a_replica_did_is_one_row(fields: dict[str, Any], result: str, why: str) -> None:
    found = row(make_outcome(**fields), Check.START)

    assert (found.result.value, found.why) == (result, why)


def test_a_traceback_about_the_variables_fails_their_check() -> None:
    outcome = make_outcome(exit_code=1, tail=(TRACEBACK, "KeyError: 'TF_CONFIG'"))

    found = row(outcome, Check.CLUSTER)

    assert found.result is Verdict.FAILED
    assert "its traceback is about TF_CONFIG" in found.why


@pytest.mark.parametrize(
    ("fields", "result", "why"),
    [
        ({"stop": Stop(seconds=0.2, killed=False)}, "ok", "ended 0.2 s after it"),
        ({"stop": Stop(seconds=10.1, killed=True)}, "failed", "SIGTERM did not end it within 10 s"),
        ({"exit_code": 0}, "not checked", "it had ended before it was asked to"),
        ({"exit_code": 1}, "not checked", "it did not run"),
        ({"start_error": "no such image"}, "not checked", "it did not run"),
    ],
)
def test_what_came_of_sigterm_is_one_row(fields: dict[str, Any], result: str, why: str) -> None:
    found = row(make_outcome(**fields), Check.SIGTERM)

    assert found.result.value == result
    assert found.why.startswith(why)


def test_of_several_failures_the_later_ones_say_so() -> None:
    first = make_outcome(WORKER, exit_code=1, ended_at=NOW)
    later = make_outcome(MASTER, exit_code=1, ended_at=NOW + timedelta(seconds=1))

    why = {row.where: row.why for row in replica_rows([later, first], 10) if row.check is Check.START}

    assert "another replica had failed before" in why["master-replica-0"]
    assert "another replica had failed before" not in why["worker-replica-0"]


def test_the_variables_of_replicas_that_never_started_are_not_read() -> None:
    good, bad = make_outcome(MASTER), make_outcome(WORKER, start_error="no such image", environment={})

    found = [row for row in replica_rows([good, bad], 10) if row.check is Check.CLUSTER]

    assert [row.result for row in found] == [Verdict.OK]
    assert [row for row in replica_rows([bad], 10) if row.check is Check.CLUSTER] == []


def test_a_report_is_ordered_by_check_and_fails_with_its_first_failed_row() -> None:
    def made(check: Check, result: Verdict) -> PreflightRow:
        return PreflightRow(check=check, where="x", result=result, why="")

    rows = [made(Check.JOB_DIR, Verdict.NOT_CHECKED), made(Check.START, Verdict.OK)]

    fine = PreflightReport.of(rows)
    bad = PreflightReport.of([*rows, made(Check.SIGTERM, Verdict.FAILED)])

    assert fine.ok
    assert [row.check for row in fine.rows] == [Check.START, Check.JOB_DIR]
    assert not bad.ok
    assert bad.failed == [made(Check.SIGTERM, Verdict.FAILED)]
    assert PreflightReport.model_validate(json.loads(bad.model_dump_json())) == bad


def test_the_replicas_of_a_tuning_job_get_values_of_its_space() -> None:
    params = [
        {"parameterName": "lr", "type": "DOUBLE", "minValue": 0.001, "maxValue": 1},
        {"parameterName": "units", "type": "INTEGER", "minValue": 16, "maxValue": 64},
        {"parameterName": "depth", "type": "DISCRETE", "discreteValues": [2, 4.5]},
        {"parameterName": "kernel", "type": "CATEGORICAL", "categoricalValues": ["rbf", "linear"]},
    ]
    spec = make_spec(args=["--epochs", "9"], hyperparameters={"params": params}, workerCount=1)

    for item in preflight_replicas(spec, ["--epochs", "1"]):
        assert item.args == ("--epochs", "1", "--lr=0.001", "--units=16", "--depth=2", "--kernel=rbf")
