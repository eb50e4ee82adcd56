"""The entry point of runtime images, without a container: real pip, a fake object store."""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import setuptools

from tests.support.fakes.object_downloads import DownloadStore
from tests.support.speed import scaled
from tests.support.waiting import wait_until

RUNNER = Path(__file__).resolve().parents[4] / "training_service" / "launcher" / "run_package.py"
URI = "gs://bkt/job/trainer-0.0.0.tar.gz"
TASK = "import os, sys\nprint('arguments', sys.argv[1:])\nprint('pid', os.getpid())\nsys.exit(7)\n"


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    """
    The runner's modules, imported as its container does.

    Their names are free again afterwards.
    """
    monkeypatch.syspath_prepend(str(RUNNER.parent))
    import object_download
    import run_package

    yield SimpleNamespace(run_package=run_package, object_download=object_download)
    for name in ("run_package", "object_download"):
        del sys.modules[name]


def sdist(files: dict[str, str], name: str = "trainer", requires: str = "") -> bytes:
    """Return a source distribution with a setup.py, as gcloud builds one."""
    setup = f"from setuptools import setup\nsetup(name={name!r}, version='0.0.0', packages=[{name!r}]{requires})\n"
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as tar:
        for path, text in {"setup.py": setup, **files}.items():
            info = tarfile.TarInfo(f"{name}-0.0.0/{path}")
            info.size = len(text.encode())
            tar.addfile(info, io.BytesIO(text.encode()))
    return archive.getvalue()


def run(
    store: DownloadStore,
    *arguments: str,
    module: str = "trainer.task",
    uris: tuple[str, ...] = (URI,),
    **environment: str,
) -> str:
    done = run_runner(store, *arguments, module=module, uris=uris, environment=environment)
    return f"{done.stdout}\n{done.stderr}\nexit {done.returncode}"


def run_runner(
    store: DownloadStore, *arguments: str, module: str, uris: tuple[str, ...], environment: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(RUNNER), *(f"--package={uri}" for uri in uris), f"--module={module}"]
    return subprocess.run(
        [*command, "--runtime-version=2.11", "--python-version=3.7", "--", *arguments],
        env={
            # pip and setuptools, which runtime images have
            "PYTHONPATH": str(Path(setuptools.__file__).parents[1]),
            "STORAGE_EMULATOR_HOST": store.url,
            "PATH": "/usr/bin:/bin",
            "PIP_NO_INDEX": "1",
            "HOME": "/nonexistent",
            **environment,
        },
        capture_output=True,
        text=True,
        timeout=scaled(120),
        check=False,
    )


@pytest.mark.extended
def test_the_module_runs_with_its_arguments_and_its_exit_code_is_the_jobs(store: DownloadStore) -> None:
    store.objects[URI] = sdist({"trainer/__init__.py": "", "trainer/task.py": TASK})
    store.statuses = [503]

    said = run(store, "--epochs", "3", "--", "-v", "--job-dir", "gs://bkt/out")

    assert "arguments ['--epochs', '3', '--', '-v', '--job-dir', 'gs://bkt/out']" in said
    assert "not 3.7; what the image does not have" in said
    assert f"{URI}: HTTP Error 503: Service Unavailable; asking again in 0.5 s" in said
    assert f"package 1 of 1: {URI}, {len(store.objects[URI])} bytes" in said
    assert said.endswith("exit 7")


@pytest.mark.extended
def test_packages_may_need_each_other_whatever_their_order(store: DownloadStore) -> None:
    other = "gs://bkt/job/helpers-0.0.0.tar.gz"
    store.objects[URI] = sdist(
        {"trainer/__init__.py": "", "trainer/task.py": "import helpers\nprint(helpers.WORD)\n"},
        requires=", install_requires=['helpers']",
    )
    store.objects[other] = sdist({"helpers/__init__.py": "WORD = 'helped'\n"}, name="helpers")

    said = run(store, uris=(URI, other))

    assert "helped" in said
    assert said.endswith("exit 0")


