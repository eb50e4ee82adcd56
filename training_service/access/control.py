"""The gate of the API: who asks, and whether the policies let them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from training_api.errors import AccessDenied
from training_api.job.service_agent import ServiceAgent
from training_service.access.decision import Caller, lineage, may
from training_service.access.identity import Authenticator, Unauthenticated
from training_service.access.roles import POLICY_WRITES, SECRET_ACCESS
from training_service.store.policy_store import PolicyStore

#: What an open service, too, keeps for the callers of its tokens file.
_GUARDED = POLICY_WRITES | {SECRET_ACCESS}


class AccessControl:
    """
    Answers for every request who the caller is and what the caller may do.

    :param agents: the service agents, which have a role in each project from the start.
    :param is_required: ``False``: everybody may do everything, known or not; but where there is a tokens
        file, only whom it lists may write policies and name secrets in jobs.
    """

    def __init__(
        self,
        policies: PolicyStore,
        authenticator: Authenticator,
        *,
        agents: Iterable[ServiceAgent],
        is_required: bool = False,
    ) -> None:
        self._policies = policies
        self._authenticator = authenticator
        self._agents = tuple(agents)
        self._is_required = is_required

    def identify(self, authorization: str | None) -> Caller:
        """
        Return who sends a request with this ``Authorization`` header.

        :raises Unauthenticated: authentication is required, and the header is missing or stands for nobody.
        """
        if not self._is_required:
            return replace(self._guess(authorization), is_admin=True)
        caller = self._authenticator.bearer(authorization)
        if caller is None:
            raise Unauthenticated(
                "the request has no credentials; this service wants 'Authorization: Bearer TOKEN'"
            )
        return caller

    def may(self, caller: Caller, permission: str, resource: str) -> bool:
        """
        Tell whether ``caller`` has ``permission`` on ``resource``, by the policies of now.

        ``resource`` is ``projects/P/jobs/J``.
        """
        if self._is_guarded(caller, permission):
            return False
        if caller.is_admin:
            return True
        policies = (self._policies.get(name).policy for name in lineage(resource))
        return may(caller, permission, resource, policies, self._agents)

    def check(self, caller: Caller, permission: str, resource: str) -> None:
        """
        Check that ``caller`` has ``permission`` on ``resource``.

        :raises AccessDenied: 403, it does not, or there is no such resource.
        """
        if not self.may(caller, permission, resource):
            way_out = (
                "; this takes a token of the tokens file, such as the developer's, which `make env` gives to gcloud"
                if self._is_guarded(caller, permission)
                else ""
            )
            raise AccessDenied(
                f"Permission {permission!r} denied on resource {resource!r} (or it may not exist) "
                f"for {caller.principal or 'an anonymous caller'}{way_out}"
            )

    @staticmethod
    def reads_policies_of(caller: Caller) -> bool:
        """Whether a check of ``caller`` reads from the database, and so blocks."""
        return not caller.is_admin

    def _is_guarded(self, caller: Caller, permission: str) -> bool:
        """Tell whether an open service keeps this from this caller."""
        return (
            not self._is_required
            and permission in _GUARDED
            and self._authenticator.lists_callers
            and not caller.is_listed
        )

    def _guess(self, authorization: str | None) -> Caller:
        """
        Return the caller, as far as the caller is known.

        An open service refuses no request for an unknown token.
        """
        try:
            return self._authenticator.bearer(authorization) or Caller()
        except Unauthenticated:
            return Caller()
