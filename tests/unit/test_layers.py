"""
Packages and rooms have a fixed order; imports point downwards.

See docs/architecture.md.
"""

from __future__ import annotations

import ast
import re
import sys
import textwrap
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: Package -> its folder, and the packages of this project that it may import.
HOUSES: dict[str, tuple[Path, frozenset[str]]] = {
    "training_api": (ROOT, frozenset()),
    "container_engines": (ROOT, frozenset({"training_api"})),
    "training_service": (ROOT, frozenset({"training_api", "container_engines"})),
    "container_training": (ROOT / "plugins", frozenset({"training_api", "container_engines"})),
    "object_store": (ROOT, frozenset()),
    "local_stack": (ROOT / "docker", frozenset()),
}
#: Rooms, lowest first. A module may import from its own room and from those before it.
#: A module belongs to the room with the longest name that is a prefix of its own.
ROOMS: tuple[str, ...] = (
    "training_api.cached",
    "training_api.version",
    "training_api.causes",
    "training_api.errors",
    "training_api.loopback",
    "training_api.retrying",
    "training_api.states",
    "training_api.wire",
    "training_api.filtering",
    "training_api.field_mask",
    "training_api.cloud_logging",
    "training_api.job",
    "training_api.iam",
    "training_api.fleet",
    "training_api.dialects",
    "training_api.vertex_jobs",
    "training_api.clients",
    "training_api.command_line",
    "container_engines",
    "container_engines.docker",
    "container_engines.swarm",
    "container_engines.memory",
    "training_service.launcher",
    "training_service.search",
    "training_service.model",
    "training_service.store",
    "training_service.access",
    "training_service.intake",
    "training_service.telemetry",
    "training_service.studies",
    "training_service.use_cases",
    "training_service.loop",
    "training_service.upkeep",
    "training_service.metadata",
    "training_service.agent",
    "training_service.faults",
    "training_service.http_config",
    "training_service.front_door",
    "training_service.api",
    "training_service.grpc_api",
    "training_service.locking",
    "training_service.settings",
    "training_service.lifetime",
    "training_service.parts",
    "training_service.wiring",
    "training_service.stopping",
    "training_service.server",
    "training_service.cli",
    "training_service.__main__",
    "container_training.work.template_values",
    "container_training.work.object_store",
    "container_training.work.job_buckets",
    "container_training.work.job_pages",
    "container_training.work.images",
    "container_training.work.packages",
    "container_training.work.preflight",
    "container_training.work.submission",
    "container_training.work.waiting",
    "container_training.work.results",
    "container_training.work.models",
    "container_training.core",
    "container_training.work.orphans",
    "container_training.work.plan",
    "container_training.work.migration",
    "container_training.airflow_internals",
    "container_training.hooks",
    "container_training.links",
    "container_training.runtime",
    "container_training.triggers",
    "container_training.sensors",
    "container_training.operators",
    "container_training.decorators",
    "container_training.callbacks",
    "container_training.notifiers",
    "container_training.dashboard.service_side",
    "container_training.dashboard.views",
    "container_training.dashboard.airflow_side",
    "container_training.dashboard",
    "container_training.dashboard.routes",
    "container_training.dashboard.app",
    "container_training.dashboard.lazy",
    "container_training.cli",
    "container_training",
    "object_store.errors",
    "object_store.conditions",
    "object_store.names",
    "object_store.partial",
    "object_store.globs",
    "object_store.data",
    "object_store.resources",
    "object_store.listing",
    "object_store.store",
    "object_store.use",
    "object_store.uploads",
    "object_store.takeover",
    "object_store.api",
    "object_store.app",
    "object_store.server",
    "object_store.__main__",
    "local_stack.errors",
    "local_stack.settings",
    "local_stack.processes",
    "local_stack.people",
    "local_stack.images",
    "local_stack.machines",
    "local_stack.parts",
    "local_stack.stack",
    "local_stack.production",
    "local_stack",
)
#: Rooms without I/O. They import pydantic, this project, and the standard library except :data:`OUTSIDE`.
PURE_ROOMS = (
    "training_api.causes",
    "training_api.errors",
    "training_api.states",
    "training_api.wire",
    "training_api.filtering",
    "training_api.field_mask",
    "training_api.cloud_logging",
    "training_api.job",
    "training_api.iam",
    "training_api.dialects",
    "training_api.vertex_jobs",
)
#: Rooms that know jobs and no dialect of the API: wiring passes a dialect in, as one value.
NEUTRAL_ROOMS = (
    "container_engines",
    "training_api.job",
    "training_api.iam",
    "training_api.fleet",
    "training_service.access",
    "training_service.agent",
    "training_service.intake",
    "training_service.loop",
    "training_service.metadata",
    "training_service.model",
    "training_service.parts",
    "training_service.search",
    "training_service.store",
    "training_service.studies",
    "training_service.telemetry",
    "training_service.upkeep",
    "training_service.use_cases",
)
#: The one module that reads what was stored before jobs had a specification: requests of ml.v1 only.
READS_OLD_REQUESTS = "training_service.store.upgrade.migrations"
OUTSIDE = {
    "os",
    "socket",
    "subprocess",
    "time",
    "random",
    "pathlib",
    "shutil",
    "tempfile",
    "urllib",
    "http",
    "asyncio",
    "threading",
}
#: What pure modules compute with: values, numbers, and the format of an event file.
PURE_LIBRARIES = ("pydantic", "numpy", "scipy", "google_crc32c", "google")