def test_without_a_runtime_version_the_images_own_python_is_announced(
    runtime: SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    options = runtime.run_package.read_options(["--package=gs://bkt/a.whl", "--module=trainer.task"])

    runtime.run_package.announce(options)

    said = capsys.readouterr().out
    assert said.startswith("[runtime] the packages run on the image's Python 3.")
    assert "runtime version" not in said


def test_an_image_without_pip_is_refused_by_name(
    runtime: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "path", [str(RUNNER.parent)])

    with pytest.raises(SystemExit) as caught:
        runtime.run_package.main([f"--package={URI}", "--module=trainer.task", "--"])

    assert caught.value.code == 65
    said = capsys.readouterr().err
    assert f"The job cannot start: the image has no pip for its {sys.executable}: " in said
    assert "an image with python3 and pip" in said


@pytest.mark.parametrize(
    ("module", "why"),
    [
        ("task", "no module 'task' in the packages: they have trainer"),
        ("trainer.tusk", "no module 'trainer.tusk' in the packages: 'trainer' has no 'tusk'"),
        (
            "trainer.task.run",
            "no module 'trainer.task.run' in the packages: 'trainer.task' is a module, not a package",
        ),
    ],
)
def test_a_module_that_is_not_there_is_named_with_what_is(
    runtime: SimpleNamespace, tmp_path: Path, module: str, why: str
) -> None:
    site = tmp_path / "lib" / "python{}.{}".format(*sys.version_info[:2]) / "site-packages"
    (site / "trainer").mkdir(parents=True)
    (site / "trainer-0.0.0.dist-info").mkdir()
    (site / "trainer" / "__init__.py").write_text("raise AssertionError('imported')")
    (site / "trainer" / "task.py").write_text("raise AssertionError('imported')")
    python = tmp_path / "bin" / "python"

    runtime.run_package.require_module(python, "trainer.task")
    with pytest.raises(runtime.run_package.RunnerFailed) as caught:
        runtime.run_package.require_module(python, module)

    assert str(caught.value) == why
    assert caught.value.exit_code == 65


def test_a_package_that_is_not_there_is_named(store: DownloadStore) -> None:
    said = run(store)

    assert f"The job cannot start: there is no {URI}; upload the package and submit the job again" in said
    assert said.endswith("exit 66")


@pytest.mark.extended
def test_the_generation_that_is_named_is_installed_and_not_the_newest(store: DownloadStore) -> None:
    store.objects[URI] = sdist({"trainer/__init__.py": "", "trainer/task.py": "print('another one')"})
    store.objects[f"{URI}#7"] = sdist({"trainer/__init__.py": "", "trainer/task.py": TASK})

    said = run(store, uris=(f"{URI}#7",))

    assert "arguments []" in said
    assert said.endswith("exit 7")


def test_a_generation_that_was_replaced_is_named(store: DownloadStore) -> None:
    store.objects[URI] = sdist({"trainer/__init__.py": "", "trainer/task.py": TASK})

    said = run(store, uris=(f"{URI}#7",))

    assert f"The job cannot start: generation 7 of {URI} is gone: the object was replaced or deleted" in said
    assert "upload the package and submit the job again" in said
    assert said.endswith("exit 66")


def test_a_package_that_may_not_be_read_is_named(store: DownloadStore) -> None:
    store.statuses = [403]

    said = run(store)

    assert f"the job may not read {URI}" in said
    assert said.endswith("exit 66")


@pytest.mark.parametrize(
    ("uri", "content", "why"),
    [
        ("gs://bkt/trainer.egg", b"x", "must be a source distribution (.tar.gz, .zip) or a wheel (.whl)"),
        ("gs://bkt/trainer-0.0.0.tar.gz", b"no archive", "is no tar archive"),
        ("gs://bkt/trainer-0.0.0-py3-none-any.whl", b"no archive", "is no zip archive"),
    ],
)
def test_what_is_no_package_is_refused_before_pip_sees_it(
    store: DownloadStore, uri: str, content: bytes, why: str
) -> None:
    store.objects[uri] = content

    said = run(store, uris=(uri,))

    assert f"The job cannot start: {uri} {why}" in said
    assert said.endswith("exit 65")


def test_a_package_that_cannot_be_built_is_named_and_pips_output_is_in_the_log(store: DownloadStore) -> None:
    store.objects[URI] = sdist({"setup.py": "raise SystemExit('no compiler here')\n"})

    said = run(store)

    assert "no compiler here" in said
    assert "The job cannot start: trainer-0.0.0.tar.gz cannot be built" in said
    assert said.endswith("exit 65")


@pytest.mark.extended
def test_a_requirement_that_cannot_be_had_is_named_by_pip(store: DownloadStore) -> None:
    store.objects[URI] = sdist(
        {"trainer/__init__.py": "", "trainer/task.py": TASK},
        requires=", install_requires=['no-such-thing>=9']",
    )

    said = run(store)

    assert "No matching distribution found for no-such-thing>=9" in said
    assert "The job cannot start: pip could not install the packages and what they require" in said
    assert said.endswith("exit 65")


def test_a_download_that_is_damaged_or_refused_is_read_again_with_doubled_waits(
    store: DownloadStore, runtime: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", store.url)
    store.objects[URI] = b"content"
    store.damage = 1
    store.statuses = [200, 429, 503]
    said: list[str] = []
    waits: list[float] = []

    size = runtime.object_download.download(URI, tmp_path / "file", said.append, waits.append)

    assert size == 7
    assert (tmp_path / "file").read_bytes() == b"content"
    assert waits == [0.5, 1, 2]
    assert "arrived damaged: its MD5 is another one; asking again in 0.5 s" in said[0]
    assert "HTTP Error 429" in said[1]


def test_a_store_that_never_answers_is_given_up(
    store: DownloadStore, runtime: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", store.url)
    store.statuses = [500] * 6
    waits: list[float] = []

    with pytest.raises(runtime.object_download.StoreUnavailable, match="could not be read in 6 attempts"):
        runtime.object_download.download(URI, tmp_path / "file", lambda _: None, waits.append)

    assert waits == [0.5, 1, 2, 4, 8]


def test_the_jobs_identity_is_shown_where_there_is_a_metadata_server(store: DownloadStore) -> None:
    host = store.url.removeprefix("http://")

    run(store)
    assert store.token == ""

    def shows_it() -> bool:
        run(store, GCE_METADATA_HOST=host)
        return store.token == "Bearer job-token"

    # The program waits three seconds for the metadata server, which is a thread of this process.
    wait_until(shows_it, "the identity is shown")


def test_the_jobs_identity_is_not_shown_to_where_an_answer_leads(
    store: DownloadStore, other_store: DownloadStore
) -> None:
    host = store.url.removeprefix("http://")
    store.location = f"{other_store.url}/download/storage/v1/b/bkt/o/x"
    other_store.objects, other_store.token = {"gs://bkt/x": b"x"}, "not asked"

    def shows_it() -> bool:
        store.statuses = [302]
        run(store, GCE_METADATA_HOST=host)
        return store.token == "Bearer job-token"

    wait_until(shows_it, "the identity is shown where it is asked for")
    assert other_store.token == ""
