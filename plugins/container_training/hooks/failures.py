"""How the project's errors end a task: some are worth a retry, the others say what to mend."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from airflow.sdk.exceptions import AirflowFailException

from container_training.hooks.importing import importing
from training_api.errors import InvalidJobSpec, TrainingError
from training_api.retrying import is_worth_a_retry


@contextmanager
def final_unless_transient() -> Iterator[None]:
    """
    Turn the project's errors into ``AirflowFailException``, which is never retried.

    Errors that may pass (``is_worth_a_retry``) go through as they are, so that Airflow's retries apply.
    The name of the error stays in front of the message.
    """
    try:
        yield
    except TrainingError as error:
        if is_worth_a_retry(error):
            raise
        text = _explained(error) if isinstance(error, InvalidJobSpec) else str(error)
        raise AirflowFailException(f"{type(error).__name__}: {text}") from error


def _explained(error: InvalidJobSpec) -> str:
    with importing():  # what describes jobs is a third of the imports of a DAG file that has none
        from container_training.work.submission.job_request import explained
    return explained(error)
