"""
Why a job did not end well, in plain words, and what to do about it.

Read from the job's state and ``errorMessage``, as the local service writes it (docs/states.md) and as AI Platform Training
wrote it for replicas. Pure: the words are here once, for the job page, the fleet page and whoever else tells a person.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from training_api.job.restarts import EXIT_MEANINGS, RETRYABLE_EXIT_CODES
from training_api.states import JobState


class Cause(StrEnum):
    """What kept a job, or a trial, from its end; fit for counting."""

    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    PROGRAM_ERROR = "PROGRAM_ERROR"  #: the trainer ended with a status of its own
    COMMAND = "COMMAND"  #: the image has no such program, or it cannot be executed
    PACKAGE = "PACKAGE"  #: the job's Python package could not be fetched or installed
    INTERRUPTED = "INTERRUPTED"  #: ended by a signal again and again, though the memory was not full
    REPLICA_LOST = "REPLICA_LOST"  #: its container was removed from outside, again and again
    IMAGE = "IMAGE"  #: there is no such image
    ACCESS = "ACCESS"  #: the job may not pull its image
    REGISTRY = "REGISTRY"  #: the registry did not answer
    STORAGE = "STORAGE"  #: the engine's disk is full
    QUOTA = "QUOTA"  #: too few GPUs
    ENGINE = "ENGINE"  #: the engine could not start a container
    METRIC = "METRIC"  #: a trial did not report what the study is to judge it by
    WAITED_TOO_LONG = "WAITED_TOO_LONG"
    RAN_TOO_LONG = "RAN_TOO_LONG"
    CANCELLED = "CANCELLED"  #: on request
    STUDY_ENDED = "STUDY_ENDED"  #: a trial that ran while its job was ending
    UNKNOWN = "UNKNOWN"  #: the message is none of those that are known


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """
    Why, for people.

    :param title: a few words: a heading, the name of a column.
    :param text: what happened, in whole sentences.
    :param fix: what is likely to help, in whole sentences.
    :param docs: where more is said: ``docs/PAGE.md#HEADING``.
    """

    cause: Cause
    title: str
    text: str
    fix: str
    docs: str


#: What a message is -> the first pattern that it has. Replicas' statuses are looked at afterwards.
_PATTERNS: tuple[tuple[Cause, re.Pattern[str]], ...] = tuple(
    (cause, re.compile(pattern, re.IGNORECASE | re.DOTALL))
    for cause, pattern in (
        (Cause.CANCELLED, r"^The job was cancelled on request"),
        (Cause.WAITED_TOO_LONG, r"longer than scheduling\.maxWaitTime"),
        (Cause.RAN_TOO_LONG, r"longer than scheduling\.maxRunningTime"),
        (Cause.STUDY_ENDED, r"^the job \S+ is ending$"),
        (Cause.METRIC, r"without a value of the metric|^The last value of the metric"),
        (Cause.STORAGE, r"^There is no room for the image|no space left on device|disk quota exceeded"),
        (Cause.REGISTRY, r"^The image \S+ could not be pulled for \d+ seconds"),
        (
            Cause.ACCESS,
            r"^The image .+ could not be pulled: .*(permission denied|unauthorized|(?<!access )denied:)",
        ),
        (Cause.IMAGE, r"^The image .+ could not be pulled: "),
        (Cause.QUOTA, r"could not start: \d+ GPUs are needed"),
        (
            Cause.COMMAND,
            r"could not start: .*(executable file not found|no such file or directory|exec format error)",
        ),
        (Cause.OUT_OF_MEMORY, r"ran out-of-memory"),
        (Cause.ENGINE, r"could not start(: | for \d+ seconds: )"),
    )
)
_REPLICA = r"The replica (\S+ \d+) "
_STATUS = re.compile(_REPLICA + r"exited with a non-zero status of (\d+)")
_LOST = re.compile(_REPLICA + "was lost")
#: training_service/studies/study.py: what became of the trials, and why the last one failed.
_STUDY = re.compile(r"^(\d+ trials? ha(?:s|ve) failed, and .+?)\. Trial \d+: (.*)$", re.DOTALL)
#: docker/runtime/run_package.py, by sysexits.h.
_PACKAGE_MEANINGS = {
    65: "a package cannot be built or installed, or the module is in none of them",
    66: "a package is not in the object store, or may not be read",
    69: "the object store did not answer",
}

#: Cause -> title, what happened, what to do, where more is said. ``{who}``, ``{code}`` and ``{what}`` are filled in.
_WORDS: Mapping[Cause, tuple[str, str, str, str]] = {
    Cause.OUT_OF_MEMORY: (
        "Out of memory",
        (
            "The replica {who} wanted more memory than its container may have, and was stopped. It is not tried again, as it would "
            "want as much the next time."
        ),
        (
            "Use smaller batches or load less data at once, or ask for a machine type with more memory (masterType, workerType). The "
            "curve of its memory shows how fast it grew; the job's log says how much it was given."
        ),
        "docs/troubleshooting.md#jobs-and-tasks",
    ),
    Cause.PROGRAM_ERROR: (
        "The trainer failed",
        "The program of the replica {who} ended by itself with the status {code}, which is not retried.",
        (
            "Read the last lines of its log: they usually have the program's own error. Mend the trainer or its arguments, then submit "
            "again; in Airflow, clear the task."
        ),
        "docs/trainers.md#what-it-owes",
    ),
    Cause.COMMAND: (
        "The program cannot be started",
        "The image has no such program as the replica {who} is to run, or it cannot be executed: {what}.",
        (
            "Check the image's ENTRYPOINT and the job's containerCommand; run the image locally with the same arguments. A script "
            "needs its execute bit and an interpreter that the image has; an image for another processor cannot run here."
        ),
        "docs/trainers.md#a-whole-one",
    ),
    Cause.PACKAGE: (
        "The package could not be installed",
        "The replica {who} ended with the status {code} before the trainer began: {what}.",
        "Read the last line of its log, which says which package and why; upload it again, or require what it lacks.",
        "docs/trainers.md#packages",
    ),
    Cause.INTERRUPTED: (
        "Interrupted too often",
        (
            "The replica {who} was ended from outside with the status {code} ({what}). That is tried again by itself, and there are no "
            "tries left."
        ),
        (
            "Look at what stops it: somebody's docker kill, the machine's own shortage of memory, or the trainer that kills itself. A "
            "trainer that saves checkpoints goes on from them after a restart."
        ),
        "docs/states.md#how-a-job-ends",
    ),
    Cause.REPLICA_LOST: (
        "A container was removed",
        "The container of the replica {who} was removed from the engine while it ran, more often than it is tried again.",
        "Find out who runs docker rm or docker system prune on the machine, or whether the engine was set up anew; then submit again.",
        "docs/troubleshooting.md#jobs-and-tasks",
    ),
    Cause.IMAGE: (
        "The image is not there",
        "The registry, or the engine, has no image of this name, tag or digest.",
        (
            "Compare imageUri with what was pushed: project, repository and tag. If it was removed by a clean-up, build and push it "
            "again. An image of a foreign private registry also looks like this."
        ),
        "docs/troubleshooting.md#jobs-and-tasks",
    ),
    Cause.ACCESS: (
        "The job may not pull its image",
        "The image is in a repository that the account that jobs run as may not read.",
        (
            "Give that account the role of a reader; the message has the whole command. In a DAG, GrantRegistryAccessOperator does it "
            "before the job is submitted."
        ),
        "docs/operators.md#an-image-of-another-project",
    ),
    Cause.REGISTRY: (
        "The registry did not answer",
        "The image could not be had because its registry did not answer, for as long as the service asks again.",
        "Bring the registry back (make serve), or look at the network between the engine and the registry; then submit again.",
        "docs/troubleshooting.md#the-machine",
    ),
    Cause.STORAGE: (
        "The disk is full",
        "The disk of the Docker Engine has no room for the image or the container.",
        "docker system df shows what takes it; docker image prune --all removes images that no container uses. Then submit again.",
        "docs/troubleshooting.md#the-machine",
    ),
    Cause.QUOTA: (
        "Too few GPUs",
        "The replica {who} needs more GPUs than the machine has free.",
        "Ask for fewer (acceleratorConfig.count), or wait until other jobs have given theirs back.",
        "docs/trainers.md#on-gpus",
    ),
    Cause.ENGINE: (
        "The container could not be started",
        "The Docker Engine refused to start the replica {who}; the message has its own words.",
        "If the words do not say it, the logs of the training service and of the engine do. Submit again when it is mended.",
        "docs/troubleshooting.md#the-machine",
    ),
    Cause.METRIC: (
        "No usable metric",
        "The program ended well, but without a finite value of the metric that the study is to judge trials by.",
        (
            "Report it with cloudml-hypertune under the tag of hyperparameterMetricTag, at least once before the end. A loss that "
            "becomes NaN or infinite calls for a smaller learning rate or a bound in the search space."
        ),
        "docs/tuning.md#a-trainer-for-tuning",
    ),
    Cause.WAITED_TOO_LONG: (
        "Waited too long",
        "The job did not come to run within its own limit, scheduling.maxWaitTime, and was cancelled.",
        (
            "See what held the machine: the queue, or a large image that was still pulled. Raise maxWaitTime, or give the job a higher "
            "priority."
        ),
        "docs/states.md#cancel-and-limits",
    ),
    Cause.RAN_TOO_LONG: (
        "Ran too long",
        "The job ran longer than its own limit, scheduling.maxRunningTime, and was cancelled.",
        "Raise maxRunningTime (in a DAG: max_running_time), or train for fewer epochs. If it hung, its last lines tell where.",
        "docs/states.md#cancel-and-limits",
    ),
    Cause.CANCELLED: (
        "Cancelled",
        "Somebody asked for it: a person, the end or the clearing of the task that submitted the job, or a limit on its cost.",
        "Nothing has to be mended. Submit again if it was a mistake; in Airflow, clear the task.",
        "docs/operators.md#what-a-kill-does-to-the-job",
    ),
    Cause.STUDY_ENDED: (
        "Its study ended",
        "The trial still ran when its job came to an end, and was stopped with it.",
        "The job's own message says why it ended.",
        "docs/tuning.md#failed-trials",
    ),
    Cause.UNKNOWN: (
        "Another reason",
        "The service's message is none of those that are known here.",
        "Read the message and the last lines of the job's log; the log of the training service says more.",
        "docs/troubleshooting.md#jobs-and-tasks",
    ),
}
#: States in which a message says why the job does not go on to its end.
_UNHAPPY = frozenset({JobState.FAILED, JobState.CANCELLING, JobState.CANCELLED})


def title_of(cause: Cause) -> str:
    """Return a few words for ``cause``: a heading, the name of a column. Pure."""
    return _WORDS[cause][0]


def cause_of(state: JobState, error_message: str | None, *, uses_packages: bool = False) -> Cause | None:
    """
    Return why a job, or a trial, in ``state`` failed or was cancelled; ``None`` for one that goes on or succeeded.

    Pure.

    :param error_message: its ``errorMessage``. That of a tuning job ends in the last trial's, which then decides.
    :param uses_packages: whether it installs Python packages, and so has statuses of its own for what goes wrong there.
    """
    if state not in _UNHAPPY:
        return None
    _, message = _study_and_message(error_message)
    for cause, pattern in _PATTERNS:
        if pattern.search(message):
            return cause
    codes = {int(code) for _, code in _STATUS.findall(message)}
    permanent = codes - RETRYABLE_EXIT_CODES.keys()
    if uses_packages and permanent & _PACKAGE_MEANINGS.keys():
        return Cause.PACKAGE
    if permanent:
        return Cause.COMMAND if permanent <= EXIT_MEANINGS.keys() else Cause.PROGRAM_ERROR
    if codes:
        return Cause.INTERRUPTED
    if _LOST.search(message):
        return Cause.REPLICA_LOST
    # The API's own words may be missing: a job that was cancelled was asked to.
    return Cause.CANCELLED if not message and state is not JobState.FAILED else Cause.UNKNOWN


def explain(state: JobState, error_message: str | None, *, uses_packages: bool = False) -> Explanation | None:
    """Return the cause of ``cause_of`` in words; ``None`` where there is none. Pure."""
    cause = cause_of(state, error_message, uses_packages=uses_packages)
    if cause is None:
        return None
    title, text, fix, docs = _WORDS[cause]
    study, message = _study_and_message(error_message)
    who, code = _replica(cause, message)
    what = _PACKAGE_MEANINGS if cause is Cause.PACKAGE else {**RETRYABLE_EXIT_CODES, **EXIT_MEANINGS}
    text = text.format(who=who, code=code, what=what.get(code or 0, "the engine's message says what"))
    if study:
        text = f"{study}. The last of them: {text}"
    return Explanation(cause=cause, title=title, text=text, fix=fix, docs=docs)


def _study_and_message(error_message: str | None) -> tuple[str, str]:
    """Return what the message says of the trials as a whole, or nothing, and the message that names the cause."""
    message = (error_message or "").strip()
    study = _STUDY.match(message)
    return (study[1], study[2]) if study else ("", message)


def _replica(cause: Cause, message: str) -> tuple[str, int | None]:
    """Return the first replica that the message blames for ``cause``, with its status, if it has one."""
    for sentence in re.finditer(rf"{_REPLICA}(.*?)(?=The replica |$)", message, re.DOTALL):
        who, rest = sentence.groups()
        status = re.search(r"non-zero status of (\d+)", rest)
        code = int(status[1]) if status else None
        if cause is Cause.OUT_OF_MEMORY and "ran out-of-memory" not in rest:
            continue
        if cause is Cause.PROGRAM_ERROR and (code is None or code in RETRYABLE_EXIT_CODES):
            continue
        return who, code
    return "", None
