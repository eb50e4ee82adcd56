"""What goes ahead of a trainer in its container."""

from __future__ import annotations

from training_api.job.packages.python_package import PackageTask
from training_service.loop.launcher import LAUNCHER_FOLDER, started

TASK = PackageTask(uris=("gs://bkt/a.whl#7", "gs://bkt/b.whl#8"), module="trainer.task")
RUN_PACKAGE = ("python3", "-u", f"{LAUNCHER_FOLDER}/run_package.py")
FETCH_FILES = ("python3", "-u", f"{LAUNCHER_FOLDER}/fetch_files.py")


def test_a_command_that_needs_nothing_is_started_as_it_is() -> None:
    begins = started(["train"], ["--data", "/gcs/bkt/a"], None)

    assert (begins.command, begins.args) == (("train",), ("--data", "/gcs/bkt/a"))
    assert not begins.files
    assert not begins.folders


def test_packages_are_installed_by_a_program_that_is_brought_along() -> None:
    begins = started([], ["--epochs", "3"], TASK, bucket_folder="/gcs")

    assert begins.command == RUN_PACKAGE
    assert begins.args == (
        "--package=gs://bkt/a.whl#7",
        "--package=gs://bkt/b.whl#8",
        "--module=trainer.task",
        "--",
        "--epochs",
        "3",
    )
    assert {path.rpartition("/")[2] for path in begins.files} >= {"run_package.py", "object_download.py"}
    assert all(path.startswith(f"{LAUNCHER_FOLDER}/") for path in begins.files)
    assert not begins.folders


def test_objects_that_the_words_name_are_fetched_first() -> None:
    begins = started(
        ["sh", "-c", "train /gcs/bkt/a"],
        ["--data=/gcs/bkt/b"],
        None,
        bucket_folder="/gcs",
        variables={"DATA": "/gcs/other/c"},
    )

    assert begins.command == (
        *FETCH_FILES,
        "--folder=/gcs",
        "--object=other/c",
        "--object=bkt/a",
        "--object=bkt/b",
        "--",
        "sh",
        "-c",
        "train /gcs/bkt/a",
    )
    assert (begins.args, begins.folders) == (("--data=/gcs/bkt/b",), ("/gcs",))
    assert f"{LAUNCHER_FOLDER}/fetch_files.py" in begins.files


def test_packages_may_get_objects_too() -> None:
    begins = started([], ["--data=/gcs/bkt/b"], TASK, bucket_folder="/gcs")

    assert begins.command == (*FETCH_FILES, "--folder=/gcs", "--object=bkt/b", "--", *RUN_PACKAGE)
    assert begins.args[-1] == "--data=/gcs/bkt/b"


def test_what_is_brought_fits_into_the_secret_of_a_swarm() -> None:
    assert all(len(content) < 500_000 for content in started([], [], TASK).files.values())
