"""Versions of a model: kept, made the champion, rolled back, cleaned up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Required, Unpack

from airflow.sdk.exceptions import AirflowSkipException
from pydantic import ValidationError

from container_training.hooks.failures import final_unless_transient
from container_training.hooks.model_registry import ModelRegistryHook
from container_training.hooks.storage import StorageHook
from container_training.hooks.vertex_models import VertexModelsHook
from container_training.runtime.task_arguments import OperatorArguments, TypedTask
from container_training.work.models.champion import Author
from container_training.work.models.promotion import Decision
from container_training.work.models.registry import Changed, ModelRegistry
from container_training.work.models.retention import (
    RetentionRule,
    Stored,
    expired_snapshots,
    expired_versions,
)
from container_training.work.models.versions import HoldOut, ModelVersion
from container_training.work.models.vertex_model import vertex_model, vertex_model_id
from container_training.work.submission.default_region import DEFAULT_REGION
from container_training.work.template_values import (
    TaskOutput,
    is_unset,
    made,
    mapping,
    output_of,
    seconds,
    whole_number,
)
from training_api.errors import InvalidArgument, ResultsMissing
from training_api.job.job_id import TaskKey
from training_api.job.packages.pinned_uri import pinned
from training_api.job.results import JobResult, ResultFile

if TYPE_CHECKING:
    from airflow.sdk import Context

#: Key of the hold-out among a trainer's metrics.
HOLD_OUT = "hold_out"


class ModelArguments(OperatorArguments, total=False):
    """Arguments of ``ModelOperator``."""

    model_folder: Required[str]
    gcp_conn_id: str
    registry_conn_id: str


class ModelOperator(TypedTask):
    """
    A task about the versions of one model.

    :param model_folder: ``gs://`` folder of the model: pointer, versions, snapshots. (templated)
    :param gcp_conn_id: Google connection that may write there. (templated)
    :param registry_conn_id: connection of an MLflow server that follows the pointer; the default one need not
        exist. (templated)
    """

    template_fields: Sequence[str] = ("model_folder", "gcp_conn_id", "registry_conn_id")
    ui_color = "#efe6f3"

    def __init__(
        self,
        *,
        model_folder: str,
        gcp_conn_id: str = StorageHook.default_conn_name,
        registry_conn_id: str = ModelRegistryHook.default_conn_name,
        **kwargs: Unpack[OperatorArguments],
    ) -> None:
        super().__init__(**kwargs)
        self.model_folder = model_folder
        self.gcp_conn_id = gcp_conn_id
        self.registry_conn_id = registry_conn_id

    @property
    def hook(self) -> ModelRegistryHook:
        """The hook of this task's connections."""
        return ModelRegistryHook(
            self.model_folder, gcp_conn_id=self.gcp_conn_id, registry_conn_id=self.registry_conn_id
        )

    def _author(self, context: Context, why: str, suffix: str = "") -> Author:
        """Return who this task is: the same for every try of it, and after a clear."""
        key = TaskKey.of(context["ti"])
        return Author(
            change_id=key.digest[:32] + suffix,
            by=f"{key.dag_id} {key.run_id} {key.task_id}",
            at=datetime.now(UTC),
            why=why,
        )

    def _publish(self, context: Context, changed: Changed) -> dict[str, Any]:
        """Log a change, tell the task's assets of it, and return it as JSON values."""
        champion, change = changed.pointer.champion, changed.change
        if not changed.is_new:
            self.log.info("an earlier try of this task made this change already")
        if change.champion != champion.version_id:
            self.log.warning("since then %s has become the champion", champion.version_id)
        self.log.info(
            "%s: champion %s, before %s (change %d, generation %d)",
            change.kind,
            change.champion,
            change.before,
            change.number,
            changed.generation,
        )
        event: dict[str, Any] = {
            "change": change.model_dump(mode="json"),
            "champion": champion.model_dump(mode="json"),
            "metrics": champion.metrics,
            "model_uri": champion.model_uri,
            "pointer_generation": changed.generation,
        }
        for asset in self.outlets:
            context["outlet_events"][asset].extra = event
        return event


