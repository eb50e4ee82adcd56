"""
Every error of the project, one tree.

::

    TrainingError
    + BrokenRules(ValueError)         a request breaks rules of the API; never retried
    |   + InvalidJobSpec              the caller's job
    |   + InvalidRequest              any other request
    + InvalidImageRef(ValueError)     the caller's image reference cannot be used
    + InvalidFilter(ValueError)       a list filter that cannot be read
    + InvalidGrant(ValueError)        a grant of access that cannot be read or made
    + PolicyTooLarge                  the IAM policy has no room for one more principal
    + IllegalTransition               the state machine refused: a bug or a lost race
    + ServiceError(code, status)      the training service answered with an error
    |   + JobNotFound                 404
    |   + JobConflict                 409, the job id is taken
    |   + EditConflict                409 ABORTED, somebody else wrote first: read, then write again
    |   + LocationNotFound            404
    |   + ResourceNotFound            404, no such project, repository or bucket
    |   + ResourceExists              409, the name is taken
    |   + AccessDenied                401 / 403
    |   + NotTold                     501, this API never tells it
    |   + Throttled                   429, carries ``retry_after_seconds``
    |   + QuotaExceeded               429, the job asks for more than there ever will be
    |   + ServiceUnavailable          500, 502, 503, 504: the same request may work later
    + TransportError                  the service did not answer: retry
    + PollTimeout                     a wait ended by its own limit, the job goes on
    + EngineError                     the Docker Engine refused
    |   + EngineUnavailable           it did not answer: retry
    |   + EngineBusy                  it refused what it may do later: retry
    |   + ImageNotFound               no such image, or no right to pull it
    |   |   + ImageAccessDenied       there may be one, but the job may not pull it
    |   + DiskFull                    no room for the image or the container
    |   + CommandNotFound             the image has no such program, or it cannot be executed
    |   + GpusTaken                   fewer GPUs are free than a container needs
    |   + SecretUnusable              a secret of the job is missing, or breaks a rule
    + ImageError                      the caller's image, on its way to the registry
    |   + BuildContextMissing         no such folder or Dockerfile
    |   + BuildFailed                 a step of the Dockerfile failed
    |   + BuildKitMissing             the build needs BuildKit, and there is none
    |   + ImageTestFailed             the local test run did not exit with 0 in time
    |   + PreflightFailed             a check of the preflight failed
    |   + PushFailed                  the registry refused the image
    |   + RegistryUnavailable         the registry did not answer, also after retries
    + InvalidArgument(ValueError)     an operator's argument, once rendered, is not what it must be
    + InvalidPrice(ValueError)        prices or a limit of cost cannot be read, or a price is missing
    + InvalidRetrainingLimit(ValueError)  how old models may become cannot be read
    + InvalidCommand(ValueError)      a pasted command that cannot be read as one that submits a job
    + InvalidPlan(ValueError)         a plan file that cannot be read, or was edited
    + PlanIsStale                     what a plan was made from is not so any more: plan again
    + PackageInvalid                  the caller's trainer folder or package cannot be built or uploaded
    + JobFailed                       the job's own end, not ours
    + CostLimitReached                a wait cancelled the job, as it had cost what it may
    + ResultsMissing                  the job ended well but left no readable results
    + DataMissing                     there is no object at an address that a job is said to read
    + ObjectChanged                   an object is not the generation that was expected: somebody wrote it
    + DataInvalid                     data to train on breaks a rule, or is not there
    + ChampionMoved                   the champion is another one than a decision was made against
    + ModelUnknown                    no such model version, or no champion, or none before it
    + EvaluationInvalid               evaluations cannot be read, or are not of the same examples
    + RegistryMirrorFailed            a registry that shows versions did not answer, or refused

Messages say what is wrong, the rule, the value and the way out. ``raise ... from error`` keeps the cause.
An error that can end a job has a ``cause`` in its class: what programs count (``causes.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

from training_api.causes import Cause


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldViolation:
    """
    One broken rule.

    ``field`` is the camelCase path in the request (``trainingInput.jobDir``).
    """

    field: str
    description: str


class TrainingError(Exception):
    """Root of the project's errors."""


