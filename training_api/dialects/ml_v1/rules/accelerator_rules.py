"""The accelerators of a replica: those of its machine type, or attached ones."""

from __future__ import annotations

from training_api.dialects.ml_v1.resources import AcceleratorConfig, AcceleratorType
from training_api.job.accelerators import Accelerator
from training_api.job.machines import ACCELERATOR_COUNTS, MachineFamily, MachineType
from training_api.job.violations import Violations

_TPU_TYPES = frozenset(kind for kind in AcceleratorType if kind.value.startswith("TPU_"))
NO_TPU = "this service has no TPUs; use a machine type with CPUs or GPUs"


def accelerators_from_wire(
    rules: Violations,
    path: str,
    config: AcceleratorConfig | None,
    machine: MachineType | None,
    *,
    is_custom: bool,
) -> tuple[int, Accelerator | None]:
    """
    Return how many accelerators of which kind a replica has.

    Those of its machine type, or those that are attached.
    """
    built_in = (machine.gpus, machine.gpu) if machine else (0, None)
    count = (config and config.count) or 0
    if config is None or not count:
        return built_in
    if config.type in _TPU_TYPES:
        rules.add(f"{path}.type", f"{NO_TPU}; got {config.type}")
        return built_in
    if config.type in (None, AcceleratorType.ACCELERATOR_TYPE_UNSPECIFIED):
        rules.add(f"{path}.type", "must be set when count is more than 0")
        return built_in
    kind = Accelerator(config.type.value)
    if count not in ACCELERATOR_COUNTS[kind]:
        known = ", ".join(map(str, ACCELERATOR_COUNTS[kind]))
        rules.add(f"{path}.count", f"must be one of {known} for {kind.value}; got {count}")
    elif not is_custom or (machine and machine.family is MachineFamily.LEGACY):
        rules.add(path, "can only be set with scaleTier CUSTOM and a Compute Engine machine type")
    elif (machine and machine.gpus) and (count, kind) != built_in:
        rules.add(
            path, f"{machine.name} comes with {machine.gpus} x {machine.gpu}; got {count} x {kind.value}"
        )
    elif kind is Accelerator.NVIDIA_TESLA_A100 and not (machine and machine.gpus):
        rules.add(f"{path}.type", f"{kind.value} comes with the machine types a2-* only")
    else:
        return count, kind
    return built_in