class RegisterModelOperator(ModelOperator):
    """
    Keeps the model of a job as a version.

    A version is a copy of the object that the job's result names, with the image and the data that it was
    made from, and with the rows that it was not trained on: the trainer's metrics name them under
    ``hold_out``.

    With ``vertex_model`` the version is also uploaded to Vertex AI's Model Registry, once: a retry, also one
    after a kill, finds the model by its id, which follows from the version. The version names it as
    ``vertex_model``.

    :param result: output of ``CollectTrainingResultsOperator``. (templated)
    :param snapshot_uri: ``manifest_uri`` of the snapshot that the job was trained on. (templated)
    :param version_id: id of the version; default: the job's id. (templated)
    :param evaluation: output of ``CollectTrainingResultsOperator`` for a job that evaluated the model. Its
        metrics are added to the version's under names that begin with ``evaluation_``. (templated)
    :param split: output of ``CollectTrainingResultsOperator`` for the job that held out rows, where that is
        not the training job; its metrics name them under ``hold_out``. (templated)
    :param vertex_model: fields of a Vertex AI ``Model``, as the provider's ``UploadModelOperator`` takes
        them: ``{"container_spec": {"image_uri": ...}}`` names the image that serves it. An empty mapping
        uploads as well. By default ``display_name`` is the name of the model's folder, ``artifact_uri`` the
        version's folder. (templated)
    :param vertex_region: region of the Model Registry. (templated)
    :param vertex_project_id: its project; default: that of ``gcp_conn_id``. (templated)
    :return: the version (:class:`ModelVersion`).
    """

    template_fields: Sequence[str] = (
        *ModelOperator.template_fields,
        "result",
        "snapshot_uri",
        "version_id",
        "evaluation",
        "split",
        "vertex_model",
        "vertex_region",
        "vertex_project_id",
    )
    template_fields_renderers = dict.fromkeys(("result", "evaluation", "split", "vertex_model"), "json")

    def __init__(
        self,
        *,
        result: Mapping[str, Any] | TaskOutput,
        snapshot_uri: str | None = None,
        version_id: str | None = None,
        evaluation: Mapping[str, Any] | TaskOutput | None = None,
        split: Mapping[str, Any] | TaskOutput | None = None,
        vertex_model: Mapping[str, Any] | TaskOutput | None = None,
        vertex_region: str = DEFAULT_REGION,
        vertex_project_id: str | None = None,
        **kwargs: Unpack[ModelArguments],
    ) -> None:
        super().__init__(**kwargs)
        self.evaluation = evaluation
        self.split = split
        self.result = result
        self.snapshot_uri = snapshot_uri
        self.version_id = version_id
        self.vertex_model = vertex_model
        self.vertex_region = vertex_region
        self.vertex_project_id = vertex_project_id

    def execute(self, context: Context) -> dict[str, Any]:
        """Return the version as JSON values."""
        with self.hook as hook, final_unless_transient():
            result = output_of("CollectTrainingResultsOperator", "result", JobResult, self.result)
            if result.model_uri is None:
                raise ResultsMissing(
                    f"job {result.job_id!r} left no model to register; the trainer must write one, and "
                    "model_file name it"
                )
            source = pinned(result.model_uri, result.model_generation)
            version = made(
                ModelVersion,
                version_id=self.version_id or result.job_id,
                model=ResultFile(uri=result.model_uri, size_bytes=0, crc32c=""),
                image=result.image,
                job_id=result.job_id,
                snapshot_uri=None if is_unset(self.snapshot_uri) else self.snapshot_uri,
                hold_out=self._held_out(result),
                metrics={
                    name: value
                    for name, value in {**result.metrics, **self._evaluated()}.items()
                    if name != HOLD_OUT
                },
                created_at=datetime.now(UTC),
                created_by=self._author(context, "").by,
            )
            kept = hook.registry.register(version, source)
            self.log.info("version %s: %s, a copy of %s", kept.version_id, kept.model_uri, source)
            if not is_unset(self.vertex_model):
                kept = self._uploaded(hook.registry, kept)
        return kept.model_dump(mode="json")

    def _uploaded(self, registry: ModelRegistry, version: ModelVersion) -> ModelVersion:
        """Return the version with its name in Vertex AI, where it is from then on."""
        model = vertex_model(version, mapping("vertex_model", self.vertex_model))
        if version.vertex_model is None:
            project = None if is_unset(self.vertex_project_id) else self.vertex_project_id
            models = VertexModelsHook(self.gcp_conn_id, region=self.vertex_region, project_id=project)
            name = models.upload(vertex_model_id(version), model)
            version = registry.note_vertex_model(version.version_id, name)
        self.log.info("version %s is %s in Vertex AI", version.version_id, version.vertex_model)
        return version

    def _held_out(self, result: JobResult) -> HoldOut | None:
        """Return the hold-out that the job which split the rows reported."""
        source = (
            output_of("CollectTrainingResultsOperator", "split", JobResult, self.split)
            if self.split
            else result
        )
        found = source.metrics.get(HOLD_OUT)
        if found is None and source is result:
            return None
        try:
            return HoldOut.model_validate(found)
        except ValidationError as error:
            first = error.errors()[0]
            raise InvalidArgument(
                f"{HOLD_OUT} in the metrics of job {source.job_id!r} must be an object with rule, and if need be "
                f"fraction and seed, got {found!r}: {'.'.join(map(str, first['loc']))}: {first['msg']}"
            ) from error

    def _evaluated(self) -> dict[str, Any]:
        if not self.evaluation:
            return {}
        evaluation = output_of("CollectTrainingResultsOperator", "evaluation", JobResult, self.evaluation)
        return {f"evaluation_{name}": value for name, value in evaluation.metrics.items()}