def modules() -> Iterator[tuple[str, Path]]:
    """Yield the name and the file of each module of the product."""
    for package, (folder, _) in HOUSES.items():
        for path in sorted((folder / package).rglob("*.py")):
            if path.stat().st_size:  # the file that makes a folder a package is empty
                name = ".".join(path.relative_to(folder).with_suffix("").parts)
                yield name.removesuffix(".__init__"), path


MODULES = dict(modules())


@cache
def imports_of(path: Path) -> frozenset[str]:
    """Return every module that ``path`` imports, at its top or within a function."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide the room"
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in MODULES else node.module or "" for name in names}
    return frozenset(found)


def says_it_is_pure(path: Path) -> bool:
    """Whether the docstring of the module says "Pure" or "without I/O"."""
    says_so = re.compile(r"\bpure\b|without I/O", re.IGNORECASE)
    text = path.read_text("utf-8")
    return bool(says_so.search(text) and says_so.search(ast.get_docstring(ast.parse(text)) or ""))


def room_of(name: str) -> str:
    """Return the room in which the module lies."""
    found = [room for room in ROOMS if name == room or name.startswith(f"{room}.")]
    return max(found, key=len)


def own_imports_of(name: str) -> set[str]:
    """Return the modules of this project that the module imports."""
    return {used for used in imports_of(MODULES[name]) if used.partition(".")[0] in HOUSES}


def packages_of(name: str) -> set[str]:
    """Return the packages, this project's or others', that the module imports."""
    return {used.partition(".")[0] for used in imports_of(MODULES[name])}


def test_a_module_imports_from_its_room_and_those_below() -> None:
    height = {room: place for place, room in enumerate(ROOMS)}

    def is_below(used: str, name: str) -> bool:
        package, other = name.partition(".")[0], used.partition(".")[0]
        if other == package:
            return height[room_of(used)] <= height[room_of(name)]
        return other in HOUSES[package][1]

    wrong = {(name, used) for name in MODULES for used in own_imports_of(name) if not is_below(used, name)}

    assert not wrong


def test_a_room_without_io_imports_nothing_that_reaches_outside() -> None:
    allowed = {"pydantic", *HOUSES} | set(sys.stdlib_module_names) - OUTSIDE
    pure = [name for name in MODULES if room_of(name) in PURE_ROOMS]
    wrong = {name: found for name in pure if (found := packages_of(name) - allowed)}

    assert pure
    assert not wrong


def test_a_module_that_says_it_is_pure_imports_nothing_that_reaches_outside() -> None:
    allowed = {*PURE_LIBRARIES, *HOUSES} | set(sys.stdlib_module_names) - OUTSIDE
    pure = [name for name, path in MODULES.items() if says_it_is_pure(path)]
    wrong = {name: found for name in pure if (found := packages_of(name) - allowed)}

    assert pure
    assert not wrong


def test_what_moves_jobs_knows_no_dialect() -> None:
    neutral = [
        name for name in MODULES if room_of(name).startswith(NEUTRAL_ROOMS) and name != READS_OLD_REQUESTS
    ]
    wrong = {
        (name, used)
        for name in neutral
        for used in imports_of(MODULES[name])
        if used.startswith("training_api.dialects")
    }

    assert neutral
    assert not wrong


def test_a_dialect_knows_no_other() -> None:
    folders = {name.split(".")[2] for name in MODULES if name.startswith("training_api.dialects.")}
    folders.discard("registry")
    found = {
        (name, used)
        for name in MODULES
        for used in imports_of(MODULES[name])
        for folder in folders
        if f".{folder}." in f"{name}." and any(f"dialects.{other}." in used for other in folders - {folder})
    }

    assert "ml_v1" in folders
    assert not found


def test_airflow_is_known_from_the_hooks_upwards_only() -> None:
    know = {name for name in MODULES if "airflow" in packages_of(name)}

    assert know
    assert not {
        name
        for name in know
        if not name.startswith("container_training.") or name.startswith("container_training.work")
    }


def test_dags_use_the_airflow_side_only() -> None:
    paths = sorted((ROOT / "dags").rglob("*.py"))
    wrong = {
        (path.name, used)
        for path in paths
        for used in imports_of(path)
        if used.partition(".")[0] in {"training_service", "local_stack", "docker"}
    }

    assert paths
    assert not wrong


#: The only room that may use what Airflow does not publish.
INTERNALS = "container_training.airflow_internals"
#: Public modules of Airflow 3.3 beside ``airflow.sdk`` and the providers, and what they publish.
#: Source: Airflow's docs, ``public-airflow-interface`` (3.3.2), and those of its task SDK, ``api`` (1.3.2).
PUBLIC_AIRFLOW: dict[str, set[str]] = {
    "airflow.listeners": {"hookimpl"},
    "airflow.plugins_manager": {"AirflowPlugin"},
    # "Creating Custom @task Decorators".
    "airflow.sdk.bases.decorator": {"DecoratedOperator", "TaskDecorator", "task_decorator_factory"},
    "airflow.triggers.base": {"BaseEventTrigger", "BaseTrigger", "TriggerEvent"},
    "airflow.sdk.log": {"mask_secret"},
    # "Public Exceptions"; ``airflow.exceptions`` itself says that they are imported from here.
    "airflow.sdk.exceptions": {
        "AirflowException",
        "AirflowFailException",
        "AirflowNotFoundException",
        "AirflowSensorTimeout",
        "AirflowSkipException",
        "AirflowTaskTimeout",
        "TaskDeferralTimeout",
    },
}
#: Kinds of a provider's modules that are public: operators, hooks and so on, and OpenLineage's extractors.
PUBLIC_OF_PROVIDERS = {"extractors", "hooks", "operators", "sensors", "triggers"}


def private_airflow_of(path: Path) -> list[str]:
    """Return each name that ``path`` imports of Airflow, and that Airflow does not publish."""
    import airflow.sdk

    public = PUBLIC_AIRFLOW | {"airflow.sdk": set(airflow.sdk.__all__)}
    found = []
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names = [(alias.name, "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [(node.module or "", alias.name) for alias in node.names]
        else:
            continue
        for module, name in names:
            package, *rest = module.split(".")
            is_public = name in public.get(module, ()) or (
                rest[:1] == ["providers"] and PUBLIC_OF_PROVIDERS & {*rest} and not name.startswith("_")
            )
            if package == "airflow" and not is_public:
                found.append(f"{path.relative_to(ROOT)}:{node.lineno}: {module} {name}".rstrip())
    return found


def test_what_airflow_does_not_publish_is_imported_in_one_room_only() -> None:
    outside = [path for name, path in MODULES.items() if room_of(name) != INTERNALS]
    outside += sorted((ROOT / "dags").rglob("*.py"))

    assert [found for path in outside for found in private_airflow_of(path)] == []
    # And the room is where it is: a rule that finds nothing anywhere would be none.
    assert {
        path.stem for name, path in MODULES.items() if room_of(name) == INTERNALS if private_airflow_of(path)
    } == {
        "database",
        "login",
        "tasks",
    }


def test_no_class_uses_a_private_name_of_airflows_classes() -> None:
    """Neither on purpose nor by accident, with another meaning."""
    import importlib
    import inspect

    wrong = []
    for name, path in MODULES.items():
        if not re.search(r"class \w+\(.*(Base|Operator|Hook|Trigger|Link|Plugin)", path.read_text("utf-8")):
            continue
        if not name.startswith("container_training."):
            continue
        for found in vars(importlib.import_module(name)).values():
            if not inspect.isclass(found) or found.__module__ != name:
                continue
            of_airflow = {
                attribute
                for base in found.__mro__
                if base.__module__.startswith("airflow.")
                for attribute in vars(base)
                if attribute.startswith("_") and not attribute.startswith("__")
            }
            used = {
                getattr(node, "attr", None) or getattr(node, "name", None) or getattr(node, "id", None)
                for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(found))))
            }
            wrong += [
                f"{found.__qualname__}.{attribute}" for attribute in sorted(of_airflow.intersection(used))
            ]

    assert wrong == []
