"""How the project's errors end a task: some are worth a retry, the others say what to mend."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from airflow.sdk.exceptions import AirflowFailException

from container_training.core.errors import TrainingError
from container_training.core.retrying import TRANSIENT


@contextmanager
def final_unless_transient() -> Iterator[None]:
    """
    Turn the project's errors into ``AirflowFailException``, which is never retried.

    Errors that may pass by themselves (:data:`TRANSIENT`) go through as they are, so that Airflow's retries apply.
    The name of the error stays in front of the message.
    """
    try:
        yield
    except TRANSIENT:
        raise
    except TrainingError as error:
        raise AirflowFailException(f"{type(error).__name__}: {error}") from error
