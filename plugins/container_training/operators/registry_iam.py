"""Grants the service's account access to a job's image, and revokes what was granted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Unpack

from airflow.sdk import NEVER_EXPIRE  # type: ignore[attr-defined]  # the stub lacks it

from container_training.airflow_internals.tasks import operator_class
from container_training.hooks.failures import final_unless_transient
from container_training.hooks.image import full_image_name
from container_training.hooks.registry_iam import RegistryIamHook
from container_training.hooks.storage import StorageHook
from container_training.hooks.training import TrainingHook
from container_training.runtime.task_arguments import OperatorArguments, TypedTask
from container_training.work.template_values import flag
from training_api.errors import AccessDenied, InvalidGrant, ResourceNotFound
from training_api.iam.grants import Grant, PolicyDocument, access_need, policy_diff
from training_api.iam.registry_resources import (
    ResourceKind,
)
from training_api.job.image_ref import parse_image_ref

if TYPE_CHECKING:
    from airflow.sdk import Context

    from training_api.job.dialect import Dialect

_MEMORY = "grant"
#: When a grant was made, or taken back.
_AT = "at"


class GrantRegistryAccessOperator(TypedTask):
    """
    Lets the account that runs the job pull ``image``.

    An image of the job's own project needs no grant, and the task says so. For an image of another project
    the account gets the least role that may pull, on the one repository or bucket that holds the image. The
    policy is read, changed and written back with its etag, so that concurrent changes are kept. A grant that
    exists is left as it is.

    :param image: image reference; a short one is below the connection's ``image_prefix``. (templated)
    :param agent: whose jobs are to pull it: ``ml_v1``, those of AI Platform Training, or ``vertex_v1``,
        those of Vertex AI; default: those of the connection's API. Each API pulls as a service agent of its
        own. (templated)
    :param service_account: address of the account that gets the role; default: the project's service agent
        that ``agent`` names. An account that is named here gets the role in its own project, too. (templated)
    :param project_wide: grant the agent's own role on the image's whole project instead,
        ``roles/ml.serviceAgent`` as AI Platform's guide does, or
        ``roles/aiplatform.customCodeServiceAgent``. (templated)
    :param dry_run: log the change as a diff and make none. (templated)
    :param training_conn_id: connection of the training service; its extras say where the policies are.
        (templated)
    :param gcp_conn_id: Google connection whose credentials change policies on Google's own endpoints.
        (templated)
    :return: ``granted`` (whether this task changed the policy), ``reason``, ``service_account``, ``project``,
        ``image_project``, ``repository``, ``dry_run``. Where there is a policy, also ``resource_kind``,
        ``resource``, ``role`` and ``member``, which ``RevokeRegistryAccessOperator`` takes.
    """

    template_fields: Sequence[str] = (
        "image",
        "agent",
        "service_account",
        "project_wide",
        "is_dry_run",
        "training_conn_id",
        "gcp_conn_id",
    )
    ui_color = "#f0e6f6"

    def __init__(
        self,
        *,
        image: str,
        agent: str | None = None,
        service_account: str | None = None,
        project_wide: bool | str = False,
        dry_run: bool | str = False,
        training_conn_id: str = TrainingHook.default_conn_name,
        gcp_conn_id: str = StorageHook.default_conn_name,
        **kwargs: Unpack[OperatorArguments],
    ) -> None:
        super().__init__(**kwargs)
        self.image = image
        self.agent = agent
        self.service_account = service_account
        self.project_wide = project_wide
        self.is_dry_run = dry_run  # ``dry_run`` is a method of every operator
        self.training_conn_id = training_conn_id
        self.gcp_conn_id = gcp_conn_id

    def execute(self, context: Context) -> dict[str, Any]:
        """Grant what is missing; return what was granted, and where."""
        with final_unless_transient(), TrainingHook(self.training_conn_id) as training:
            image = parse_image_ref(full_image_name(self.image, self.training_conn_id))
            is_dry_run = flag("dry_run", self.is_dry_run)
            dialect = self._dialect(training)
            need = access_need(
                image,
                training.project,
                _address(training, dialect),
                account=self.service_account,
                project_role=dialect.agent.role if flag("project_wide", self.project_wide) else "",
                registry=training.registry,
            )
            result = {
                "granted": False,
                "dry_run": is_dry_run,
                "service_account": need.member.partition(":")[2],
                "project": training.project,
                "image_project": image.project,
                "repository": image.name,
            }
            reason = need.reason
            if need.grant is not None:
                granted, reason = self._grant(need.grant, context, is_dry_run=is_dry_run)
                result |= {**need.grant.to_json(), "granted": granted}
        self.log.info("%s: %s", image.name, reason)
        return result | {"reason": reason}

    def _dialect(self, training: TrainingHook) -> Dialect:
        # Imported here: no DAG file needs the APIs' rules.
        from training_api.dialects.registry import DIALECTS

        name = self.agent or training.client.capabilities.dialect
        if name not in DIALECTS:
            raise InvalidGrant(f"agent must be one of {', '.join(DIALECTS)}; got {name!r}")
        return DIALECTS[name]

    def _grant(self, grant: Grant, context: Context, *, is_dry_run: bool) -> tuple[bool, str]:
        """Return whether the policy is different because of this task, and what happened."""
        store = context["task_state_store"]
        what = f"{grant.member} has {grant.role} on {grant.resource}"
        hook = RegistryIamHook(self.training_conn_id, self.gcp_conn_id)
        with _explained(grant, "add"), hook.client as client:
            if is_dry_run:
                return False, self._plan(grant, client.get_policy(grant.kind, grant.resource))
            edit = client.edit_policy(
                grant.kind,
                grant.resource,
                lambda policy: None if grant.is_in(policy) else grant.added_to(policy),
                # A try that dies after the write must not make the next one believe that somebody else
                # granted.
                before_write=lambda: store.set(
                    _MEMORY, {**grant.to_json(), _AT: datetime.now(UTC).isoformat()}, retention=NEVER_EXPIRE
                ),
            )
        if edit.was_written:
            self.log.info(
                "%s", policy_diff(grant.resource, edit.before, edit.after) or "by an earlier request"
            )
            return True, f"{what} now"
        if _is_own(grant, store.get(_MEMORY), context):
            return True, f"{what}, granted by an earlier try of this task"
        return False, f"{what} already: nothing has to be granted"

    def _plan(self, grant: Grant, policy: PolicyDocument) -> str:
        if grant.is_in(policy):
            return (
                f"dry run: {grant.member} has {grant.role} on {grant.resource} already: nothing would change"
            )
        self.log.info("%s", policy_diff(grant.resource, policy, grant.added_to(policy)))
        return f"dry run: {grant.member} would get {grant.role} on {grant.resource}; nothing was changed"


def _address(training: TrainingHook, dialect: Dialect) -> str:
    """Return the address of the project's agent: the service's word, or by its number."""
    if dialect.name == training.client.capabilities.dialect:
        return training.client.service_agent()
    return dialect.agent.email(str(training.client.project_number()))


class RevokeRegistryAccessOperator(TypedTask):
    """
    Revokes what a ``GrantRegistryAccessOperator`` granted, and nothing that was there before.

    Use it at the end of a DAG, ``revoke.as_teardown(setups=grant)``: it runs however the tasks between end.
    It can be run again.

    :param grant: the grant's result, ``grant.output``; of a mapped grant, the results of all. (templated)
    :param dry_run: log the change as a diff and make none. (templated)
    :param training_conn_id: as for the grant. (templated)
    :param gcp_conn_id: as for the grant. (templated)
    :return: ``revoked``, the grants that this task revoked, each with the time ``at`` which, and ``kept``, a
        reason for each other grant.
    """

    template_fields: Sequence[str] = ("grant", "is_dry_run", "training_conn_id", "gcp_conn_id")
    template_fields_renderers = {"grant": "json"}
    ui_color = "#f0e6f6"

    def __init__(
        self,
        *,
        grant: Any,
        dry_run: bool | str = False,
        training_conn_id: str = TrainingHook.default_conn_name,
        gcp_conn_id: str = StorageHook.default_conn_name,
        **kwargs: Unpack[OperatorArguments],
    ) -> None:
        super().__init__(**kwargs)
        self.grant = grant
        self.is_dry_run = dry_run
        self.training_conn_id = training_conn_id
        self.gcp_conn_id = gcp_conn_id

    def execute(self, context: Context) -> dict[str, Any]:
        """Revoke; return what was revoked, and why the rest was not."""
        revoked: list[dict[str, str]] = []
        kept: list[str] = []
        with final_unless_transient():
            for result in _results(self.grant):
                reason = _reason_to_keep(result)
                if reason is None:
                    grant = Grant.from_json(result)
                    reason = self._revoke(grant)
                    if reason is None:
                        revoked.append({**grant.to_json(), _AT: datetime.now(UTC).isoformat()})
                        continue
                kept.append(reason)
                self.log.info("%s", reason)
        return {"revoked": revoked, "kept": kept}

    def _revoke(self, grant: Grant) -> str | None:
        """Take ``grant`` back; return why there was nothing to take back."""
        hook = RegistryIamHook(self.training_conn_id, self.gcp_conn_id)
        absent = f"{grant.member} has no {grant.role} on {grant.resource}: nothing has to be revoked"
        try:
            with _explained(grant, "remove"), hook.client as client:
                if flag("dry_run", self.is_dry_run):
                    policy = client.get_policy(grant.kind, grant.resource)
                    change = policy_diff(grant.resource, policy, grant.removed_from(policy))
                    self.log.info("%s", change)
                    return f"dry run: {grant.gcloud_command('remove')}" if change else absent
                edit = client.edit_policy(
                    grant.kind,
                    grant.resource,
                    lambda policy: grant.removed_from(policy) if grant.is_in(policy) else None,
                )
        except ResourceNotFound:
            return f"{grant.resource} does not exist: nothing has to be revoked"
        if not edit.was_written:
            return absent
        self.log.info("%s has %s on %s no more", grant.member, grant.role, grant.resource)
        return None


def _is_own(grant: Grant, memory: Any, context: Context) -> bool:
    """
    Return whether this task made ``grant``, which the policy has.

    A cleared run grants anew, and remembers what it granted before. If that was revoked meanwhile, another
    task or person made the grant that is there now.
    """
    if not isinstance(memory, Mapping) or not grant.to_json().items() <= memory.items():
        return False
    made_at = datetime.fromisoformat(memory[_AT])
    return all(
        datetime.fromisoformat(entry[_AT]) < made_at
        for result in _earlier_revokes(context)
        for entry in result.get("revoked", ())
        if grant.to_json().items() <= entry.items()
    )


def _earlier_revokes(context: Context) -> list[Mapping[str, Any]]:
    """
    Return what the run's revokes returned when they ran last.

    A clear keeps it until they run again.
    """
    dag, task_instance = context.get("dag"), context.get("ti")
    if dag is None or task_instance is None:
        return []
    revokes = [
        task.task_id for task in dag.tasks if issubclass(operator_class(task), RevokeRegistryAccessOperator)
    ]
    results = task_instance.xcom_pull(task_ids=revokes) if revokes else []
    return [result for result in results if isinstance(result, Mapping)]


@contextmanager
def _explained(grant: Grant, verb: str) -> Iterator[None]:
    """Say what the owner of the resource can do where the API refuses."""
    try:
        yield
    except AccessDenied as error:
        raise AccessDenied(
            f"the policy of {grant.resource} may not be changed with these credentials: {error}; ask its "
            f"owner to run: {grant.gcloud_command(verb)}",
            code=error.code,
            status=error.status,
        ) from error
    except ResourceNotFound as error:
        hint = "check the image's name"
        if grant.kind is ResourceKind.BUCKET:
            hint = (
                "the first push to Container Registry made it; where Artifact Registry serves gcr.io, grant "
                "roles/artifactregistry.reader on the project's repository 'gcr.io' (or 'REGION.gcr.io') "
                "instead"
            )
        raise ResourceNotFound(
            f"{grant.resource} does not exist: {error}; {hint}", code=error.code, status=error.status
        ) from error


def _results(grant: Any) -> Sequence[Any]:
    """Return the results of one grant, or of a mapped one; none if it was skipped."""
    if grant is None:
        return []
    if isinstance(grant, Sequence) and not isinstance(grant, (str, bytes)):
        return grant
    return [grant]


def _reason_to_keep(result: Any) -> str | None:
    """Return why there is nothing to take back of ``result``; ``None``: there is."""
    if not isinstance(result, Mapping) or "granted" not in result:
        raise InvalidGrant(
            f"grant must be the result of GrantRegistryAccessOperator, got {result!r}; pass the .output of that task"
        )
    if result["granted"]:
        return None
    return f"{result.get('repository')}: the grant changed nothing, nothing has to be revoked"
