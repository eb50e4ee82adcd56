"""
A trainer without an image: packages and uploads its folder.

As gcloud's ``--package-path`` does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Unpack

from container_training.hooks.failures import final_unless_transient
from container_training.hooks.storage import StorageHook
from container_training.runtime.dag_folder import dag_folder
from container_training.runtime.task_arguments import OperatorArguments, TypedTask
from training_api.errors import PackageInvalid

if TYPE_CHECKING:
    from airflow.sdk import Context

    from container_training.work.packages.trainer_package import TrainerPackage

_SCHEME = "gs://"


class PackageTrainerOperator(TypedTask):
    """
    Packages a trainer's folder, uploads it, and returns the URIs for ``package_uris``.

    The folder is a Python package (with ``__init__.py``), or a project with a ``setup.py`` or
    ``pyproject.toml``. The same files make the same source distribution, and its object is named by a hash of
    it. An object that is there already is not uploaded again, and two versions never overwrite each other.

    A folder that cannot be packaged ends the task without a retry. The project's ``setup.py`` runs on the
    worker.

    :param package_path: the folder, ``.../trainer``. A relative path starts at the folder of the DAG's file.
        (templated)
    :param packages: more packages of the job: built ones on this machine (``.tar.gz``, ``.zip``, ``.whl``),
        or ``gs://`` URIs, which are passed on. (templated)
    :param staging: ``gs://`` folder to upload to. (templated)
    :param python_module: the module that the job will run, ``trainer.task``; it is checked if it is given.
        (templated)
    :param gcp_conn_id: Google connection of the object store. (templated)
    :return: ``gs://`` URIs, the trainer's first.
    """

    template_fields: Sequence[str] = ("package_path", "packages", "staging", "python_module", "gcp_conn_id")
    template_fields_renderers = {"packages": "json"}
    ui_color = "#e2f0fb"

    def __init__(
        self,
        *,
        package_path: str,
        staging: str,
        packages: Sequence[str] = (),
        python_module: str | None = None,
        gcp_conn_id: str = StorageHook.default_conn_name,
        **kwargs: Unpack[OperatorArguments],
    ) -> None:
        super().__init__(**kwargs)
        self.package_path = package_path
        self.packages = packages
        self.staging = staging
        self.python_module = python_module
        self.gcp_conn_id = gcp_conn_id

    def execute(self, context: Context) -> list[str]:
        """Package, upload what is not there yet, return the URIs."""
        from container_training.work.packages.trainer_package import (
            build_package,
            read_package,
            require_module,
        )

        with final_unless_transient():
            if not self.staging.removeprefix(_SCHEME).strip("/") or not self.staging.startswith(_SCHEME):
                raise PackageInvalid(
                    f"staging must be a Cloud Storage folder, gs://BUCKET/FOLDER, got {self.staging!r}; a folder "
                    "below the connection's job_bucket will do"
                )
            folder = dag_folder(context)
            local = [name for name in self.packages if not name.startswith(_SCHEME)]
            remote = [name for name in self.packages if name.startswith(_SCHEME)]
            packages = [
                build_package(folder / self.package_path),
                *(read_package(folder / name) for name in local),
            ]
            _require_different_names(packages, remote)
            # A module in a package that is in the object store already cannot be looked for here.
            if self.python_module and not remote:
                require_module(self.python_module, packages)
            with StorageHook(self.gcp_conn_id) as storage:
                return [*(self._upload(package, storage) for package in packages), *remote]

    def _upload(self, package: TrainerPackage, storage: StorageHook) -> str:
        uri = package.uri_below(self.staging)
        is_new = storage.get_conn().write_if_changed(uri, package.content, "application/x-tar")
        self.log.info(
            "package %s, %d bytes: %s", uri, len(package.content), "uploaded" if is_new else "there already"
        )
        return uri


def _require_different_names(packages: Sequence[TrainerPackage], remote: Sequence[str]) -> None:
    """
    Refuse packages with the same file name, as gcloud does.

    The job would install one over the other.
    """
    names = Counter(
        [*(package.file_name for package in packages), *(uri.rpartition("/")[2] for uri in remote)]
    )
    twice = [name for name, count in names.items() if count > 1]
    if twice:
        raise PackageInvalid(f"packages must have different file names; more than one is {', '.join(twice)}")
