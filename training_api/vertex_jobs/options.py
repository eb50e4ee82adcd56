"""What only Vertex AI knows of a job: the fields that ml.v1 has no words for. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from training_api.dialects.ml_v1.roles import ROLES
from training_api.dialects.ml_v1.rules.job_rules import parse_duration
from training_api.dialects.vertex_v1.pool_tasks import check_variables
from training_api.errors import InvalidImageRef, InvalidJobSpec
from training_api.job.image_ref import parse_image_ref
from training_api.job.violations import Violations

#: How paths of violations begin.
PATH = "vertex_options"
_STRATEGIES = ("STANDARD", "SPOT", "FLEX_START")
#: Words for reservations in general -> what the API calls them.
_AFFINITIES = {"ANY": "ANY_RESERVATION", "NONE": "NO_RESERVATION"}
_RESERVATION = re.compile(r"projects/[^/\s]+/zones/[^/\s]+/reservations/[^/\s]+(/reservationBlocks/[^/\s]+)?")
#: discovery: ReservationAffinity.key, "To target a SPECIFIC_RESERVATION by name".
_RESERVATION_KEY = "compute.googleapis.com/reservation-name"
_PERSISTENT_RESOURCE = re.compile(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?")
_MOUNT = {"server": "server", "path": "path", "mount_point": "mountPoint"}
#: The roles that variables can be for.
_ROLES = tuple(role.name for role in ROLES)


@dataclass(frozen=True, slots=True, kw_only=True)
class VertexOptions:
    """
    What a job for Vertex AI says beside its ml.v1 description.

    :param regions: where attempts are made, in this order: in the first, and after an end that was not the
        trainer's fault in the next; empty: in the connection's first, all of them.
    :param strategy: STANDARD, SPOT or FLEX_START; empty: the service's default.
    :param max_wait_duration: how long a FLEX_START job may wait for its machines, like ``3600s``; ``0s``: for
        ever.
    :param reservation: ANY, NONE, or the full names of reservations.
    :param persistent_resource_id: the machines that the job runs on.
    :param network: as ``trainingInput.network``.
    :param nfs_mounts: of every pool, each with server, path and mount_point.
    :param disable_retries: nothing is started again once the job runs.
    :param restart_job_on_worker_restart: the whole job starts again when a worker does.
    :param env: variables of every container; ``$(NAME)`` is expanded by the service.
    :param env_of_roles: variables of the containers of a role.
    :param enable_web_access: as ``trainingInput.enableWebAccess``.
    :param executor_image_uri: the image that the packages of a job are installed into, in place of a runtime
        version; a job with an image of its own does not read it.
    :param conditional_parameters: of a search: parameter -> the API's ``conditionalParameterSpecs`` below it.
    """

    regions: tuple[str, ...] = ()
    strategy: str = ""
    max_wait_duration: str = ""
    reservation: tuple[str, ...] = ()
    persistent_resource_id: str = ""
    network: str = ""
    nfs_mounts: tuple[Mapping[str, str], ...] = ()
    disable_retries: bool = False
    restart_job_on_worker_restart: bool = False
    env: Mapping[str, str] = field(default_factory=dict)
    env_of_roles: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    enable_web_access: bool = False
    executor_image_uri: str = ""
    conditional_parameters: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> VertexOptions:
        """
        Return the options of a plain mapping, like that of an operator's argument.

        A value that is ``None`` is unset.

        :raises InvalidJobSpec: with every name that is none, and every value of a wrong type.
        """
        rules = Violations()
        known = [each.name for each in fields(cls)]
        read = {}
        for name, value in options.items():
            if name not in known:
                rules.add(
                    f"{PATH}.{name}",
                    f"is no option of Vertex AI's jobs; it must be one of {', '.join(known)}",
                )
            elif value is not None:
                read[name] = _read(rules, name, value)
        if rules.found:
            raise InvalidJobSpec(rules.found)
        return cls(**read)

    def check(self, rules: Violations) -> None:
        """Record each rule that an option breaks by itself."""
        if self.strategy and self.strategy not in _STRATEGIES:
            rules.add(
                f"{PATH}.strategy", f"must be one of {', '.join(_STRATEGIES)}; got {self.strategy[:100]!r}"
            )
        self._check_wait(rules)
        self._check_reservation(rules)
        name = self.persistent_resource_id
        rules.check_form(
            f"{PATH}.persistent_resource_id",
            name,
            _PERSISTENT_RESOURCE,
            "the id of a persistent resource: [a-z0-9-], a letter first, at most 63 long",
        )
        for place, mount in enumerate(self.nfs_mounts):
            if set(mount) != set(_MOUNT) or not all(mount.values()):
                rules.add(
                    f"{PATH}.nfs_mounts[{place}]", f"must have {', '.join(_MOUNT)}; got {', '.join(mount)}"
                )
        for role, variables in {"": self.env, **self.env_of_roles}.items():
            if role and role not in _ROLES:
                rules.add(f"{PATH}.env_of_roles.{role}", f"must be one of the roles {', '.join(_ROLES)}")
            path = f"{PATH}.env_of_roles.{role}" if role else f"{PATH}.env"
            check_variables(rules, path, [{"name": each} for each in variables])
        if self.executor_image_uri:
            try:
                parse_image_ref(self.executor_image_uri)
            except InvalidImageRef as error:
                rules.add(f"{PATH}.executor_image_uri", str(error))

    def _check_wait(self, rules: Violations) -> None:
        if not self.max_wait_duration:
            return
        path = f"{PATH}.max_wait_duration"
        if self.strategy != "FLEX_START":
            rules.add(path, "can only be set with strategy FLEX_START; other jobs wait without a limit")
        try:
            parse_duration(self.max_wait_duration)
        except ValueError as error:
            rules.add(path, str(error))

    def _check_reservation(self, rules: Violations) -> None:
        if len(self.reservation) == 1 and self.reservation[0] in _AFFINITIES:
            return
        for place, name in enumerate(self.reservation):
            rules.check_form(
                f"{PATH}.reservation[{place}]",
                name or "nothing",
                _RESERVATION,
                "ANY or NONE alone, or projects/PROJECT/zones/ZONE/reservations/NAME",
            )

    @property
    def reservation_affinity(self) -> dict[str, Any]:
        """The ``reservationAffinity`` of every machine; empty: the service's default."""
        if not self.reservation:
            return {}
        if self.reservation[0] in _AFFINITIES:
            return {"reservationAffinityType": _AFFINITIES[self.reservation[0]]}
        return {
            "reservationAffinityType": "SPECIFIC_RESERVATION",
            "key": _RESERVATION_KEY,
            "values": list(self.reservation),
        }

    @property
    def mounts(self) -> list[dict[str, str]]:
        """The ``nfsMounts`` of every pool."""
        return [{_MOUNT[name]: value for name, value in each.items()} for each in self.nfs_mounts]

    def variables_of(self, role: str) -> list[dict[str, str]]:
        """Return the ``env`` of the containers of a role, as ``RoleFields.name`` has it."""
        variables = {**self.env, **self.env_of_roles.get(role, {})}
        return [{"name": name, "value": value} for name, value in variables.items()]