class BrokenRules(TrainingError, ValueError):
    """
    A request breaks one or more rules of the API.

    :param violations: every rule broken, in the order of the fields; at least one.
    """

    #: What is invalid, in words.
    subject: ClassVar[str] = "The request"

    def __init__(self, violations: Sequence[FieldViolation]) -> None:
        self.violations = tuple(violations)
        super().__init__("; ".join(f"{v.field}: {v.description}" for v in self.violations))

    @classmethod
    def of(cls, field: str, description: str) -> Self:
        """Return the error of one broken rule."""
        return cls([FieldViolation(field=field, description=description)])


class InvalidJobSpec(BrokenRules):
    """The job breaks one or more rules."""

    subject = "The job"


class InvalidRequest(BrokenRules):
    """A request other than a new job breaks one or more rules."""


class InvalidImageRef(TrainingError, ValueError):
    """An image reference that names no registry, or is malformed."""


class InvalidFilter(TrainingError, ValueError):
    """
    A list filter that breaks the filter language.

    See ``training_api/filtering.py``.
    """


class InvalidGrant(TrainingError, ValueError):
    """A grant of access whose parts are missing or malformed."""


class PolicyTooLarge(TrainingError):
    """The IAM policy names as many principals as a policy may."""


class IllegalTransition(TrainingError):
    """A state change that ``states.py`` does not know."""


class ServiceError(TrainingError):
    """
    The training service answered with an error.

    :param code: HTTP status; by default that of the class.
    :param status: canonical code name, ``INVALID_ARGUMENT`` ...; by default that of the class.
    """

    code: int = 500
    status: str = "INTERNAL"

    def __init__(self, message: str, *, code: int | None = None, status: str = "") -> None:
        self.code = code or self.code
        self.status = status or self.status
        super().__init__(message)


class JobNotFound(ServiceError):
    """No such job or project."""

    code, status = 404, "NOT_FOUND"


class JobConflict(ServiceError):
    """A job with this id exists."""

    code, status = 409, "ALREADY_EXISTS"


class EditConflict(ServiceError):
    """
    What the caller read has changed since.

    To read it again and retry is safe.
    """

    code, status = 409, "ABORTED"


class LocationNotFound(ServiceError):
    """No such region."""

    code, status = 404, "NOT_FOUND"


class ResourceNotFound(ServiceError):
    """No such project, repository or bucket."""

    code, status = 404, "NOT_FOUND"


class ResourceExists(ServiceError):
    """A resource of this name exists."""

    code, status = 409, "ALREADY_EXISTS"


class AccessDenied(ServiceError):
    """The caller lacks a permission, or (401) is unknown."""

    code, status = 403, "PERMISSION_DENIED"


class NotTold(ServiceError):
    """The API of the service has no answer to such a question."""

    code, status = 501, "UNIMPLEMENTED"


class Throttled(ServiceError):
    """Asked too often; ``retry_after_seconds`` is the service's own wish, if it gave one."""

    code, status = 429, "RESOURCE_EXHAUSTED"

    def __init__(
        self,
        message: str,
        *,
        code: int | None = None,
        status: str = "",
        retry_after_seconds: float | None = None,
    ) -> None:
        self.retry_after_seconds = retry_after_seconds
        super().__init__(message, code=code, status=status)


class QuotaExceeded(ServiceError):
    """The request asks for more than the project may have; asking again does not help."""

    code, status = 429, "RESOURCE_EXHAUSTED"


class ServiceUnavailable(ServiceError):
    """The service is there but cannot answer now; also 500, 502 and 504."""

    code, status = 503, "UNAVAILABLE"


class TransportError(TrainingError):
    """The training service did not answer at all (refused, reset, timed out)."""


class PollTimeout(TrainingError):
    """A wait reached its own limit; the job was left as it is."""


class EngineError(TrainingError):
    """The Docker Engine refused a request."""

    cause: ClassVar[Cause] = Cause.ENGINE


class EngineUnavailable(EngineError):
    """The Docker Engine did not answer."""


class EngineBusy(EngineError):
    """The Docker Engine refuses for now: an internal error, a taken name, no free address."""


class ImageNotFound(EngineError):
    """The image does not exist, or may not be pulled."""

    cause = Cause.IMAGE