class PromoteModelOperator(ModelOperator):
    """
    Makes a version the champion, by one conditional write of the pointer.

    The task is skipped if the decision was against the version. The pointer must be at the generation at
    which the champion was read for the decision. If it was changed since, the task fails without a retry:
    clear the comparison and what is downstream of it, to decide against the new champion. A retry after a
    lost answer finds its own change.

    Assets among ``outlets`` get the metrics, the model's address and the change.

    :param version: output of ``RegisterModelOperator``. (templated)
    :param decision: output of ``DecidePromotionOperator``. (templated)
    :return: ``change``, ``champion``, ``metrics``, ``model_uri``, ``pointer_generation``.
    """

    template_fields: Sequence[str] = (*ModelOperator.template_fields, "version", "decision")
    template_fields_renderers = {"version": "json", "decision": "json"}

    def __init__(
        self,
        *,
        version: Mapping[str, Any] | TaskOutput,
        decision: Mapping[str, Any] | TaskOutput,
        **kwargs: Unpack[ModelArguments],
    ) -> None:
        super().__init__(**kwargs)
        self.version = version
        self.decision = decision

    def execute(self, context: Context) -> dict[str, Any]:
        """Return the change as JSON values."""
        with self.hook as hook, final_unless_transient():
            version = output_of("RegisterModelOperator", "version", ModelVersion, self.version)
            decision = output_of("DecidePromotionOperator", "decision", Decision, self.decision)
            if not decision.promote:
                raise AirflowSkipException(f"version {version.version_id!r} is not promoted: {decision.why}")
            author = self._author(context, decision.why, f":{version.version_id}")
            if decision.challenger != version.version_id:
                raise InvalidArgument(
                    f"the decision is about {decision.challenger!r}, and the version is "
                    f"{version.version_id!r}; decision and version must be about the same: pass both from one "
                    "comparison"
                )
            changed = hook.registry.promote(version, author, generation=decision.champion_generation)
        return self._publish(context, changed)


class RollbackModelOperator(ModelOperator):
    """
    Makes the previous champion the champion again, by one conditional write of the pointer.

    A retry or a clear of this task does not go back a second time; to go back further, start another run.

    :param expected: id of the version to roll back. If another version is the champion by then, nothing is
        changed. Empty: any champion is rolled back. (templated)
    :param why: reason, kept in the pointer's history. (templated)
    :return: the same keys as ``PromoteModelOperator``.
    """

    template_fields: Sequence[str] = (*ModelOperator.template_fields, "expected", "why")

    def __init__(
        self, *, expected: str | None = None, why: str = "rolled back", **kwargs: Unpack[ModelArguments]
    ) -> None:
        super().__init__(**kwargs)
        self.expected = expected
        self.why = why

    def execute(self, context: Context) -> dict[str, Any]:
        """Return the change as JSON values."""
        expected = None if is_unset(self.expected) else str(self.expected).strip()
        with self.hook as hook, final_unless_transient():
            changed = hook.registry.roll_back(self._author(context, self.why), expected=expected)
        return self._publish(context, changed)


class CleanUpModelsOperator(ModelOperator):
    """
    Deletes old versions, and snapshots that no remaining version was made from.

    It keeps the champion, the earlier champions that a rollback needs, the newest ``keep`` versions, and
    everything younger than ``min_age``.

    :param keep: number of newest versions to keep. (templated)
    :param min_age: minimum age of what is deleted, as a ``timedelta`` or in seconds; longer than any run may
        take. (templated)
    :return: ``versions`` and ``snapshots`` that were deleted.
    """

    template_fields: Sequence[str] = (*ModelOperator.template_fields, "keep", "min_age")

    def __init__(
        self,
        *,
        keep: int | str = 10,
        min_age: timedelta | float | str = timedelta(days=7),
        **kwargs: Unpack[ModelArguments],
    ) -> None:
        super().__init__(**kwargs)
        self.keep = keep
        self.min_age = min_age

    def execute(self, context: Context) -> dict[str, list[str]]:
        """Return what was deleted."""
        now = datetime.now(UTC)
        with self.hook as hook, final_unless_transient():
            rule = RetentionRule(
                keep=whole_number("keep", self.keep),
                min_age=timedelta(seconds=seconds("min_age", self.min_age)),
            )
            versions = {version.version_id: _stored(version) for version in hook.registry.versions()}
            gone = expired_versions(hook.registry.read().pointer, versions.values(), rule, now)
            for version_id in gone:
                hook.registry.delete_version(version_id)
            kept = [stored for name, stored in versions.items() if name not in gone]
            snapshots = expired_snapshots(kept, hook.snapshots.stored(), rule, now) if versions else []
            for snapshot_id in snapshots:
                hook.snapshots.delete(snapshot_id)
        self.log.info("deleted versions %s and snapshots %s", gone or "none", snapshots or "none")
        return {"versions": gone, "snapshots": snapshots}


def _stored(version: ModelVersion) -> Stored:
    uses = frozenset({version.snapshot_uri.split("/")[-2]}) if version.snapshot_uri else frozenset()
    return Stored(name=version.version_id, created_at=version.created_at, uses=uses)