#: Of a job that asks for nothing special.
NO_OPTIONS = VertexOptions()


def _is_text_map(value: Any) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(each, str) for pair in value.items() for each in pair
    )


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


#: Option -> whether a value is of its type, and what the type is called. All others are text.
_TYPES: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    **dict.fromkeys(
        ("disable_retries", "restart_job_on_worker_restart", "enable_web_access"),
        (lambda value: isinstance(value, bool), "true or false"),
    ),
    "reservation": (
        lambda value: _is_list(value) and all(isinstance(each, str) for each in value),
        "a name, or a list of names",
    ),
    "regions": (
        lambda value: _is_list(value) and all(isinstance(each, str) and each for each in value),
        "a region, or a list of regions",
    ),
    "nfs_mounts": (
        lambda value: _is_list(value) and all(map(_is_text_map, value)),
        "a list of mounts, each of server, path and mount_point",
    ),
    "env": (_is_text_map, "a mapping of names to texts"),
    "env_of_roles": (
        lambda value: (
            isinstance(value, Mapping)
            and all(isinstance(role, str) and _is_text_map(each) for role, each in value.items())
        ),
        "a mapping of roles to mappings of names to texts",
    ),
    "conditional_parameters": (
        lambda value: (
            isinstance(value, Mapping)
            and all(
                isinstance(name, str) and _is_list(specs) and all(isinstance(each, Mapping) for each in specs)
                for name, specs in value.items()
            )
        ),
        "a mapping of parameters to lists of conditionalParameterSpecs",
    ),
}


def _read(rules: Violations, name: str, value: Any) -> Any:
    if name in ("reservation", "regions") and isinstance(value, str):
        value = [value] if value else []
    is_good, what = _TYPES.get(name, (lambda value: isinstance(value, str), "text"))
    if not is_good(value):
        rules.add(f"{PATH}.{name}", f"must be {what}; got {type(value).__name__}")
    return tuple(value) if _is_list(value) else value
