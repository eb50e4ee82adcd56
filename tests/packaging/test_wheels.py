"""Each wheel by itself, in a virtual environment with what it asks for (docs/adr/0023)."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from zipfile import ZipFile

import httpx
import pytest
from packaging.utils import canonicalize_name

from tests.packaging.fresh_venv import FreshVenv
from tests.support import web
from tests.support.distributions import (
    AIRFLOW,
    API,
    DISTRIBUTIONS,
    ROOT,
    SERVICE,
    Distribution,
    distribution_of,
)
from tests.support.ports import reserve_port
from tests.support.speed import scaled
from tests.support.waiting import wait_until
from training_api.version import __version__

#: The Airflow side beyond Airflow and its two providers, without extras (docs/adr/0023).
LIMIT_BYTES = 30_000_000
BASE = ("apache-airflow", "apache-airflow-providers-docker", "apache-airflow-providers-google")

each_distribution = pytest.mark.parametrize(
    "distribution", DISTRIBUTIONS, ids=lambda distribution: distribution.name
)
VenvOf = Callable[[Distribution], FreshVenv]


@each_distribution
def test_the_wheel_has_every_file_of_its_packages(
    distribution: Distribution, wheels: Mapping[str, Path]
) -> None:
    wheel = wheels[distribution.name]

    with ZipFile(wheel) as archive:
        names = archive.namelist()

    packed = {name for name in names if ".dist-info/" not in name}
    assert packed == {*files_of(distribution), *files_beside(distribution)}
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)


@each_distribution
def test_the_source_distribution_has_them_too(distribution: Distribution, wheels: Mapping[str, Path]) -> None:
    wheel = wheels[distribution.name]
    name = f"{distribution.name.replace('-', '_')}-{__version__}"

    with tarfile.open(wheel.with_name(f"{name}.tar.gz")) as archive:
        members = {member.name.removeprefix(f"{name}/"): member for member in archive}

    assert set(files_of(distribution)) <= set(members)
    assert all(member.isfile() for member in members.values())  # no link to a folder that is not there


def files_of(distribution: Distribution) -> Iterator[str]:
    for package in distribution.packages:
        for path in files_in(ROOT / package):
            yield str(path.relative_to((ROOT / package).parent))


def files_beside(distribution: Distribution) -> Iterator[str]:
    for source, place in distribution.beside.items():
        for path in files_in(ROOT / source):
            yield str(Path(place) / path.relative_to(ROOT / source))


def files_in(place: Path) -> Iterator[Path]:
    for path in [place] if place.is_file() else place.rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            yield path


@each_distribution
def test_every_module_is_imported_or_needs_the_extra_that_it_is_said_to_need(
    distribution: Distribution, venv_of: VenvOf
) -> None:
    programs = ROOT / distribution.programs_in if distribution.programs_in else None
    modules = [name for name, path in distribution.modules() if path.parent != programs]

    missing = venv_of(distribution).modules_missing_at_import(modules)

    needing = {name: extra for name in modules if (extra := distribution.extra_of(name))}
    asked = {extra: {each.name for each in lines} for extra, lines in distribution.extras.items()}
    assert set(missing) == set(needing)
    assert all(distribution_of(missing[name]) in asked[extra] for name, extra in needing.items())


def test_the_service_is_healthy_where_there_is_no_airflow(venv_of: VenvOf, service: str) -> None:
    answer = web.get(f"{service}/health")

    installed = set(venv_of(SERVICE).sizes())
    assert not {name for name in installed if "airflow" in name}
    # There is no engine behind that address: the service answers, and says so.
    assert (answer.status_code, answer.json()["status"], answer.json()["version"]) == (
        503,
        "degraded",
        __version__,
    )


def test_the_service_refuses_to_tune_without_the_extra(service: str) -> None:
    job = {
        "jobId": "tuned",
        "trainingInput": {
            "scaleTier": "BASIC",
            "region": "us-central1",
            "masterConfig": {"imageUri": "127.0.0.1:5000/demo-project/digits:1"},
            "hyperparameters": {
                "goal": "MAXIMIZE",
                "maxTrials": 2,
                "params": [
                    {
                        "parameterName": "x",
                        "type": "DOUBLE",
                        "minValue": 0,
                        "maxValue": 1,
                        "scaleType": "UNIT_LINEAR_SCALE",
                    }
                ],
            },
        },
    }

    answer = web.post(f"{service}/v1/projects/demo-project/jobs", json=job)

    assert answer.status_code == 400
    assert "pip install 'container-training-service[tuning]'" in answer.json()["error"]["message"]


@pytest.fixture(scope="module")
def service(venv_of: VenvOf, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of ``training-service serve`` as its wheel installs it; it has no engine."""
    venv = venv_of(SERVICE)
    folder = tmp_path_factory.mktemp("service")
    port, nobody = reserve_port(), reserve_port()
    environment = venv.variables() | {
        "TRAINING_DOCKER_HOST": f"tcp://127.0.0.1:{nobody}",
        "TRAINING_METRICS_DIR": str(folder / "metrics"),
        "TRAINING_STORAGE_ENDPOINT": f"http://127.0.0.1:{nobody}",
    }
    command = [venv.program("training-service"), "serve", "--port", str(port)]
    with (folder / "service.log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "--database-url", f"sqlite:///{folder / 'jobs.db'}"],
            env=environment,
            cwd=folder,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    address = f"http://127.0.0.1:{port}"
    try:
        wait_until(
            lambda: process.poll() is not None or web.get(f"{address}/health"),
            f"the service answers ({folder / 'service.log'})",
            ignoring=httpx.TransportError,
        )
        assert process.poll() is None, (folder / "service.log").read_text("utf-8")[-2000:]
        yield address
    finally:
        process.terminate()
        process.wait(timeout=scaled(60))


def test_the_commands_of_the_airflow_side_run(venv_of: VenvOf) -> None:
    venv = venv_of(AIRFLOW)

    shown = subprocess.run(
        [venv.program("container-training"), "--help"],
        env=venv.variables(),
        cwd=venv.folder,
        capture_output=True,
        text=True,
        check=True,
        timeout=scaled(60),
    )

    assert "migrate" in shown.stdout


@pytest.mark.parametrize("discovery", ["True", "False"], ids=["lazy discovery", "eager discovery"])
@pytest.mark.parametrize("folder", ["", str(ROOT / "plugins")], ids=["wheel alone", "with plugins folder"])
def test_airflow_registers_everything_once(
    venv_of: VenvOf, folder: str, discovery: str, tmp_path: Path
) -> None:
    """In core, and in a task's process, where a second registration hides other plugins."""
    venv = venv_of(AIRFLOW)
    code = """
import json
from airflow import plugins_manager
from airflow.providers_manager import ProvidersManager
from airflow.sdk import plugins_manager as of_tasks
core, errors = plugins_manager._get_plugins()
tasks, task_errors = of_tasks._get_plugins()
views, _ = plugins_manager._get_ui_plugins()
manager = ProvidersManager()
print(json.dumps({
    "core": [plugin.name for plugin in core],
    "tasks": [plugin.name for plugin in tasks],
    "errors": [*errors.values(), *task_errors.values()],
    "source": [str(each.source).partition(":")[0] for each in core if each.name == "container_training"],
    "views": [view["name"] for view in views],
    "hooks": [name for name in manager.hooks if name in ("container_training", "mlflow_registry")],
    "links": [name for name in manager.extra_links_class_names if name.startswith("container_training.")],
    "provider": manager.providers["airflow-container-training"].version,
}))
"""

    printed = venv.run_code(
        code,
        AIRFLOW__CORE__PLUGINS_FOLDER=folder or str(tmp_path),
        AIRFLOW__CORE__LAZY_DISCOVER_PROVIDERS=discovery,
        AIRFLOW__CORE__LOAD_EXAMPLES="False",
    )

    found = json.loads(printed.splitlines()[-1])
    assert found["core"].count("container_training") == found["tasks"].count("container_training") == 1
    assert found["errors"] == []
    assert found["source"] == [f"airflow-container-training=={__version__}"]
    assert found["views"] == ["Training jobs", "Training job", "Training fleet"]
    assert sorted(found["hooks"]) == ["container_training", "mlflow_registry"]
    assert len(found["links"]) == len(set(found["links"])) == 5
    assert found["provider"] == __version__


@pytest.mark.parametrize("syntax", ["glob", "regexp"])
def test_a_copied_plugins_folder_is_enough_and_shadows_no_module(
    wheels: Mapping[str, Path], tmp_path: Path, syntax: str
) -> None:
    """Without the wheel, beside other plugins with an ``.airflowignore`` of their own."""
    needed = [str(requirement) for requirement in AIRFLOW.requirements if requirement.name != API.name]
    venv = FreshVenv.with_packages(tmp_path / "venv", [wheels[API.name], *needed])
    plugins = tmp_path / "plugins"
    plugins.mkdir()
    for path in (ROOT / "plugins").glob("[!.]*"):  # as ``cp -r plugins/*`` does
        if path.name != "__pycache__":
            copy = shutil.copytree if path.is_dir() else shutil.copy2
            copy(path, plugins / path.name)
    (plugins / ".airflowignore").write_text("experiments\n", encoding="utf-8")
    code = """
import json, sys
from airflow import plugins_manager
from airflow.providers_manager import ProvidersManager
plugins, errors = plugins_manager._get_plugins()
from container_training.operators.training import SubmitTrainingJobOperator
import docker
print(json.dumps({
    "plugins": [str(each.source) for each in plugins if each.name == "container_training"],
    "errors": [*errors.values()],
    "shadowed": sorted({"training", "image", "storage", "pipeline", "listener"} & set(sys.modules)),
    "docker": hasattr(docker, "APIClient"),
    "hooks": [name for name in ProvidersManager().hooks if name == "container_training"],
}))
"""

    printed = venv.run_code(
        code,
        AIRFLOW__CORE__PLUGINS_FOLDER=str(plugins),
        AIRFLOW__CORE__DAG_IGNORE_FILE_SYNTAX=syntax,
        AIRFLOW__CORE__LOAD_EXAMPLES="False",
    )

    assert json.loads(printed.splitlines()[-1]) == {
        "plugins": ["$PLUGINS_FOLDER/container_training_plugin.py"],
        "errors": [],
        "shadowed": [],
        "docker": True,
        "hooks": [],  # the form is described by an entry point, which only the distribution has
    }


def test_the_wheel_goes_with_the_oldest_airflow_and_the_providers_of_its_day(
    wheels: Mapping[str, Path],
) -> None:
    """Airflow's own constraints have the providers of the day when it came out."""
    day = "2026-07-08T00:00:00Z"
    pins = {"": "3.3.0", "-providers-docker": "4.5.7", "-providers-google": "22.1.0"}
    wanted = [f"apache-airflow{name}=={version}" for name, version in pins.items()]

    done = subprocess.run(
        [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "-", "--exclude-newer", day],
        input="\n".join([*wanted, str(wheels[API.name]), f"{wheels[AIRFLOW.name]}[openlineage]"]),
        capture_output=True,
        text=True,
        timeout=scaled(120),
        check=False,
    )

    assert done.returncode == 0, done.stderr


def test_airflow_shows_the_examples_of_the_wheel(venv_of: VenvOf) -> None:
    code = """
import json
from airflow.dag_processing.bundles.manager import DagBundlesManager
from airflow.dag_processing.dagbag import DagBag
(bundle,) = [
    each for each in DagBundlesManager().get_all_dag_bundles()
    if each.name == "airflow-container-training-example-dags"
]
bag = DagBag(bundle.path, bundle_name=bundle.name)
folders = [task.context_dir for dag in bag.dags.values() for task in dag.tasks if hasattr(task, "context_dir")]
print(json.dumps({"dags": sorted(bag.dags), "errors": bag.import_errors, "folders": folders}))
"""

    printed = venv_of(AIRFLOW).run_code(code, AIRFLOW__CORE__LOAD_EXAMPLES="True")

    found = json.loads(printed.splitlines()[-1])
    assert found["errors"] == {}
    assert found["dags"] == sorted(path.stem for path in (ROOT / "dags").glob("*.py"))
    assert found["folders"]
    assert all(Path(folder).is_dir() for folder in found["folders"])


def test_the_airflow_side_adds_little_to_airflow_and_its_providers(venv_of: VenvOf) -> None:
    venv = venv_of(AIRFLOW)
    sizes = venv.sizes()

    added = {name: sizes[name] for name in set(sizes) - venv.closure(BASE)}

    print({name: f"{size / 1e6:.1f} MB" for name, size in sorted(added.items())}, file=sys.stderr)
    assert canonicalize_name(AIRFLOW.name) in added
    assert sum(added.values()) < LIMIT_BYTES
    assert not set(added) & {
        "container-training-service",
        "container-training-object-store",
        "numpy",
        "nvidia-ml-py",
        "scipy",
        "supervisor",
        "vl-convert-python",
    }
