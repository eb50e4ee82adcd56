"""The end of a failed replica's standard error, for the ``error`` of its job."""

from __future__ import annotations

from training_api.cloud_logging import TRIAL_LABEL
from training_api.dialects.vertex_v1.errors_of_jobs import IN_THE_LOG
from training_api.dialects.vertex_v1.failure_words import replica_name
from training_api.states import JobState
from training_service.model.records import JobRecord
from training_service.store.logs.log_store import LogStore

#: The real service cuts long ones, too, with the same mark [contract D; where it cuts is not known].
MAX_LINES, MAX_CHARACTERS = 40, 2000
_CUT = "[...]"


class ErrorTail:
    """
    Reads the ends of logs; safe for threads.

    A line of standard error has the severity ERROR, unless it is JSON and says another one.
    """

    def __init__(self, logs: LogStore) -> None:
        self._logs = logs

    def of(self, record: JobRecord) -> str:
        """
        Return the last lines of the replica that is to blame; empty: there are none to show.

        Nothing of a job that has secrets: its trainer may have printed them, and who may read the job may not
        be one who may read its log.
        """
        reason = record.reason
        if record.state is not JobState.FAILED or reason is None or reason.cause not in IN_THE_LOG:
            return ""
        blamed = [each.replica for each in record.spec.replicas if str(each.replica) == reason.replica]
        if not blamed or record.spec.secrets:
            return ""
        # The log of a tuning job has the lines of all its trials.
        of_trial = f' AND labels."{TRIAL_LABEL}"="{record.trial_id}"' if record.trial else ""
        entries, _ = self._logs.list_page(
            projects=[record.spec.project],
            filter_text=(
                f'resource.labels.job_id="{record.spec.job_id}" AND severity>=ERROR '
                f'AND resource.labels.task_name="{replica_name(blamed[0])}"{of_trial}'
            ),
            page_size=MAX_LINES + 1,
            descending=True,
        )
        lines = [entry.message for entry in reversed(entries)]
        text = "\n".join(lines[-MAX_LINES:])
        is_whole = len(lines) <= MAX_LINES and len(text) <= MAX_CHARACTERS
        return text if is_whole else f"{_CUT}\n{text[-MAX_CHARACTERS:]}"
