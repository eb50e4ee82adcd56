"""
The fields of a request that describe Python packages instead of a container.

With their documented rules.

What such a job runs: ``training_api/job/packages/python_package.py``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from training_api.dialects.ml_v1.resources import ReplicaConfig, TrainingInput
from training_api.errors import FieldViolation
from training_api.job.packages.python_package import MAX_PACKAGES, MODULE, OBJECT, VERSION, PythonPackages

_FIELDS = ("package_uris", "python_module", "runtime_version", "python_version")
_PATH = "trainingInput."

#: Runtime versions and the versions of Python that each has; ``None``: not known here.
Runtimes = Mapping[str, Collection[str]]


def packages_from_wire(training: TrainingInput) -> PythonPackages | None:
    """Return the packages of a job; ``None``: it runs an image of its own. Pure."""
    if not is_package_job(training):
        return None
    return PythonPackages(
        uris=tuple(training.package_uris or ()),
        # What is missing is refused, and is in no arguments of a job that runs.
        module=str(training.python_module),
        runtime_version=str(training.runtime_version),
        python_version=str(training.python_version),
    )


def is_package_job(training: TrainingInput) -> bool:
    """Whether the job describes packages and no image; pure."""
    return not _has_image(training) and any(getattr(training, name) for name in _FIELDS)


def package_violations(training: TrainingInput, runtimes: Runtimes | None = None) -> list[FieldViolation]:
    """
    Return every rule of packages that the job breaks; none of a job without packages.

    Pure.

    :param runtimes: what the service has; ``None``, on a client: any version is taken.

    Source: discovery, TrainingInput: "You must either specify this field or specify `masterConfig.imageUri`"
    (runtimeVersion, pythonVersion), "Required" (packageUris, pythonModule), "Only one of
    `masterConfig.imageUri` and `runtimeVersion` should be set" (masterConfig). That an image excludes the
    other fields too is [unverified].
    """
    if _has_image(training):
        return [
            _violation(name, "cannot be set together with masterConfig.imageUri")
            for name in _FIELDS
            if getattr(training, name)
        ]
    if not is_package_job(training):
        return []
    broken = [
        _violation(name, "is required without masterConfig.imageUri")
        for name in _FIELDS
        if not getattr(training, name)
    ]
    return [*broken, *_uri_violations(training), *_name_violations(training, runtimes)]


def job_dir_args(job_dir: str | None) -> tuple[str, ...]:
    """
    Return the arguments that name a trainer's job folder, ``--job-dir PATH``. Pure.

    None without a folder.
    """
    return ("--job-dir", job_dir) if job_dir else ()


def _has_image(training: TrainingInput) -> bool:
    return bool(training.master_config and training.master_config.image_uri)


def _uri_violations(training: TrainingInput) -> list[FieldViolation]:
    uris = training.package_uris or []
    broken = [
        _violation(
            "package_uris", f"must be an object in Cloud Storage, gs://BUCKET/NAME; got {uri!r}", index
        )
        for index, uri in enumerate(uris)
        if not OBJECT.fullmatch(uri)
    ]
    if len(uris) > MAX_PACKAGES:
        broken.append(_violation("package_uris", f"must be at most {MAX_PACKAGES}; got {len(uris)}"))
    return broken


def _name_violations(training: TrainingInput, runtimes: Runtimes | None) -> list[FieldViolation]:
    broken = []
    module, version = training.python_module, training.runtime_version
    if module and not MODULE.fullmatch(module):
        broken.append(
            _violation("python_module", f"must be a module's dotted name, like trainer.task; got {module!r}")
        )
    if version and not VERSION.fullmatch(version):
        broken.append(_violation("runtime_version", f"must be a version like 2.11; got {version!r}"))
    elif version and runtimes is not None:
        broken += _version_violations(version, training.python_version, runtimes)
    # discovery: containerCommand and containerArgs "cannot be set if custom container image is not provided".
    config = training.master_config or ReplicaConfig()
    for name, value in (
        ("containerCommand", config.container_command),
        ("containerArgs", config.container_args),
    ):
        if value:
            broken.append(
                FieldViolation(
                    field=f"{_PATH}masterConfig.{name}", description="cannot be set without imageUri"
                )
            )
    return broken


def _version_violations(version: str, python: str | None, runtimes: Runtimes) -> list[FieldViolation]:
    if not runtimes:
        description = (
            "this service has no runtime images (TRAINING_RUNTIME_IMAGES); set masterConfig.imageUri"
        )
        return [_violation("runtime_version", f"{description}; got {version!r}")]
    if version not in runtimes:
        return [_violation("runtime_version", f"must be one of {', '.join(runtimes)}; got {version!r}")]
    if python and python not in runtimes[version]:
        known = " or ".join(runtimes[version])
        return [
            _violation("python_version", f"must be {known} with runtime version {version}; got {python!r}")
        ]
    return []


def _violation(name: str, description: str, index: int | None = None) -> FieldViolation:
    head, *tail = name.split("_")
    at = "" if index is None else f"[{index}]"
    return FieldViolation(field=f"{_PATH}{head}{''.join(map(str.title, tail))}{at}", description=description)
