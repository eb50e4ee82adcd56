"""
Which quotas of Vertex AI a job uses, by the names of Service Usage. Pure.

Sources: refusals of Vertex AI that users captured have ``custom_model_training_cpus``, ``..._n2_cpus``, those
of T4, L4, A100 and A100 of 80 GB, and some of them with ``preemptible_``. Pages of Google's have the two of
H100 [docs: training/schedule-jobs-dws]. The others follow them [unverified].
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from training_api.job.accelerators import Accelerator
from training_api.job.job_spec import JobSpec
from training_api.job.machines import MachineType

#: Whose quotas they are.
SERVICE = "aiplatform.googleapis.com"
_METRIC = f"{SERVICE}/custom_model_training_"
#: Jobs of these strategies use the quotas of preemptible machines [docs: training/schedule-jobs-dws].
_PREEMPTIBLE = frozenset({"SPOT", "FLEX_START"})
#: Kinds whose metric is not named as the rule says.
_OF_KINDS = {
    Accelerator.NVIDIA_H100_80GB: "nvidia_h100",
    Accelerator.NVIDIA_H100_MEGA_80GB: "nvidia_h100_mega",
    Accelerator.NVIDIA_H200_141GB: "nvidia_h200",
}
#: Series of machines that share the metric without a series in its name.
_WITHOUT_SERIES = frozenset({"n1", "e2"})


def gpu_metric(kind: Accelerator, *, is_preemptible: bool = False) -> str:
    """Return the metric of a kind of GPU."""
    name = _OF_KINDS.get(kind) or kind.lower().replace("_tesla_", "_")
    return _metric(f"{name}_gpus", is_preemptible=is_preemptible)


def cpu_metric(machine: MachineType, *, is_preemptible: bool = False) -> str:
    """Return the metric of the cores of a machine's series."""
    series = machine.name.partition("-")[0]
    name = "cpus" if series in _WITHOUT_SERIES else f"{series}_cpus"
    return _metric(name, is_preemptible=is_preemptible)


def demand(spec: JobSpec, strategy: str = "") -> Mapping[str, int]:
    """
    Return how much of each quota a job uses at most: cores and GPUs by metric.

    Trials that run side by side count each. Cores of machines that come with GPUs are left out: no refusal by
    such a quota has been seen, and their GPUs are counted.

    :param strategy: of ``scheduling``; empty: STANDARD.
    """
    is_preemptible = strategy in _PREEMPTIBLE
    used: Counter[str] = Counter()
    for replica in spec.replicas:
        if replica.gpu and replica.gpus:
            used[gpu_metric(replica.gpu, is_preemptible=is_preemptible)] += replica.gpus
        if not replica.machine.gpus:
            used[cpu_metric(replica.machine, is_preemptible=is_preemptible)] += replica.machine.cpus
    side_by_side = spec.study.max_parallel_trials if spec.study else 1
    return {metric: count * side_by_side for metric, count in used.items()}


def _metric(name: str, *, is_preemptible: bool) -> str:
    return f"{_METRIC}{'preemptible_' if is_preemptible else ''}{name}"
