"""What the replicas of a pool run: a container, or packages in an executor's image. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from training_api.dialects.vertex_v1.variables import MAX_EXPANDED, expanded_length
from training_api.errors import InvalidImageRef
from training_api.job.image_ref import ImageRef, parse_image_ref
from training_api.job.packages.bucket_paths import named_objects, names_no_object
from training_api.job.packages.python_package import MAX_PACKAGES, MODULE, OBJECT, PackageTask
from training_api.job.violations import Violations

#: Where containers see Cloud Storage.
BUCKET_FOLDER = "/gcs"
_CONTAINER, _PACKAGES = "containerSpec", "pythonPackageSpec"
_MAX_VARIABLES = 100
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolTask:
    """
    What each replica of a pool runs.

    :param installs: packages whose module runs with ``args``; ``None``: the image's program does.
    """

    image: ImageRef
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    installs: PackageTask | None = None


def task_of(pool: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the ``containerSpec`` of a pool, or its ``pythonPackageSpec``; empty: it has none."""
    found: Mapping[str, Any] = pool.get(_CONTAINER) or pool.get(_PACKAGES) or {}
    return found


def image_of(pool: Mapping[str, Any]) -> str:
    """Return the name of the pool's image, as it was sent."""
    task = task_of(pool)
    return str(task.get("imageUri") or task.get("executorImageUri") or "")


def read_task(rules: Violations, path: str, pool: Mapping[str, Any]) -> PoolTask | None:
    """
    Return what the replicas of ``pool`` run; ``None``: it cannot be read.

    :param path: of the pool. What breaks a rule is recorded in ``rules``.
    """
    if _CONTAINER in pool:
        return _container(rules, f"{path}.{_CONTAINER}", pool[_CONTAINER])
    if _PACKAGES in pool:
        return _packages(rules, f"{path}.{_PACKAGES}", pool[_PACKAGES])
    rules.add(f"{path}.{_CONTAINER}", f"is required: the image that the pool's replicas run; or {_PACKAGES}")
    return None


def _container(rules: Violations, path: str, container: Mapping[str, Any]) -> PoolTask | None:
    image = _image(rules, f"{path}.imageUri", container.get("imageUri", ""))
    command, args = tuple(container.get("command", ())), tuple(container.get("args", ()))
    env = container.get("env", ())
    _check_words(rules, path, env, (*command, *args))
    if not command and named_objects(BUCKET_FOLDER, _values(env, args)):
        rules.add(
            f"{path}.command",
            f"is required where env or args name objects below {BUCKET_FOLDER}: they are fetched before the command "
            "starts, and the image's own entry point is not known here",
        )
    return PoolTask(image=image, command=command, args=args) if image else None


def _packages(rules: Violations, path: str, spec: Mapping[str, Any]) -> PoolTask | None:
    """Return what a ``pythonPackageSpec`` runs."""
    # discovery: PythonPackageSpec, "Required" of all fields but args and env.
    image = _image(rules, f"{path}.executorImageUri", spec.get("executorImageUri", ""))
    uris, module, args = (
        tuple(spec.get("packageUris", ())),
        spec.get("pythonModule", ""),
        spec.get("args", ()),
    )
    if not 1 <= len(uris) <= MAX_PACKAGES:
        rules.add(f"{path}.packageUris", f"must be 1 to {MAX_PACKAGES} objects; got {len(uris)}")
    for place, uri in enumerate(uris):
        if not OBJECT.fullmatch(uri):
            rules.add(
                f"{path}.packageUris[{place}]",
                f"must be an object in Cloud Storage, gs://BUCKET/NAME; got {uri[:100]!r}",
            )
    if not MODULE.fullmatch(module):
        rules.add(
            f"{path}.pythonModule",
            f"is required: a module's dotted name, like trainer.task; got {module[:100]!r}",
        )
    _check_words(rules, path, spec.get("env", ()), args)
    if image is None:
        return None
    return PoolTask(image=image, args=tuple(args), installs=PackageTask(uris=uris, module=module))


def _image(rules: Violations, path: str, text: str) -> ImageRef | None:
    if not text:
        rules.add(path, "is required: the image that the pool's replicas run")
        return None
    try:
        return parse_image_ref(text)
    except InvalidImageRef as error:
        rules.add(path, str(error))
        return None


def _check_words(
    rules: Violations, path: str, env: Sequence[Mapping[str, Any]], words: Sequence[str]
) -> None:
    check_variables(rules, f"{path}.env", env)
    if expanded_length(env, words) > MAX_EXPANDED:
        rules.add(
            path,
            f"env, command and args may have at most {MAX_EXPANDED:,} characters together once $(NAME) is expanded; "
            "have the trainer read long values from Cloud Storage",
        )
    for word in _values(env, words):
        if names_no_object(BUCKET_FOLDER, word):
            rules.add(
                path,
                f"names {BUCKET_FOLDER}, or a folder below it, in {word[:100]!r}: buckets are not mounted here, and "
                f"{BUCKET_FOLDER} has only the objects that env, command and args name; name each object, or read "
                "and write gs:// by a client of Cloud Storage",
            )


def _values(env: Sequence[Mapping[str, Any]], words: Sequence[str]) -> tuple[str, ...]:
    return (*(each.get("value", "") for each in env), *words)


def check_variables(rules: Violations, path: str, variables: Sequence[Mapping[str, Any]]) -> None:
    """Check the variables of a container. discovery: EnvVar.name "Must be a valid C identifier"."""
    if len(variables) > _MAX_VARIABLES:
        rules.add(path, f"must be at most {_MAX_VARIABLES}, got {len(variables)}")
    for place, variable in enumerate(variables):
        name = variable.get("name", "")
        if not _VARIABLE.fullmatch(name):
            rules.add(f"{path}[{place}].name", f"must be a C identifier like MY_VARIABLE; got {name[:100]!r}")