class ImageAccessDenied(ImageNotFound):
    """The image may not be pulled, whether it exists or not."""

    cause = Cause.ACCESS


class DiskFull(EngineError):
    """The engine's disk has no room."""

    cause = Cause.STORAGE


class CommandNotFound(EngineError):
    """The image has no such program, or it cannot be executed."""

    cause = Cause.COMMAND


class SecretUnusable(EngineError):
    """A secret cannot be set, or given to a container: it is missing, or breaks a rule."""

    cause = Cause.SECRET


class GpusTaken(EngineError):
    """Fewer GPUs are free than a container needs."""

    cause = Cause.QUOTA


class ImageError(TrainingError):
    """The caller's image could not be built, tested or pushed."""


class BuildContextMissing(ImageError):
    """The build context or its Dockerfile does not exist."""


class BuildFailed(ImageError):
    """A step of the Dockerfile failed; the message names the step."""


class BuildKitMissing(ImageError):
    """The build needs BuildKit, which this machine's command line or the engine does not have."""


class ImageTestFailed(ImageError):
    """The local test run exited non-zero or ran past its limit."""


class PreflightFailed(ImageError):
    """A check of the preflight failed, or it was cancelled; the message has the rows."""


class PushFailed(ImageError):
    """The registry refused the image."""


class RegistryUnavailable(ImageError):
    """The registry did not answer, also after the retries."""

    cause: ClassVar[Cause] = Cause.REGISTRY


class PackageInvalid(TrainingError):
    """
    A trainer's folder that cannot be packaged; building it again would not help.

    It is no package, cannot be built, or has no module of the name.
    """


class JobFailed(TrainingError):
    """
    The job ended as FAILED or CANCELLED.

    :param job_id: the job.
    :param state: how it ended.
    :param reason: the service's ``errorMessage``.
    """

    def __init__(self, job_id: str, state: str, reason: str) -> None:
        self.job_id = job_id
        self.state = state
        self.reason = reason
        super().__init__(f"job {job_id!r} ended as {state}: {reason or 'the service gave no reason'}")


class ResultsMissing(TrainingError):
    """The job succeeded, but its results (``metrics.json`` ...) are absent or unreadable."""


class InvalidArgument(TrainingError, ValueError):
    """An operator's argument that, once rendered, is not the number, flag or value it must be."""


class DataMissing(TrainingError):
    """A job is said to read what is not there; it would fail, and nothing could be compared."""


class ObjectChanged(TrainingError):
    """An object is not at the generation that the caller has seen; nothing was written."""


class DataInvalid(TrainingError):
    """Data that may not be trained on; the message has every check that failed."""


class ChampionMoved(TrainingError):
    """Another run changed the champion after this one read it; this run's decision is void."""


class ModelUnknown(TrainingError):
    """A model version that is not there."""


class EvaluationInvalid(TrainingError):
    """What an evaluation left cannot be compared."""


class RegistryMirrorFailed(TrainingError):
    """
    A registry that shows versions or the champion did not answer, or refused.

    Versions and champion themselves are as the message says.
    """


class InvalidPrice(TrainingError, ValueError):
    """Prices, or a limit of cost, cannot be read, or a machine type of the job has no price."""


class InvalidRetrainingLimit(TrainingError, ValueError):
    """How old models may become cannot be read."""


class CostLimitReached(TrainingError):
    """The job has cost as much as its wait allows, and was cancelled."""


class InvalidCommand(TrainingError, ValueError):
    """A command line that cannot be read, or is none that submits a training job."""


class InvalidPlan(TrainingError, ValueError):
    """A plan that cannot be read: no plan, of another version, or edited since it was made."""


class PlanIsStale(TrainingError):
    """
    What a plan was made from has changed, or it could not be carried out when it was made.

    :param reasons: what changed, a line each; at least one.
    """

    def __init__(self, reasons: Sequence[str]) -> None:
        self.reasons = tuple(reasons)
        super().__init__(
            "the plan is stale, and nothing was changed:\n"
            + "\n".join(f"  {reason}" for reason in self.reasons)
            + "\nplan again, look at the new plan, and apply that one"
        )
