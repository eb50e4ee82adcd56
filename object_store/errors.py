"""What the store refuses, with the status and the reason of Cloud Storage's JSON API."""

from __future__ import annotations

from http import HTTPStatus


class StoreError(Exception):
    """
    A request is refused.

    :param status: of HTTP.
    :param reason: Cloud Storage's word for it, such as ``notFound``.
    :param message: what is wrong, the rule, and the way out.
    """

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.message = message
        #: Of the answer, beside those that all refusals have.
        self.headers: dict[str, str] = {}

    def body(self) -> dict[str, object]:
        """Return the answer's JSON body."""
        errors = [{"message": self.message, "domain": "global", "reason": self.reason}]
        return {"error": {"code": self.status, "message": self.message, "errors": errors}}


class NoSuchRange(StoreError):
    """No byte of what is wanted is there; the answer says how many there are."""

    def __init__(self, wanted: str, size: int) -> None:
        super().__init__(
            HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE,
            "requestedRangeNotSatisfiable",
            f"Request range not satisfiable: {wanted[:60]} of {size} bytes",
        )
        self.headers = {"content-range": f"bytes */{size}"}


class NotFound(StoreError):
    """A bucket, an object, a generation or an upload that is not there."""

    def __init__(self, message: str) -> None:
        super().__init__(HTTPStatus.NOT_FOUND, "notFound", message)

    @classmethod
    def of_bucket(cls, bucket: str) -> NotFound:
        """Return the error for a bucket that does not exist."""
        return cls(f"bucket {bucket!r} does not exist; gcloud storage buckets create makes it")

    @classmethod
    def of_object(cls, bucket: str, name: str, generation: int | None = None) -> NotFound:
        """Return the error for an object, or for one generation of it."""
        which = "" if generation is None else f", generation {generation}"
        return cls(f"No such object: {bucket}/{name}{which}")


class Invalid(StoreError):
    """A value that is not allowed."""

    def __init__(self, message: str) -> None:
        super().__init__(HTTPStatus.BAD_REQUEST, "invalid", message)


class Conflict(StoreError):
    """It exists already, or it is in use."""

    def __init__(self, message: str) -> None:
        super().__init__(HTTPStatus.CONFLICT, "conflict", message)


class Forbidden(StoreError):
    """The caller may not do that."""

    def __init__(self, message: str) -> None:
        super().__init__(HTTPStatus.FORBIDDEN, "forbidden", message)


class NotServed(StoreError):
    """Cloud Storage has it, this store does not."""

    def __init__(self, what: str) -> None:
        super().__init__(
            HTTPStatus.NOT_IMPLEMENTED,
            "notImplemented",
            f"this object store does not serve {what}; Cloud Storage itself does",
        )


class ConditionNotMet(StoreError):
    """
    The object is not as the request wants it.

    :param is_unchanged: a ``...NotMatch`` of a read: the reader has the contents already (304, not 412).
    """

    def __init__(self, condition: str, wanted: int, found: int, *, is_unchanged: bool = False) -> None:
        status = HTTPStatus.NOT_MODIFIED if is_unchanged else HTTPStatus.PRECONDITION_FAILED
        super().__init__(
            status,
            "conditionNotMet",
            "At least one of the pre-conditions you specified did not hold: "
            f"{condition} is {wanted}, the object's is {found}",
        )


class NoRoom(StoreError):
    """The disk is nearly full."""

    def __init__(self, free: int, floor: int) -> None:
        super().__init__(
            HTTPStatus.INSUFFICIENT_STORAGE,
            "insufficientStorage",
            f"the disk of the object store has {free} bytes left, its floor is {floor}: nothing is written; "
            "delete objects, or start the store with a lower --floor-bytes",
        )
