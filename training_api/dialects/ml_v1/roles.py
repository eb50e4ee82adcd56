"""
The roles of a job, and the fields of each in a request: the one table of them. Pure.

Source: the discovery document's ``TrainingInput``; the words of ``ReplicaRole`` are those of
``CLUSTER_SPEC``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from training_api.dialects.ml_v1.resources import ReplicaConfig, ScaleTier, TrainingInput
from training_api.dialects.ml_v1.scale_tiers import TIER_SHAPES
from training_api.job.cluster import ReplicaRole


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleFields:
    """
    How the fields of a role are called.

    :param wire: what they begin with in the API, like ``parameterServer`` in ``parameterServerCount``.
    :param name: what they begin with in Python, like ``parameter_server`` in ``parameter_server_count``.
    """

    role: ReplicaRole
    wire: str
    name: str

    @property
    def title(self) -> str:
        """The role for people, like ``parameter server``."""
        return self.name.replace("_", " ")

    def config_of(self, training: TrainingInput) -> ReplicaConfig | None:
        """Return the ``ReplicaConfig`` of the role, if the request has one."""
        config: ReplicaConfig | None = getattr(training, f"{self.name}_config")
        return config

    def machine_of(self, training: TrainingInput) -> str | None:
        """Return the machine type that the request gives the role."""
        machine: str | None = getattr(training, f"{self.name}_type")
        return machine

    def count_of(self, training: TrainingInput) -> int:
        """Return how many replicas of the role the request asks for; a job has one master."""
        if self.role is ReplicaRole.MASTER:
            return 1
        return getattr(training, f"{self.name}_count") or 0


MASTER = RoleFields(role=ReplicaRole.MASTER, wire="master", name="master")
#: All roles but the master, in the order in which replicas are started.
OTHER_ROLES = (
    RoleFields(role=ReplicaRole.WORKER, wire="worker", name="worker"),
    RoleFields(role=ReplicaRole.PARAMETER_SERVER, wire="parameterServer", name="parameter_server"),
    RoleFields(role=ReplicaRole.EVALUATOR, wire="evaluator", name="evaluator"),
)
ROLES = (MASTER, *OTHER_ROLES)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleMachines:
    """
    What one role of a job runs on.

    :param machine: empty: none was given, or the tier has no such role.
    :param count: replicas; what the request says may be negative.
    """

    fields: RoleFields
    machine: str
    count: int
    config: ReplicaConfig | None


def machines_of(training: TrainingInput) -> Iterator[RoleMachines]:
    """
    Yield the machines of each role, the master first.

    Those of the scale tier, or those that the request gives.

    BASIC_TPU, whose machines are not known, yields nothing.
    """
    tier = training.scale_tier or ScaleTier.BASIC
    shape = TIER_SHAPES.get(tier)
    if shape is None and tier is not ScaleTier.CUSTOM:
        return
    for fields in ROLES:
        if shape is not None:
            machine, count = shape.get(fields.role, ("", 0))
        else:
            machine, count = fields.machine_of(training) or "", fields.count_of(training)
        yield RoleMachines(fields=fields, machine=machine, count=count, config=fields.config_of(training))


def configs_of(training: TrainingInput) -> Iterator[ReplicaConfig | None]:
    """Yield the configuration of each role, the master's first."""
    return (fields.config_of(training) for fields in ROLES)
