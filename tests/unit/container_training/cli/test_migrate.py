"""
``migrate``: a pasted command becomes a DAG.

The DAG parses, is formatted, and submits the job that gcloud would have submitted.
"""

from __future__ import annotations

import io
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from container_training.cli.parser import main
from container_training.work.submission.job_attempt import for_attempt
from tests.support.docs_examples import ROOT, examples
from tests.support.gcloud_commands import CASES, CONFIG, HEAD, IMAGE, WITH_IMAGE, Case
from tests.support.written_dags import read_dag


@dataclass(frozen=True)
class Done:
    returncode: int
    stdout: str
    stderr: str


Migrate = Callable[..., Done]


@pytest.fixture
def migrate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Migrate:
    """Run ``migrate`` in a folder that has ``config.yaml``."""
    monkeypatch.chdir(tmp_path)

    def migrate(*arguments: str, config: str | None = None) -> Done:
        if config is not None:
            (tmp_path / "config.yaml").write_text(config)
        status = main(["migrate", *arguments])
        return Done(status, *capsys.readouterr())

    return migrate


def request_of(dag: Any, params: dict[str, str], job_id: str) -> dict[str, Any]:
    """Return the body that the task ``submit`` sends, but for the labels that name it."""
    task = dag.get_task("submit")
    context = {"params": params, "dag": dag}
    task.render_template_fields(context)
    return for_attempt(task._request(context), job_id, {}).to_wire()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_dag_asks_for_the_job_that_gcloud_asked_for(
    case: Case, migrate: Migrate, tmp_path: Path, airflow_db: Path
) -> None:
    done = migrate("--gcloud", case.command, config=case.config)

    assert done.returncode == 0, done.stderr
    dag = read_dag(done.stdout, tmp_path)
    params = case.params or {name.lower(): value for name, value in case.environment.items()}
    assert set(dag.params) == set(params)
    labels = {"labels": case.labels} if case.labels else {}
    assert request_of(dag, params, case.job) == {
        "jobId": case.job,
        "trainingInput": {**case.training, **case.adds},
        **labels,
    }
    collects = {"collect"} if "jobDir" in case.training else set()
    assert set(dag.task_ids) == {"submit", "wait_until_finished", *collects}
    assert dag.schedule is None


