"""
What every test needs before Airflow is imported: home, database and log folder.

Airflow reads its configuration once, at import, so this runs when pytest loads the file, not in a fixture.
The database is made only for tests that ask for ``airflow_db``.
"""

from __future__ import annotations

import atexit
import gc
import itertools
import os
import shutil
import subprocess
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import pytest_timeout
from hypothesis import HealthCheck, settings

from tests.support.kept_logs import say_where
from tests.support.programs import is_there
from tests.support.run_id import current_run
from tests.support.speed import scaled

if TYPE_CHECKING:
    from airflow.sdk import DAG

#: The real engine, registry, object store and service, for whoever asks for them.
pytest_plugins = [
    "tests.support.bed.real_parts",
    "tests.support.bed.podman",
    "tests.support.bed.swarm_parts",
    "tests.support.bed.image_tasks",
    "tests.support.bed.object_store",
    "tests.support.bed.postgresql",
    "tests.support.bed.vertex",
]

REPOSITORY = Path(__file__).resolve().parents[1]


def _isolate_airflow() -> Path:
    """Point Airflow at this checkout's DAGs and plugins, and at a temporary folder."""
    scratch = current_run().make_folder("airflow")
    atexit.register(shutil.rmtree, scratch, ignore_errors=True)
    for name in [
        name for name in os.environ if name.startswith(("AIRFLOW__", "AIRFLOW_CONN_", "AIRFLOW_VAR_"))
    ]:
        del os.environ[name]  # the developer's own settings must not decide a test
    docker_config = scratch / "docker"
    docker_config.mkdir()
    (docker_config / "config.json").write_text("{}")
    os.environ |= {
        "DOCKER_CONFIG": str(docker_config),  # and neither must his registry logins
        "AIRFLOW_HOME": str(REPOSITORY),
        "AIRFLOW__CORE__DAGS_FOLDER": str(REPOSITORY / "dags"),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(REPOSITORY / "plugins"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__UNIT_TEST_MODE": "True",
        "AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE": "True",  # as airflow.cfg has it
        # What airflow.cfg asks a command for would be written into the checkout; tests bring their own.
        "AIRFLOW__CORE__FERNET_KEY": "",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(scratch / "passwords.json"),
        "AIRFLOW__API_AUTH__JWT_SECRET": "a-secret-for-tests-only-that-is-long-enough-for-sha-512-as-well!",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{scratch / 'airflow.db'}",
        "AIRFLOW__LOGGING__BASE_LOG_FOLDER": str(scratch / "logs"),
        # Else each client of Cloud Storage leaves a thread that draws from `random`: Hypothesis fails any
        # test during whose examples it does so.
        "DISABLE_GCS_PYTHON_CLIENT_OTEL_BUCKET_METADATA": "true",
    }
    return scratch


SCRATCH = _isolate_airflow()

# The same examples in every run; HYPOTHESIS_PROFILE=search looks for new ones. How long the drawing of
# examples takes says something about the machine, not about the code.
_ANY_SPEED = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("same", derandomize=True, **_ANY_SPEED)
settings.register_profile("search", **_ANY_SPEED)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))


#: Fixture -> marker of the tests that use it, so that ``make test ONLY=browser`` finds them.
_MARKED_BY_FIXTURE = {
    "browser": "browser",
    "swarm": "swarm",
    "airflow": "airflow",
    "postgresql": "postgresql",
}
#: Marker -> program that its tests cannot do without.
_PROGRAMS = {"browser": "chromium", "gcloud": "gcloud", "airflow": "postgres", "postgresql": "postgres"}

