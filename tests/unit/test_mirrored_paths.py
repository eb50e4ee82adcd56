"""
A module has its unit test at the mirrored path.

Whoever changes a module finds its test without a search.
``training_service/intake/lease.py`` has ``tests/unit/training_service/intake/test_lease.py``.
The two packages that lie deeper lose the folders above them:
``plugins/container_training/pipeline.py`` has ``tests/unit/container_training/test_pipeline.py``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
UNIT = ROOT / "tests" / "unit"
#: Package -> the folder that it lies in.
PACKAGES = {
    "training_api": ROOT,
    "container_engines": ROOT,
    "training_service": ROOT,
    "container_training": ROOT / "plugins",
    "object_store": ROOT,
    "local_stack": ROOT / "docker",
}
LEAST_SHARE = 0.6
#: Tests that lie beside those of modules, and why.
OF_NO_MODULE = {
    "container_training/dashboard/routes/test_vertex.py": "of all routes: what a connection to Vertex AI tells",
    "container_training/operators/test_results_of_studies.py": "the part of test_results.py that is about tuning jobs",
    "container_training/operators/test_reuse_by_retries.py": "the part of test_reuse.py that is about retries and kills",
    "container_training/operators/test_reuse_elsewhere.py": "the part of test_reuse.py that is about other services",
    "container_training/operators/test_templates.py": "of all operators: what can be a template",
    "container_training/sensors/test_training_by_poking.py": "the part of test_training.py that is about poking",
    "container_training/test_wrong_calls.py": "of all operators and functions: what a wrong call is told",
    "container_training/test_arguments.py": "of all task groups: which tasks get an argument",
    "container_training/triggers/test_poller_of_vertex.py": "the part of test_poller.py that is about Vertex AI",
    "container_training/triggers/test_training_of_studies.py": "the part of test_training.py that is about tuning jobs",
    "container_training/triggers/test_stored_triggers.py": "of all triggers: what Airflow's database has of them",
    "object_store/test_random_requests.py": "of the whole store: what it answers to anything",
    "training_service/grpc_api/test_calls_of_strangers.py": "of the whole surface: calls without a token, or without a message",
    "training_service/loop/test_cancels.py": "of the whole loop: cancels, by a user or by a limit",
    "training_service/loop/test_causes.py": "of the whole loop: the cause of each end",
    "training_service/loop/test_dialects.py": "of the whole loop: jobs of several dialects side by side",
    "training_service/loop/test_distributed.py": "of the whole loop: jobs of several replicas",
    "training_service/loop/test_full_database.py": "of the whole loop: a database that takes no write",
    "training_service/loop/test_loop_thread.py": "the part of test_scheduler.py that is about its thread",
    "training_service/loop/test_refused_work.py": "of the whole loop: what the engine refuses",
    "training_service/loop/test_scheduler_properties.py": "the properties of test_scheduler.py, over random histories",
    "training_service/loop/test_vertex_jobs.py": "of the whole loop: CustomJobs of Vertex AI",
    "training_service/loop/test_vertex_studies.py": "of the whole loop: HyperparameterTuningJobs of Vertex AI",
    "training_service/telemetry/test_metrics_of_dialects.py": "the part of test_metrics.py that is about two dialects",
    "training_service/store/test_unreadable_jobs.py": "of the whole store: a row that cannot be read",
}


def says_something(path: Path) -> bool:
    """
    Whether a module defines anything: a function, a class or data.

    Imports, ``__all__`` and a call of ``main`` are nothing.
    """
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            return True
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [target.id for target in targets if isinstance(target, ast.Name)]
            if not all(name.startswith("__") for name in names):
                return True
    return False


def mirrored_path(module: Path) -> Path:
    """Return where the test of ``module``, a path below its package's folder, has to lie."""
    return UNIT / module.parent / f"test_{module.stem.strip('_')}.py"


def modules() -> Iterator[Path]:
    """Yield each module that counts, as a path below its package's folder."""
    for package, folder in PACKAGES.items():
        for path in sorted((folder / package).rglob("*.py")):
            if says_something(path):
                yield path.relative_to(folder)


def written() -> Iterator[Path]:
    """Yield each file of tests of a package."""
    for package in PACKAGES:
        yield from sorted((UNIT / package).rglob("test_*.py"))


def rooms(found: list[Path]) -> str:
    """Return a line a room: how many of its modules have a test, and which have none."""
    lines = []
    for room in sorted({module.parent for module in found}):
        own = [module for module in found if module.parent == room]
        missing = [module.stem for module in own if not mirrored_path(module).exists()]
        lines.append(f"{len(own) - len(missing):3} of {len(own):2}  {room}  {' '.join(missing)}".rstrip())
    return "\n".join(lines)


def test_most_modules_have_their_test_at_the_mirrored_path() -> None:
    found = list(modules())

    share = sum(mirrored_path(module).exists() for module in found) / len(found)

    print(f"{share:.1%} of {len(found)} modules\n{rooms(found)}")
    assert share >= LEAST_SHARE, rooms(found)


def test_every_test_of_a_package_is_that_of_a_module_or_is_listed_with_its_reason() -> None:
    mirrored = {mirrored_path(module) for module in modules()}
    others = {path.relative_to(UNIT).as_posix() for path in written() if path not in mirrored}

    assert others - OF_NO_MODULE.keys() == set(), "move them to the mirrored path, or list them with a reason"
    assert OF_NO_MODULE.keys() - others == set(), "they are there no more, or have their module now"
