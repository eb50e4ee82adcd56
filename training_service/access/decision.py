"""Who may do what: a caller, and the policies of a resource and of its project. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from training_api.iam.wire import Policy
from training_api.job.service_agent import ServiceAgent
from training_service.access.roles import ROLES

_PROJECT = re.compile(r"projects/(?P<project>[^/]+)(?:/.*)?")
#: Container Registry's buckets; those of domain-scoped projects are ``P.DOMAIN.a.appspot.com``.
_IMAGE_BUCKET = re.compile(
    r"buckets/(?:(?:us|eu|asia)\.)?artifacts\."
    r"(?:(?P<scoped>[^.]+)\.(?P<domain>.+)\.a|(?P<project>[^.]+))\.appspot\.com"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """
    Who asks.

    :param principal: ``user:EMAIL``, ``serviceAccount:EMAIL`` ...; empty: nobody knows.
    :param is_admin: may do everything: what every caller of an open service is, and the tokens file's
        administrators.
    :param is_listed: the tokens file has the caller's token; a job's own token is not there.
    :param roles: what the tokens file gives the caller: a project, and a role on all of it.
    """

    principal: str = ""
    is_admin: bool = False
    is_listed: bool = False
    roles: frozenset[tuple[str, str]] = field(default_factory=frozenset)


def project_of(resource: str) -> str | None:
    """
    Return the project that owns ``resource``; ``None``: its name does not tell.

    :param resource: ``projects/P...`` or ``buckets/B``, as ``training_api/iam/registry_resources.py`` names
        them.
    """
    if found := _PROJECT.fullmatch(resource):
        return found["project"]
    if found := _IMAGE_BUCKET.fullmatch(resource):
        return found["project"] or f"{found['domain']}:{found['scoped']}"
    return None


def lineage(resource: str) -> tuple[str, ...]:
    """Return the names of the resources whose policies decide: ``resource`` and its project."""
    project = project_of(resource)
    return tuple(dict.fromkeys((resource, f"projects/{project}"))) if project else (resource,)


def may(
    caller: Caller,
    permission: str,
    resource: str,
    policies: Iterable[Policy],
    agents: Iterable[ServiceAgent] = (),
) -> bool:
    """
    Tell whether ``caller`` has ``permission`` on ``resource``.

    A binding under a condition grants nothing: conditions are kept, not evaluated.

    :param policies: of the resources that :func:`lineage` names.
    :param agents: what has its role in each project from the start [docs: AI Platform service agent].
    """
    if caller.is_admin:
        return True
    project = project_of(resource)
    if project is not None:
        if any(permission in ROLES[role] for owner, role in caller.roles if owner == project):
            return True
        if any(
            caller.principal == agent_principal(agent, project) and permission in ROLES[agent.role]
            for agent in agents
        ):
            return True
    return any(
        permission in ROLES.get(binding.role or "", frozenset())
        for policy in policies
        for binding in policy.bindings or []
        if binding.condition is None
        and any(is_member(caller.principal, member) for member in binding.members or [])
    )


def agent_principal(agent: ServiceAgent, project: str) -> str:
    """Return the principal that a service's agent is in ``project``."""
    return f"serviceAccount:{agent.email(project)}"


def is_member(principal: str, member: str) -> bool:
    """
    Tell whether ``member`` of a binding means ``principal``.

    Groups, deleted members and ``projectOwner:P`` match no principal.

    Source: discovery, Binding.members.
    """
    if member == "allUsers":
        return True
    if not principal:
        return False
    if member == "allAuthenticatedUsers":
        return True
    kind, _, name = member.partition(":")
    if kind == "domain":
        return principal.startswith("user:") and principal.lower().endswith(f"@{name.lower()}")
    return principal.lower() == member.lower()