#: Full garbage collections: after so many files, and else ten times as rarely as Python makes them.
_FILES_PER_COLLECTION, _FULL_COLLECTION_THRESHOLD = 10, 100
_finished_files = itertools.count(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """
    Mark tests by what they use, and leave out those that cannot run here.

    The runner names and counts them.
    """
    for item in items:
        for fixture, marker in _MARKED_BY_FIXTURE.items():
            if fixture in getattr(item, "fixturenames", ()):
                item.add_marker(marker)
        if item.path.parent.name == "conformance":
            item.add_marker("gcloud")
        if reason := _refusal(item):
            item.add_marker(pytest.mark.skip(reason=reason))


def pytest_collection_finish() -> None:
    """Begin to collect garbage between the files; within one, full collections are rare."""
    gc.set_threshold(*gc.get_threshold()[:2], _FULL_COLLECTION_THRESHOLD)
    _collect_garbage()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None]:
    yield
    is_last = nextitem is None or nextitem.path != item.path
    if is_last and next(_finished_files) % _FILES_PER_COLLECTION == 0:
        _collect_garbage()


def _collect_garbage() -> None:
    """
    Collect garbage, and take what is left out of all later collections.

    Modules and reports are most of what is left, and each full collection would search them: that was a
    tenth of the quick tests' time. Between two files, next to nothing is left that is still to be closed.
    """
    gc.collect()
    gc.freeze()


def _refusal(item: pytest.Item) -> str:
    """Return why the test cannot run on this machine; empty if it can."""
    needs_root = item.get_closest_marker("needs_root") or item.get_closest_marker("swarm")
    if needs_root is not None and os.geteuid() != 0:
        return "needs root: it makes an engine or network namespaces"
    programs = [program for marker, program in _PROGRAMS.items() if item.get_closest_marker(marker)]
    programs += [mark.args[0] for mark in item.iter_markers("needs_program")]
    missing = [program for program in programs if not is_there(program)]
    return f"needs {', '.join(missing)}: see the top of the output" if missing else ""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    call: pytest.CallInfo[None],
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Say in a failure what a failed command said, and where the logs of its stack lie."""
    report = yield
    if call.excinfo is not None and isinstance(call.excinfo.value, subprocess.SubprocessError):
        for stream in ("stdout", "stderr"):
            if text := getattr(call.excinfo.value, stream, None):
                text = text.decode(errors="replace") if isinstance(text, bytes) else text
                report.sections.append((f"{stream} of the command", text[-4000:]))
    if report.failed and (where := say_where()):
        report.sections.append(("logs that are kept", where))
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> bool:
    """
    Scale the timeout of a test by the machine's speed.

    It comes from ``pyproject.toml``, a mark or ``--timeout``.
    """
    scaled_settings = settings._replace(timeout=scaled(settings.timeout))
    return bool(pytest_timeout.pytest_timeout_set_timer(item, scaled_settings))


@pytest.fixture(scope="session", autouse=True)
def known_temporary_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Register pytest's temporary folders, so that they are removed if this process is killed."""
    with current_run().temporary_folder(tmp_path_factory.getbasetemp()):
        yield


@pytest.fixture(scope="session")
def airflow_db() -> Path:
    """Return the file of a fresh Airflow database; made on first use (about 2 s)."""
    from airflow.utils.db import initdb

    initdb()
    return SCRATCH / "airflow.db"


@pytest.fixture(scope="session")
def register_dag(airflow_db: Path) -> Callable[[DAG], DAG]:
    """
    Return a function that writes a DAG made in a test to the database and returns it.

    ``DAG.test()`` refuses a DAG that the dag processor never saw.
    """
    from airflow.dag_processing.bundles.manager import DagBundlesManager
    from airflow.models.serialized_dag import SerializedDagModel
    from airflow.serialization.definitions.dag import SerializedDAG
    from airflow.serialization.serialized_objects import LazyDeserializedDAG

    manager = DagBundlesManager()
    manager.sync_bundles_to_db()
    (bundle,) = manager.get_all_dag_bundles()

    def register(dag: DAG) -> DAG:
        serialized = LazyDeserializedDAG.from_dag(dag)
        SerializedDAG.bulk_write_to_db(bundle.name, None, [serialized])
        SerializedDagModel.write_dag(serialized, bundle_name=bundle.name)
        return dag

    return register
