"""
The machines of a job on Vertex AI, and the nearest to those that it does not have. Pure.

Source: training/configure-compute of Vertex AI's docs (``job/newer_machines.py`` has its table). TPUs are
not served here either.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from training_api.dialects.ml_v1.resources import AcceleratorConfig, AcceleratorType, ScaleTier
from training_api.dialects.ml_v1.roles import RoleMachines
from training_api.dialects.vertex_v1.pool_machines import is_tpu, read_machine
from training_api.job.accelerators import Accelerator
from training_api.job.machines import ACCELERATOR_COUNTS, MACHINE_TYPES, TPU_MACHINE, MachineType
from training_api.job.newer_machines import VERTEX_MACHINE_TYPES
from training_api.job.violations import Violations

_K80, _T4 = Accelerator.NVIDIA_TESLA_K80, Accelerator.NVIDIA_TESLA_T4
#: What is named to who asks for a TPU: the smallest machines with a GPU of today.
_INSTEAD_OF_TPU = "g2-standard-8 (1 x NVIDIA_L4), or a2-highgpu-1g (1 x NVIDIA_TESLA_A100)"
#: Fields of a machineSpec -> what a role's field is called in ml.v1.
_FIELDS = {
    "machineType": "{role}Type",
    "acceleratorType": "{role}Config.acceleratorConfig.type",
    "acceleratorCount": "{role}Config.acceleratorConfig.count",
}


def nearest(machine: MachineType) -> MachineType:
    """Return the smallest n1 machine of Vertex AI with the cores and memory of ``machine``."""
    fitting = (
        each
        for name, each in VERTEX_MACHINE_TYPES.items()
        if name.startswith("n1-") and each.cpus >= machine.cpus and each.memory_bytes >= machine.memory_bytes
    )
    return min(fitting, key=lambda each: (each.cpus, each.memory_bytes))


def nearest_accelerators(kind: Accelerator, count: int) -> tuple[Accelerator, int]:
    """Return what Vertex AI has in place of accelerators: for K80, at most four T4."""
    return (_T4, min(count, max(ACCELERATOR_COUNTS[_T4]))) if kind is _K80 else (kind, count)


def check_tier(rules: Violations, tier: ScaleTier, roles: Sequence[RoleMachines]) -> None:
    """Record a tier with a machine that Vertex AI does not have, and the nearest layout."""
    path = "trainingInput.scaleTier"
    if tier is ScaleTier.BASIC_TPU:
        rules.add(
            path,
            f"Vertex AI has no {tier.value}; set scaleTier CUSTOM with a machine with GPUs: {_INSTEAD_OF_TPU}",
        )
        return
    used = [role for role in roles if role.count > 0]
    gone = sorted({role.machine for role in used if role.machine not in VERTEX_MACHINE_TYPES})
    if gone:
        layout = ", ".join(_said(role) for role in used)
        rules.add(
            path,
            f"{tier.value} needs {' and '.join(gone)}, which Vertex AI does not have; the nearest is scaleTier "
            f"CUSTOM with {layout}",
        )


def _said(role: RoleMachines) -> str:
    """Return the fields of a role that come nearest to what a tier has."""
    wire, machine = role.fields.wire, MACHINE_TYPES[role.machine]
    text = f"{wire}Type {_known(machine)}"
    if machine.gpu and role.machine not in VERTEX_MACHINE_TYPES:
        kind, gpus = nearest_accelerators(machine.gpu, machine.gpus)
        text += f" and {wire}Config.acceleratorConfig {gpus} x {kind}"
    return text if wire == "master" else f"{text} and {wire}Count {role.count}"


def _known(machine: MachineType) -> str:
    return machine.name if machine.name in VERTEX_MACHINE_TYPES else nearest(machine).name


def machine_spec(
    rules: Violations, role: RoleMachines, affinity: Mapping[str, Any], *, is_custom: bool
) -> dict[str, Any]:
    """
    Return the ``machineSpec`` of a role; what breaks a rule is recorded.

    Machines that come with GPUs name them: the API wants to be told.

    :param affinity: the ``reservationAffinity`` of the job; empty: none.
    :param is_custom: whether the request names the machine; else ``check_tier`` has told of it.
    """
    wire = role.fields.wire
    config = (role.config and role.config.accelerator_config) or AcceleratorConfig()
    if config.count and (not is_custom or not _check_names(rules, role, config)):
        return {}
    if role.machine not in VERTEX_MACHINE_TYPES and (not is_custom or _tell_of_machine(rules, role)):
        return {}
    spec: dict[str, Any] = {"machineType": role.machine}
    machine = VERTEX_MACHINE_TYPES.get(role.machine)
    if config.count and config.type:
        spec |= {"acceleratorType": config.type.value, "acceleratorCount": config.count}
    elif machine and machine.gpu:
        spec |= {"acceleratorType": machine.gpu.value, "acceleratorCount": machine.gpus}
    found = Violations()
    read_machine(found, "", spec)
    for each in found.found:
        field = _FIELDS[each.field.removeprefix(".")].format(role=wire)
        rules.add(f"trainingInput.{field}", each.description)
    return {**spec, **({"reservationAffinity": dict(affinity)} if affinity else {})}


def _tell_of_machine(rules: Violations, role: RoleMachines) -> bool:
    """Record a machine that is gone, with the nearest one; ``False``: it was none before either."""
    path, name = f"trainingInput.{role.fields.wire}Type", role.machine
    if name == TPU_MACHINE or is_tpu(name):
        rules.add(path, f"TPUs are not served; use a machine with GPUs: {_INSTEAD_OF_TPU}; got {name!r}")
        return True
    machine = MACHINE_TYPES.get(name)
    if machine is None:
        return False
    text = nearest(machine).name
    if machine.gpu:
        kind, count = nearest_accelerators(machine.gpu, machine.gpus)
        text += f" with {role.fields.wire}Config.acceleratorConfig {count} x {kind}"
    rules.add(path, f"Vertex AI has no {name!r}; the nearest is {text}")
    return True


def _check_names(rules: Violations, role: RoleMachines, config: AcceleratorConfig) -> bool:
    """Record accelerators that cannot be had, with the nearest ones; whether they can."""
    path = f"trainingInput.{role.fields.wire}Config.acceleratorConfig"
    kind = config.type or AcceleratorType.ACCELERATOR_TYPE_UNSPECIFIED
    if kind is AcceleratorType.ACCELERATOR_TYPE_UNSPECIFIED:
        rules.add(f"{path}.type", "must be set when count is more than 0")
    elif kind.value.startswith("TPU_"):
        rules.add(f"{path}.type", f"TPUs are not served; use GPUs: {_INSTEAD_OF_TPU}; got {kind.value}")
    elif kind is AcceleratorType.NVIDIA_TESLA_K80:
        instead, count = nearest_accelerators(_K80, config.count or 1)
        rules.add(f"{path}.type", f"Vertex AI has no {kind.value}; the nearest is {count} x {instead}")
    else:
        return True
    return False