def test_every_dag_is_formatted_and_clean_by_the_projects_rules(migrate: Migrate, tmp_path: Path) -> None:
    folder = tmp_path / "sources"
    folder.mkdir()
    others = [
        (
            f"{HEAD} --package-path trainer --packages dist/a.tar.gz,gs://b/c.whl --module-name trainer.task",
            (),
        ),
        (f"{HEAD} --packages dist/a.tar.gz --module-name trainer.task --strem-logs --stream-logs", ()),
        (f"{WITH_IMAGE} --config config.yaml --labels 'a=\"'", ("--context", "trainers/mnist")),
        (HEAD, ()),
    ]
    commands = [
        *((case.command, case.config, ()) for case in CASES),
        *((text, CONFIG, more) for text, more in others),
    ]
    for number, (command, config, more) in enumerate(commands):
        done = migrate("--gcloud", command, *more, config=config)
        (folder / f"dag_{number}.py").write_text(done.stdout)

    ruff = [sys.executable, "-m", "ruff"]
    config_file = ["--config", str(ROOT / "pyproject.toml")]
    for command in (["check"], ["format", "--check", "--diff"], ["format", "--check", "--line-length", "88"]):
        run = subprocess.run(
            [*ruff, *command, *config_file, str(folder)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.parametrize("case", [case for case in CASES if not case.params], ids=lambda case: case.name)
def test_words_are_those_that_a_shell_hands_to_gcloud(case: Case, tmp_path: Path) -> None:
    from container_training.work.migration.shell_text import read_shell_text

    shim = tmp_path / "gcloud"
    shim.write_text(f"#!{sys.executable}\nimport json, sys\nprint(json.dumps(sys.argv[1:]))\n")
    shim.chmod(0o755)
    text = case.command.removeprefix("$ ")
    run = subprocess.run(
        ["bash", "-c", text],
        env={**os.environ, **case.environment, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )

    shell = read_shell_text(case.command)

    ((_, *words),) = shell.statements
    values = {part: case.environment.get(part.name, "") for part in shell.parts}
    assert [shell.replaced(word, values) for word in words] == json.loads(run.stdout)


def test_nothing_of_the_shell_is_executed(migrate: Migrate, tmp_path: Path) -> None:
    trap = tmp_path / "executed"

    done = migrate(
        "--gcloud",
        f"{WITH_IMAGE} --labels a=$(touch {trap}) -- `touch {trap}` ${{X:-$(touch {trap})}}; touch {trap}",
    )

    assert done.returncode == 0
    assert not trap.exists()
    assert f"was $(touch {trap}) in the shell" in done.stdout


@pytest.mark.parametrize(
    ("flags", "comment"),
    [
        ("--stream-logs", "--stream-logs: the log of this task has the job's lines"),
        ("--staging-bucket gs://b", "--staging-bucket is left out: nothing is uploaded"),
        ("--project other", "gcloud made the job in project other: extra.project of the connection"),
        ("--account me@x.y --configuration c", "--account, --configuration: as whom the service is asked"),
        ("--impersonate-service-account a@b.c", "--impersonate-service-account: as whom the service"),
        ("--access-token-file t --billing-project p", "--access-token-file, --billing-project: as whom"),
        (
            "--format json --verbosity=debug -q",
            "left out, as they are about gcloud itself: --format, --verbosity",
        ),
        ("--flags-file f.yaml", "what is in that file is not read: paste its flags"),
        ("--strem-logs", "gcloud has no flag --strem-logs; was --stream-logs meant? It is left out"),
        ("--no-such-thing=3", "gcloud has no flag --no-such-thing=3"),
        ("more words", "left out, as gcloud takes one job name: more words"),
        ("--job-dir gs://bucket/a", "every run writes into the same folder"),
        ("", "the job names no folder"),
        ("--master-machine-type n1-standard-8", "no scaleTier was given"),
        ("--scale-tier basic-tpu", "the training service refuses trainingInput.scaleTier"),
        ("--service-account nobody", "the training service refuses trainingInput.serviceAccount"),
    ],
)
def test_what_a_person_must_decide_is_a_comment(flags: str, comment: str, migrate: Migrate) -> None:
    done = migrate("--gcloud", f"{WITH_IMAGE} {flags}")

    comments = " ".join(
        line.strip().removeprefix("# ") for line in done.stdout.splitlines() if line.strip().startswith("#")
    )
    assert comment in comments
    assert "DECIDE: when it runs" in comments
    assert "the image is not built here" in comments


def test_a_region_that_gcloud_had_configured_is_to_be_decided(migrate: Migrate) -> None:
    done = migrate("--gcloud", f"gcloud ai-platform jobs submit training j --master-image-uri {IMAGE}")

    assert "gcloud took the region from compute/region of its configuration" in done.stdout


@pytest.mark.parametrize(
    ("command", "error"),
    [
        ("echo hello", "expected one gcloud command, got 0"),
        (f"{WITH_IMAGE}\n{WITH_IMAGE}", "expected one gcloud command, got 2"),
        (
            "gcloud ai-platform jobs submit prediction p",
            "expected gcloud ai-platform jobs submit training, got",
        ),
        ("gcloud compute instances list", "expected gcloud ai-platform jobs submit training, got"),
        ("gcloud ai-platform jobs submit training --region r", "must be followed by the name of the job"),
        (f"{HEAD} --labels", "--labels must be followed by its value"),
        (f"{HEAD} --labels a", "--labels must be KEY=VALUE,..., got 'a'"),
        (f"{HEAD} --worker-count many", "--worker-count must be a whole number, got 'many'"),
        (f"{HEAD} --use-chief-in-tf-config perhaps", "--use-chief-in-tf-config must be true or false"),
        (f"{HEAD} --master-accelerator type=t", "--master-accelerator must be type=TYPE,count=COUNT"),
        (f"{HEAD} --kms-key k", "--kms-key must be a whole name"),
        (f"{HEAD} --scale-tier giant", "the job has a value that its field cannot have"),
        (f"{HEAD} 'open", "cannot be split into words"),
        (f"{HEAD} $(open", "has a $( that is not closed"),
        (f"{HEAD} `open", "has a ` that is not closed"),
        (f"{HEAD} --config missing.yaml", "missing.yaml: no such file"),
    ],
)
def test_what_cannot_be_migrated_is_said(command: str, error: str, migrate: Migrate) -> None:
    done = migrate("--gcloud", command)

    assert (done.returncode, done.stdout) == (1, "")
    assert error in done.stderr


def test_a_job_file_becomes_a_dag_that_asks_for_its_image(
    migrate: Migrate, tmp_path: Path, airflow_db: Path
) -> None:
    config = "trainingInput:\n  scaleTier: BASIC_GPU\n  args: ['--lr', '0.1']\n  jobDir: gs://demo-jobs/x\n"

    done = migrate("config.yaml", config=config)

    dag = read_dag(done.stdout, tmp_path)
    assert (dag.dag_id, set(dag.params)) == ("config", {"image"})
    assert request_of(dag, {"image": IMAGE}, "j") == {
        "jobId": "j",
        "trainingInput": {
            "scaleTier": "BASIC_GPU",
            "args": ["--lr", "0.1"],
            "jobDir": "gs://demo-jobs/x",
            "region": "us-central1",
            "masterConfig": {"imageUri": IMAGE},
        },
    }


def test_a_job_file_names_the_dag_and_every_attempt_has_its_folder(
    migrate: Migrate, tmp_path: Path, airflow_db: Path
) -> None:
    config = f"jobId: census_7\ntrainingInput:\n  jobDir: gs://demo-jobs/census_7\n  masterConfig: {{imageUri: {IMAGE}}}\n"

    dag = read_dag(migrate("config.yaml", config=config).stdout, tmp_path)

    assert dag.dag_id == "census_7"
    assert dag.get_task("submit").job_dir == "gs://demo-jobs/{job_id}"


def test_with_a_context_the_image_is_built_tested_and_pushed(
    migrate: Migrate, tmp_path: Path, airflow_db: Path
) -> None:
    done = migrate(
        "--gcloud", f"{WITH_IMAGE} -- --epochs 10", "--context", "trainers/mnist", "--dag-id", "mine"
    )

    dag = read_dag(done.stdout, tmp_path)
    assert dag.dag_id == "mine"
    assert {"train.build", "train.test", "train.push", "train.grant", "train.submit", "train.collect"} <= set(
        dag.task_ids
    )
    assert dag.get_task("train.build").image == "gcr.io/demo/mnist"
    assert dag.get_task("train.submit").args == ["--epochs", "10"]


def test_an_image_is_not_built_for_a_job_of_packages(migrate: Migrate) -> None:
    done = migrate("--gcloud", f"{HEAD} --package-path trainer --module-name trainer.task", "--context", ".")

    assert (done.returncode, "a job runs an image or packages" in done.stderr) == (1, True)


def test_a_trainer_folder_is_packaged(migrate: Migrate, tmp_path: Path, airflow_db: Path) -> None:
    done = migrate(
        "--gcloud",
        f"{HEAD} --package-path ./trainer --packages dist/a.tar.gz --module-name trainer.task --runtime-version 2.11 "
        "--python-version 3.7 --staging-bucket gs://staging",
    )

    dag = read_dag(done.stdout, tmp_path)
    package, submit = dag.get_task("package"), dag.get_task("submit")
    assert (package.package_path, package.packages, package.staging, package.python_module) == (
        "./trainer",
        ["dist/a.tar.gz"],
        "gs://staging",
        "trainer.task",
    )
    assert submit.upstream_task_ids == {"package"}
    assert (submit.python_module, submit.runtime_version, submit.python_version) == (
        "trainer.task",
        "2.11",
        "3.7",
    )


def test_a_package_on_the_users_machine_is_to_be_copied(
    migrate: Migrate, tmp_path: Path, airflow_db: Path
) -> None:
    done = migrate("--gcloud", f"{HEAD} --packages gs://a/b.whl,dist/a.tar.gz --module-name trainer.task")

    dag = read_dag(done.stdout, tmp_path)
    assert dag.get_task("submit").package_uris == ["gs://a/b.whl", "{{ params.package_1 }}"]
    assert "gcloud uploaded dist/a.tar.gz: copy it into a bucket" in done.stdout


def test_the_file_is_written_once_and_a_command_comes_from_standard_input(
    migrate: Migrate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(WITH_IMAGE))
    first = migrate("--gcloud", "-", "--output", "dag.py")
    written = (tmp_path / "dag.py").read_text()
    second = migrate("--gcloud", WITH_IMAGE, "--output", "dag.py")

    assert (first.returncode, first.stdout) == (0, "")
    assert "dag.py is written; 3 places in it need a person" in first.stderr
    assert "SubmitTrainingJobOperator(" in written
    assert (second.returncode, "dag.py exists" in second.stderr) == (2, True)


@pytest.mark.parametrize("arguments", [(), ("config.yaml", "--gcloud", HEAD)])
def test_one_thing_is_migrated_at_a_time(arguments: tuple[str, ...], migrate: Migrate) -> None:
    done = migrate(*arguments)

    assert (done.returncode, "migrate takes a job file or --gcloud COMMAND" in done.stderr) == (2, True)


def test_the_guide_shows_what_is_printed(migrate: Migrate, tmp_path: Path, airflow_db: Path) -> None:
    (command,), (printed,) = examples("migrate"), examples("migrated")

    done = migrate(*shlex.split(command.code)[4:])

    assert done.stdout == printed.code
    dag = read_dag(printed.code, tmp_path)
    assert request_of(dag, {"data": "gs://data"}, "j")["trainingInput"]["args"] == [
        "--lr=0.1",
        "--data",
        "gs://data/train",
    ]


def test_variables_that_differ_in_case_alone_are_two_params(migrate: Migrate) -> None:
    done = migrate("--gcloud", f"{WITH_IMAGE} -- $Data $DATA $Data")

    assert 'args=["{{ params.data }}", "{{ params.data_ }}", "{{ params.data }}"]' in done.stdout


def test_windows_line_ends_and_continuations_are_read(migrate: Migrate) -> None:
    unix = migrate("--gcloud", WITH_IMAGE)

    for mark in ("\\", "^", "`", "\\ "):
        text = WITH_IMAGE.replace(" --", f" {mark}\r\n  --")
        assert migrate("--gcloud", text).stdout == unix.stdout


def test_the_guide_shows_what_becomes_of_a_dag_of_googles_provider(
    migrate: Migrate, tmp_path: Path, airflow_db: Path
) -> None:
    (old,), (printed,) = examples("provider DAG"), examples("migrated provider DAG")
    (tmp_path / "housing.py").write_text(old.code)

    done = migrate("housing.py")

    assert done.stdout == printed.code
    dag = read_dag(printed.code, tmp_path)
    assert dag.task_dict["submit"].retries == 2


def test_what_a_person_must_decide_is_reported_with_both_lines(migrate: Migrate, tmp_path: Path) -> None:
    (old,) = examples("provider DAG")
    (tmp_path / "housing.py").write_text(old.code)

    done = migrate("housing.py", "--output", "new.py")

    written = (tmp_path / "new.py").read_text().splitlines()
    call = 1 + next(number for number, line in enumerate(old.code.splitlines()) if "train = " in line)
    reported = [line for line in done.stderr.splitlines() if line.startswith("new.py:")]
    assert f"new.py is written; {len(reported)} places in it need a person" in done.stderr
    for line in reported:
        number, text = int(line.split(":")[1]), line.partition(": ")[2]
        assert written[number - 1].strip().startswith("# DECIDE: ")
        assert text[:20] in written[number - 1]
    assert any(f"line {call}: environment_variables=" in line for line in reported)


def test_a_dag_file_that_is_not_there_is_said(migrate: Migrate) -> None:
    done = migrate("gone.py")

    assert (done.returncode, "gone.py cannot be read as text" in done.stderr) == (2, True)


def test_a_dag_for_vertex_ai_names_what_that_does_not_have(migrate: Migrate) -> None:
    config = "trainingInput: {scaleTier: STANDARD_1, masterConfig: {imageUri: gcr.io/p/i}}"
    here = migrate("config.yaml", config=config).stdout
    there = migrate("--to", "vertex", "config.yaml").stdout

    assert "vertex_training" not in here
    assert "must be of the type vertex_training" in there
    assert "STANDARD_1 needs n1-highcpu-8" in there
    # Nothing but comments differs: the connection decides where the job runs.
    code = [[line for line in each.splitlines() if not line.startswith("#")] for each in (here, there)]
    assert code[0] == code[1]


def test_a_dag_of_this_project_keeps_its_text(migrate: Migrate, tmp_path: Path) -> None:
    (old,), (printed,) = examples("own DAG"), examples("own DAG for Vertex AI")
    (tmp_path / "housing.py").write_text(old.code)

    assert migrate("--to", "vertex", "housing.py").stdout == printed.code

    refused = migrate("--to", "vertex", "housing.py", "--context", ".")
    assert refused.returncode != 0
    assert "its text stays, without --dag-id and --context" in refused.stderr

    (tmp_path / "other.py").write_text(old.code.replace("priority=5", 'config_file="absent.yaml"'))
    assert "absent.yaml" in migrate("--to", "vertex", "other.py").stdout
