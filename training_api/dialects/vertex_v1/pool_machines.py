"""The machine of a pool: its type, and the accelerators that it has. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from training_api.job.accelerators import Accelerator
from training_api.job.machines import ACCELERATOR_COUNTS, MachineType
from training_api.job.newer_machines import VERTEX_MACHINE_TYPES
from training_api.job.violations import Violations

_NO_TPU = "this service has no TPUs; use a machine type with CPUs or GPUs"
#: What asks for TPUs [docs: training/configure-compute].
_TPU_MACHINES = ("cloud-tpu", "ct")
#: K80 are no more on Vertex AI.
_ATTACHABLE = frozenset(
    {
        Accelerator.NVIDIA_TESLA_P4,
        Accelerator.NVIDIA_TESLA_P100,
        Accelerator.NVIDIA_TESLA_T4,
        Accelerator.NVIDIA_TESLA_V100,
    }
)
#: Fields of a MachineSpec that are refused by name -> why, and the way out.
NOT_HERE: Mapping[str, str] = {
    "gpuPartitionSize": "this service does not partition GPUs; leave it out",
    "tpuTopology": _NO_TPU,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolMachine:
    """A machine with its accelerators, attached or built in."""

    type: MachineType
    gpus: int
    gpu: Accelerator | None


def read_machine(rules: Violations, path: str, machine: Mapping[str, Any]) -> PoolMachine | None:
    """Return the machine of a pool; ``None``: it cannot be read. What breaks a rule is recorded."""
    for field, why in NOT_HERE.items():
        if field in machine:
            rules.add(f"{path}.{field}", why)
    affinity = machine.get("reservationAffinity", {}).get("reservationAffinityType", "")
    if affinity == "SPECIFIC_RESERVATION":
        rules.add(
            f"{path}.reservationAffinity",
            "this service has no reservations; leave it out, or say NO_RESERVATION",
        )
    name = machine.get("machineType", "")
    if is_tpu(name):
        rules.add(f"{path}.machineType", f"{_NO_TPU}; got {name[:100]!r}")
        return None
    found = VERTEX_MACHINE_TYPES.get(name)
    if found is None:
        known = ", ".join(VERTEX_MACHINE_TYPES)
        rules.add(f"{path}.machineType", f"must be one of {known}; got {name[:100]!r}")
        return None
    return _with_accelerators(rules, path, machine, found)


def is_tpu(name: str) -> bool:
    """Whether a machine type has TPUs."""
    return name.startswith(_TPU_MACHINES)


def _with_accelerators(
    rules: Violations, path: str, machine: Mapping[str, Any], found: MachineType
) -> PoolMachine:
    built_in = PoolMachine(type=found, gpus=found.gpus, gpu=found.gpu)
    kind, count = machine.get("acceleratorType", ""), machine.get("acceleratorCount", 0)
    if not kind and not count:
        return built_in
    if broken := _broken_pair(kind, count) or _broken_fit(found, Accelerator(kind), count):
        field, description = broken
        rules.add(f"{path}.{field}", description)
        return built_in
    return PoolMachine(type=found, gpus=count, gpu=Accelerator(kind))


def _broken_pair(kind: str, count: int) -> tuple[str, str] | None:
    """Return the field, and the rule that it breaks whatever the machine is."""
    if kind.startswith("TPU_"):
        return "acceleratorType", f"{_NO_TPU}; got {kind}"
    if count < 0:
        return "acceleratorCount", f"must not be negative; got {count}"
    if not kind or not count:
        absent, present = (
            ("acceleratorCount", "acceleratorType") if kind else ("acceleratorType", "acceleratorCount")
        )
        return absent, f"must be set together with {present}"
    if kind not in set(Accelerator) or Accelerator(kind) is Accelerator.NVIDIA_TESLA_K80:
        return "acceleratorType", f"must be an accelerator that trains on Vertex AI; got {kind}"
    return None


def _broken_fit(found: MachineType, kind: Accelerator, count: int) -> tuple[str, str] | None:
    """Return the field, and the rule that it breaks on this machine."""
    if found.gpus:
        if (kind, count) == (found.gpu, found.gpus):
            return None
        return "acceleratorCount", f"{found.name} comes with {found.gpus} x {found.gpu}; got {count} x {kind}"
    if kind not in _ATTACHABLE:
        return "acceleratorType", f"{kind} comes with machine types of its own; got {found.name!r}"
    if not found.name.startswith("n1-"):
        return "acceleratorType", f"{kind} can be attached to machine types n1-* only; got {found.name!r}"
    if count not in ACCELERATOR_COUNTS[kind]:
        counts = ", ".join(map(str, ACCELERATOR_COUNTS[kind]))
        return "acceleratorCount", f"must be one of {counts} for {kind}; got {count}"
    return None
