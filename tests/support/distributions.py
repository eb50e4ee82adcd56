"""The four distributions of packaging/: what they have in them, and what they ask for."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]

#: Module -> the distribution that has it, where that is not the module's own name; the longest prefix counts.
IMPORTED_AS: Mapping[str, str] = {
    "airflow": "apache-airflow",
    "airflow.providers.docker": "apache-airflow-providers-docker",
    "airflow.providers.google": "apache-airflow-providers-google",
    "airflow.providers.openlineage": "apache-airflow-providers-openlineage",
    "attr": "attrs",
    "container_engines": "container-training-api",
    "cyclonedx": "cyclonedx-python-lib",
    "google.api_core": "google-api-core",
    "google.auth": "google-auth",
    "google.cloud.devtools": "google-cloud-build",
    "google.cloud.storage": "google-cloud-storage",
    "google.protobuf": "protobuf",
    "grpc": "grpcio",
    "jwt": "pyjwt",
    "object_store": "container-training-object-store",
    "openlineage": "openlineage-python",
    "packageurl": "packageurl-python",
    "pynvml": "nvidia-ml-py",
    "training_api": "container-training-api",
    "vl_convert": "vl-convert-python",
    "yaml": "pyyaml",
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Distribution:
    """
    One ``pyproject.toml``.

    :param folder: below the root of the checkout.
    :param packages: its folders of Python code, below the root.
    :param needs_extra: prefix of module names -> the extra without which they cannot be imported.
    :param programs_in: the folder of programs that run outside of it, and import each other as they lie.
    :param beside: other files and folders, below the root -> where the wheel has them.
    """

    folder: str
    packages: tuple[str, ...]
    needs_extra: Mapping[str, str]
    beside: Mapping[str, str] = field(default_factory=dict)
    programs_in: str = ""

    @property
    def project(self) -> Mapping[str, Any]:
        """The table ``[project]``."""
        text = (ROOT / self.folder / "pyproject.toml").read_text("utf-8")
        project: Mapping[str, Any] = tomllib.loads(text)["project"]
        return project

    @property
    def name(self) -> str:
        """The distribution's name."""
        return str(self.project["name"])

    @property
    def requirements(self) -> list[Requirement]:
        """What it always needs."""
        return [Requirement(line) for line in self.project["dependencies"]]

    @property
    def extras(self) -> Mapping[str, list[Requirement]]:
        """What its extras need."""
        extras = self.project.get("optional-dependencies", {})
        return {name: [Requirement(line) for line in lines] for name, lines in extras.items()}

    @property
    def optional_requirements(self) -> list[Requirement]:
        """What its extras need, together."""
        return [requirement for lines in self.extras.values() for requirement in lines]

    @property
    def programs(self) -> set[str]:
        """What files in ``programs_in`` import each other as."""
        return {path.stem for path in (ROOT / self.programs_in).glob("*.py")} if self.programs_in else set()

    def modules(self) -> Iterator[tuple[str, Path]]:
        """Yield the name and the file of each module."""
        for package in self.packages:
            for path in sorted((ROOT / package).rglob("*.py")):
                name = ".".join(path.relative_to((ROOT / package).parent).with_suffix("").parts)
                yield name.removesuffix(".__init__"), path

    def extra_of(self, module: str) -> str | None:
        """Return the extra without which ``module`` cannot be imported."""
        found = [extra for prefix, extra in self.needs_extra.items() if is_within(module, prefix)]
        return found[0] if found else None


API = Distribution(folder="packaging/api", packages=("training_api", "container_engines"), needs_extra={})
SERVICE = Distribution(
    folder="packaging/service",
    packages=("training_service",),
    programs_in="training_service/launcher",
    needs_extra={
        "training_service.grpc_api.calls": "grpc",
        "training_service.grpc_api.server": "grpc",
        "training_service.intake.summary_events": "tuning",
        "training_service.search.acquisition": "tuning",
        "training_service.search.bayesian": "tuning",
        "training_service.search.curve_forecast": "tuning",
        "training_service.search.gaussian_process": "tuning",
        "training_service.search.proposal": "tuning",
        "training_service.search.stop_rules": "tuning",
        "training_service.search.suggest": "tuning",
        "training_service.search.targets": "tuning",
        "training_service.search.unit_cube": "tuning",
    },
)
OBJECT_STORE = Distribution(folder="packaging/object-store", packages=("object_store",), needs_extra={})
AIRFLOW = Distribution(
    folder="packaging/airflow",
    packages=("plugins/container_training",),
    needs_extra={"container_training.runtime.openlineage_facets": "openlineage"},
    beside={
        "dags": "container_training/example_dags",
        "docker/frameworks": "container_training/docker/frameworks",
        "docker/trainers": "container_training/docker/trainers",
        "packaging/airflow/airflow_container_training.py": "airflow_container_training.py",
    },
)
DISTRIBUTIONS = (API, SERVICE, OBJECT_STORE, AIRFLOW)
#: The checkout's own project, which no wheel is made of.
CHECKOUT = Distribution(folder=".", packages=("docker/local_stack",), needs_extra={})


def is_within(module: str, prefix: str) -> bool:
    """Whether ``module`` is ``prefix`` or in it."""
    return module == prefix or module.startswith(f"{prefix}.")


def distribution_of(module: str) -> str:
    """Return the distribution that has ``module``."""
    found = [prefix for prefix in IMPORTED_AS if is_within(module, prefix)]
    return IMPORTED_AS[max(found, key=len)] if found else canonicalize_name(module.partition(".")[0])


def imports_of(path: Path) -> Iterator[tuple[str, bool]]:
    """Yield every module that ``path`` imports, and whether importing ``path`` imports it, too."""
    yield from _imports_below(ast.parse(path.read_text("utf-8")), at_once=True)


def _imports_below(node: ast.AST, *, at_once: bool) -> Iterator[tuple[str, bool]]:
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.Import(names=names):
                yield from ((alias.name, at_once) for alias in names)
            case ast.ImportFrom(module=module, names=names):
                yield from ((f"{module}.{alias.name}", at_once) for alias in names)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield from _imports_below(child, at_once=False)
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                yield from _imports_below(child, at_once=False)
            case _:
                yield from _imports_below(child, at_once=at_once)
