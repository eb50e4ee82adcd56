"""Whether the extra ``tuning`` is installed: NumPy, SciPy and more (docs/adr/0023)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib.metadata import PackageNotFoundError, distribution

from training_api.errors import FieldViolation, InvalidJobSpec, TrainingError
from training_api.job.job_spec import JobSpec

#: The distributions of the extra.
TUNING = (
    "google-api-core",
    "google-auth",
    "google-cloud-storage",
    "google-crc32c",
    "numpy",
    "requests",
    "scipy",
    "threadpoolctl",
)
_INSTALL = "pip install 'container-training-service[tuning]'"


class TuningNotInstalled(TrainingError):
    """The database has a tuning job that this service cannot continue."""


def missing_for_tuning(needed: Iterable[str] = TUNING) -> list[str]:
    """Return which distributions tuning lacks here."""
    return [name for name in needed if not _is_installed(name)]


def check_tuning_is_installed(spec: JobSpec, missing: Sequence[str]) -> None:
    """
    Refuse a tuning job where something is missing for it.

    :param missing: distributions that are not installed.
    :raises InvalidJobSpec: in the specification's words; ``spec`` tunes, and ``missing`` is not empty.
    """
    if spec.study and missing:
        raise InvalidJobSpec(
            [
                FieldViolation(
                    field="study",
                    description=f"this service cannot tune without {', '.join(missing)}: {_INSTALL}",
                )
            ]
        )


def check_packages_can_be_pinned(spec: JobSpec, missing: Sequence[str]) -> None:
    """
    Refuse a job of packages where something is missing that reads the object store.

    :param missing: distributions that are not installed.
    :raises InvalidJobSpec: in the specification's words; ``spec`` has packages, and ``missing`` is not empty.
    """
    if missing and spec.package_uris:
        raise InvalidJobSpec(
            [
                FieldViolation(
                    field=next(iter(spec.package_uris)),
                    description="with TRAINING_STORAGE_ENDPOINT set, this service cannot tell the versions of "
                    f"packages without {', '.join(missing)}: {_INSTALL}",
                )
            ]
        )


def check_studies_can_continue(active: Iterable[JobSpec], missing: Sequence[str]) -> None:
    """
    Refuse to start where a tuning job is under way and something is missing for it.

    :param active: the jobs that have not ended.
    :raises TuningNotInstalled: one of them tunes, and ``missing`` is not empty.
    """
    studies = [spec.job_id for spec in active if spec.study] if missing else []
    if studies:
        raise TuningNotInstalled(
            f"the tuning jobs {', '.join(studies)} cannot continue without {', '.join(missing)}: {_INSTALL}"
        )


def _is_installed(name: str) -> bool:
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True
