"""Data before they are trained on: taken as they are at one moment, and checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Unpack

from airflow.sdk.exceptions import AirflowSkipException

from container_training.hooks.failures import final_unless_transient
from container_training.hooks.model_registry import ModelRegistryHook
from container_training.hooks.storage import StorageHook
from container_training.runtime.task_arguments import OperatorArguments, TypedTask
from container_training.work.models.data_profile import DataProfile
from container_training.work.models.data_rules import DataReport, check_table, parse_rules, parse_tables
from container_training.work.models.versions import DataSnapshot
from container_training.work.object_store import require_uri
from container_training.work.template_values import TaskOutput, flag, output_of, whole_number
from training_api.errors import DataInvalid

if TYPE_CHECKING:
    from airflow.sdk import Context

#: Key of the list of the snapshot's addresses, for ``args`` of a job.
URIS = "uris"
#: Key of the address of the snapshot's manifest, for ``RegisterModelOperator``.
MANIFEST_URI = "manifest_uri"
_MAX_BYTES = 64 * 1024 * 1024


class SnapshotDataOperator(TypedTask):
    """
    Records which objects are at ``sources`` now, each with its generation.

    Where the buckets of all sources have object versioning, nothing is copied: the generations stay. Else the
    objects are copied to a folder that no other program writes to. The same objects are the same snapshot: a
    retry, or another run before the next write, takes no new one.

    :param sources: ``gs://`` addresses of objects or of folders. The address of a folder ends with a slash.
        (templated)
    :param model_folder: the model's folder; snapshots are ``MODEL_FOLDER/snapshots/ID/``. (templated)
    :param copy: ``True`` copies also where versioning is on, e.g. where a lifecycle rule deletes noncurrent
        generations. ``False`` never copies: a bucket without versioning loses what was recorded with the next
        write. Default: as said above. (templated)
    :param max_files: the task fails if there are more objects. (templated)
    :param gcp_conn_id: Google connection that may read the sources and write to the model's folder.
        (templated)
    :return: the snapshot (:class:`DataSnapshot`). The XCom key ``uris`` has the addresses of its files with
        their generations, and ``manifest_uri`` the address of the snapshot itself.
    """

    template_fields: Sequence[str] = ("sources", "model_folder", "copy", "max_files", "gcp_conn_id")
    template_fields_renderers = {"sources": "json"}
    ui_color = "#e3ebf5"

    def __init__(
        self,
        *,
        sources: str | Sequence[str] | TaskOutput,
        model_folder: str,
        copy: bool | str | None = None,
        max_files: int | str = 1000,
        gcp_conn_id: str = StorageHook.default_conn_name,
        **kwargs: Unpack[OperatorArguments],
    ) -> None:
        super().__init__(**kwargs)
        self.sources: Any = sources
        self.model_folder = model_folder
        self.copy = copy
        self.max_files = max_files
        self.gcp_conn_id = gcp_conn_id

    def execute(self, context: Context) -> dict[str, Any]:
        """Return the snapshot as JSON values."""
        sources = [self.sources] if isinstance(self.sources, str) else list(self.sources)
        hook = ModelRegistryHook(self.model_folder, gcp_conn_id=self.gcp_conn_id)
        with hook, final_unless_transient():
            for source in sources:
                require_uri("sources", source)
            snapshot = hook.snapshots.take(
                sources,
                now=datetime.now(UTC),
                copy=None if self.copy is None else flag("copy", self.copy),
                max_files=whole_number("max_files", self.max_files),
            )
        for file in snapshot.sources:
            self.log.info("%s, %d bytes", file.pinned_uri, file.size_bytes)
        self.log.info("snapshot %s: %s", snapshot.snapshot_id, snapshot.manifest_uri)
        context["ti"].xcom_push(key=URIS, value=snapshot.uris)
        context["ti"].xcom_push(key=MANIFEST_URI, value=snapshot.manifest_uri)
        return snapshot.model_dump(mode="json")


class ValidateDataOperator(TypedTask):
    """
    Checks the CSV files of a snapshot: columns, rows, range, labels, balance, and drift.

    Drift is measured against the champion's data. If a check fails, the task fails without a retry, and no
    later task costs anything; the error names every check that failed. The profile of the data is kept beside
    the snapshot: the data of the next challenger are compared with it.

    :param snapshot: output of ``SnapshotDataOperator``. (templated)
    :param rules: :class:`DataRules` as a mapping. (templated)
    :param model_folder: the model's folder, with its champion. (templated)
    :param skip_tried: skip this task and those after it if a decision was made about a version from this
        snapshot before. (templated)
    :param max_bytes: limit for all files together; the Airflow worker reads them. (templated)
    :param gcp_conn_id: Google connection that may read the snapshot and write beside it. (templated)
    :param registry_conn_id: connection of an MLflow server; it need not exist. (templated)
    :return: the report (:class:`DataReport`).
    """

    template_fields: Sequence[str] = (
        "snapshot",
        "rules",
        "model_folder",
        "skip_tried",
        "max_bytes",
        "gcp_conn_id",
        "registry_conn_id",
    )
    template_fields_renderers = {"snapshot": "json", "rules": "json"}
    ui_color = "#e3ebf5"

    def __init__(
        self,
        *,
        snapshot: Mapping[str, Any] | TaskOutput,
        rules: Mapping[str, Any],
        model_folder: str,
        skip_tried: bool | str = False,
        max_bytes: int | str = _MAX_BYTES,
        gcp_conn_id: str = StorageHook.default_conn_name,
        registry_conn_id: str = ModelRegistryHook.default_conn_name,
        **kwargs: Unpack[OperatorArguments],
    ) -> None:
        super().__init__(**kwargs)
        self.snapshot = snapshot
        self.rules = rules
        self.model_folder = model_folder
        self.skip_tried = skip_tried
        self.max_bytes = max_bytes
        self.gcp_conn_id = gcp_conn_id
        self.registry_conn_id = registry_conn_id

    def execute(self, context: Context) -> dict[str, Any]:
        """Return the report; raise if a check failed."""
        hook = ModelRegistryHook(
            self.model_folder, gcp_conn_id=self.gcp_conn_id, registry_conn_id=self.registry_conn_id
        )
        with hook, StorageHook(self.gcp_conn_id) as storage, final_unless_transient():
            snapshot = output_of("SnapshotDataOperator", "snapshot", DataSnapshot, self.snapshot)
            if flag("skip_tried", self.skip_tried):
                self._skip_if_tried(hook, snapshot)
            rules = parse_rules(self.rules)
            table = parse_tables(self._read(storage, snapshot), rules)
            report, profile = check_table(table, rules, self._reference(hook))
            self._say(report)
            if report.failed:
                raise DataInvalid(
                    f"{len(report.failed)} of {len(report.checks)} checks of {snapshot.manifest_uri} failed: "
                    + "; ".join(f"{check.name}: {check.found}" for check in report.failed)
                )
            if profile is not None:
                hook.snapshots.write_profile(snapshot, profile)
        return report.model_dump(mode="json")

    def _skip_if_tried(self, hook: ModelRegistryHook, snapshot: DataSnapshot) -> None:
        version_id = hook.registry.judged_version(snapshot.manifest_uri)
        if version_id is not None:
            raise AirflowSkipException(
                f"nothing new: version {version_id!r} was made from snapshot {snapshot.snapshot_id} and judged"
            )

    def _read(self, storage: StorageHook, snapshot: DataSnapshot) -> list[tuple[str, bytes]]:
        store = storage.get_conn()
        left = whole_number("max_bytes", self.max_bytes)
        contents = []
        for uri in snapshot.uris:
            content = store.read(uri, left)
            if content is None:
                raise DataInvalid(f"{uri} of the snapshot is not there any more; take the snapshot again")
            left -= len(content)
            contents.append((uri, content))
        return contents

    def _reference(self, hook: ModelRegistryHook) -> DataProfile | None:
        champion = hook.registry.read().champion
        profile = (
            hook.snapshots.read_profile(champion.snapshot_uri) if champion and champion.snapshot_uri else None
        )
        if profile is None:
            why = (
                f"champion {champion.version_id!r} has no profile of its data"
                if champion
                else "there is no champion"
            )
            self.log.info("%s, so drift is not looked at", why)
        return profile

    def _say(self, report: DataReport) -> None:
        for check in report.checks:
            self.log.info("%s %s: %s", "ok    " if check.passed else "FAILED", check.name, check.found)
