"""
Why a job did not end well, in plain words, and what to do about it.

Read from the cause that the service wrote (``training_api/causes.py``). Pure: the words are here once, for
the job page, the fleet page and every other reader.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from training_api.causes import Cause
from training_api.fleet.wire import JobReason
from training_api.job.exit_causes import exit_meaning
from training_api.states import JobState


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


#: Cause -> title, what happened, what to do, where more is said.
#: ``{who}``, ``{code}`` and ``{what}`` are filled in.
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
            "Find out what stops it: a docker kill, a machine that is short of memory, or the trainer itself. After SIGKILL it may also "
            "be the job's memory limit: the engine does not always report that. A trainer that saves checkpoints resumes from them "
            "after a restart."
        ),
        "docs/states.md#how-a-job-ends",
    ),
    Cause.REPLICA_LOST: (
        "A container was lost",
        (
            "The container of the replica {who} was removed from the engine while it ran, or died with the engine or its machine, more "
            "often than it is tried again."
        ),
        (
            "Find out who runs docker rm or docker system prune on the machine, whether the engine was set up anew, or why the machine "
            "went down; then submit again."
        ),
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
    Cause.DISK: (
        "It wrote too much",
        "The replica {who} wrote more than a job may: to its container, as metrics, or to its job directory.",
        (
            "Write less: keep fewer checkpoints, and read data as a stream instead of a copy. If it needs that much, raise the limit "
            "that the message names, on a disk that has the room."
        ),
        "docs/security.md#what-a-job-may-write",
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
    Cause.SECRET: (
        "A secret is missing",
        "The replica {who} could not start, as a secret that the job names is not there or cannot be read.",
        "The message names it, and the command that makes it. Set it on the service's machine, then submit again.",
        "docs/access.md#secrets-for-trainers",
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
    Cause.UNREADABLE: (
        "The service could not read the job",
        "The job is stored in a form that this version of the training service cannot read, so that it could not go on.",
        "Submit it again. If its row was not changed by hand, it is a fault of the service: its log has the row's key and the reason.",
        "docs/states.md#a-job-that-cannot-be-read",
    ),
    Cause.UNKNOWN: (
        "Another reason",
        "The service did not say of what kind the reason is; its message is below.",
        "Read the message and the last lines of the job's log; the log of the training service says more.",
        "docs/troubleshooting.md#jobs-and-tasks",
    ),
}
#: States in which a message says why the job does not go on to its end.
_UNHAPPY = frozenset({JobState.FAILED, JobState.CANCELLING, JobState.CANCELLED})


def title_of(cause: Cause) -> str:
    """Return a few words for ``cause``: a heading, the name of a column. Pure."""
    return _WORDS[cause][0]


def explain(state: JobState, reason: JobReason | None) -> Explanation | None:
    """
    Return why a job in ``state`` failed or was cancelled; ``None`` where it did neither.

    Pure.

    :param reason: what the service says of it; ``None``: nothing, so that the cause is ``UNKNOWN``.
    """
    if state not in _UNHAPPY:
        return None
    reason = reason or JobReason()
    title, text, fix, docs = _WORDS[reason.cause]
    meaning = exit_meaning(reason.cause, reason.exit_code) or "the engine's message says what"
    text = text.format(who=reason.replica, code=reason.exit_code, what=meaning)
    if reason.failed_trials:
        trials = "1 trial has" if reason.failed_trials == 1 else f"{reason.failed_trials} trials have"
        text = f"{trials} failed. The last of them: {text}"
    return Explanation(cause=reason.cause, title=title, text=text, fix=fix, docs=docs)
