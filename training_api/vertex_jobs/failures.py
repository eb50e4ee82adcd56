"""
What the end of a job of Vertex AI says of another try, by its words. Pure.

Vertex AI tells a code and a text, and no cause. The code does not do: 8, RESOURCE_EXHAUSTED, is memory, a
quota and a region without machines. Texts are those of captures and of
training/understanding-training-service; an unknown one is taken for the trainer's fault, so that nothing is
paid for twice by mistake.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from training_api.causes import Cause
from training_api.dialects.ml_v1.resources import Job
from training_api.fleet.wire import JobReason
from training_api.job.machines import MachineType
from training_api.job.newer_machines import VERTEX_MACHINE_TYPES
from training_api.states import JobState


class Failure(StrEnum):
    """Whose fault a failed job is."""

    TRAINER = "trainer"  #: the same again comes to the same end
    MEMORY = "memory"  #: a larger machine helps
    STOCKOUT = "stockout"  #: the region had no such machines; it may have some later
    INTERNAL = "internal"  #: Vertex AI's own; another attempt may get through

    @property
    def may_pass(self) -> bool:
        """Whether another attempt of the same job may end well."""
        return self in (Failure.STOCKOUT, Failure.INTERNAL)


_WORDS = (
    (Failure.MEMORY, re.compile(r"low on memory|ran out of memory|ran out-of-memory", re.IGNORECASE)),
    (Failure.STOCKOUT, re.compile(r"Resources are insufficient in region", re.IGNORECASE)),
    (Failure.INTERNAL, re.compile(r"Internal error occurred", re.IGNORECASE)),
)
_POOL = re.compile(r"workerpool(?P<number>[0-3])")
_WHO = re.compile(r"workerpool[0-3](-\d+)?")
#: Of a container that could not be started [captured].
_NOT_STARTED = "Termination reason: StartError"
#: training/understanding-training-service, "the replica workerpool0-0 exited with a non-zero status of 1".
_EXIT = re.compile(
    r"replica (?P<replica>workerpool[0-3]-\d+) exited with a non-zero status of (?P<code>\d{1,3})\b"
)


def failure_of(message: str) -> Failure:
    """Return whose fault a failed job is, by the text of its error."""
    return next((failure for failure, words in _WORDS if words.search(message)), Failure.TRAINER)


def reason_of(state: JobState | None, message: str) -> JobReason | None:
    """Return why a job failed or was cancelled, as far as its words tell, or ``None``."""
    if state in (JobState.CANCELLING, JobState.CANCELLED):
        return JobReason(cause=Cause.CANCELLED)
    if state is not JobState.FAILED:
        return None
    if failure_of(message) is Failure.MEMORY:
        found = _WHO.search(message)
        return JobReason(cause=Cause.OUT_OF_MEMORY, replica=found[0] if found else "")
    if ended := _EXIT.search(message):
        cause = Cause.COMMAND if _NOT_STARTED in message else Cause.PROGRAM_ERROR
        return JobReason(cause=cause, replica=ended["replica"], exit_code=int(ended["code"]))
    return JobReason(cause=Cause.UNKNOWN)


def region_after(regions: Sequence[str], ended: Job) -> str:
    """
    Return where the attempt after ``ended`` is made: elsewhere if the region failed.

    :param regions: in the order in which they are tried, from the first again after the last; the first also
        follows a region that is none of them. Without any, the answer is empty.
    """
    if not regions:
        return ""
    tried = (ended.training_input and ended.training_input.region) or ""
    if tried not in regions:
        return regions[0]
    step = 1 if failure_of(ended.error_message or "").may_pass else 0
    return regions[(regions.index(tried) + step) % len(regions)]


def with_advice(message: str, job_spec: Mapping[str, Any]) -> str:
    """
    Return the text of a job's error, with the next machine where that helps.

    :param job_spec: of the job, as the API answered it.
    """
    if failure_of(message) is not Failure.MEMORY:
        return message
    found = _POOL.search(message)
    pools = job_spec.get("workerPoolSpecs") or []
    number = int(found["number"]) if found else 0
    name = pools[number].get("machineSpec", {}).get("machineType", "") if number < len(pools) else ""
    machine = VERTEX_MACHINE_TYPES.get(name)
    larger = next_larger(machine) if machine else None
    if machine is None or larger is None:
        return message
    return f"{message} After {machine.name} the next machine with more memory is {larger.name}."


def next_larger(machine: MachineType) -> MachineType | None:
    """
    Return the machine with the least memory above that of ``machine``.

    It is of the same series, has no fewer cores and the same accelerators. ``None``: there is none.
    """
    series = machine.name.partition("-")[0]
    larger = (
        each
        for name, each in VERTEX_MACHINE_TYPES.items()
        if name.startswith(f"{series}-")
        and each.memory_bytes > machine.memory_bytes
        and each.cpus >= machine.cpus
        and (each.gpus, each.gpu) == (machine.gpus, machine.gpu)
    )
    return min(larger, key=lambda each: (each.memory_bytes, each.cpus), default=None)
