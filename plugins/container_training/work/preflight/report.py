"""What a preflight found: one row per check, and what each replica's end means. Without I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from container_training.work.preflight.cluster_agreement import VARIABLES, cluster_disagreements
from container_training.work.preflight.ends import describe_end
from training_api.job.cluster import ReplicaId
from training_api.job.results import ResultModel

#: How many lines of a failed replica's output its row shows.
SHOWN_LINES = 8
_TRACEBACK = "Traceback (most recent call last)"
#: A failed look-up of a key that the two variables contain.
_MISSING_KEY = re.compile(
    r"^KeyError: '(cluster|task|type|index|job|environment|chief|master|worker|ps|evaluator)'"
)


class Check(StrEnum):
    """What is checked, in the order of the table."""

    START = "start"  #: the entry point starts, and does not fail
    CLUSTER = "cluster variables"  #: CLUSTER_SPEC and TF_CONFIG are there, agree, and are read
    SIGTERM = "SIGTERM"  #: it ends the replica within the grace period
    JOB_DIR = "job directory"  #: it is writable
    ACCELERATORS = "GPUs"
    IMAGE_ACCESS = "image access"  #: the service's account may pull the images
    BUCKET = "bucket"  #: that of the job's folder exists, and the connection's account reaches it
    REGION = "machines"  #: the region has them
    QUOTA = "quota"  #: it is enough for the job


class Verdict(StrEnum):
    """How a check ended."""

    OK = "ok"
    FAILED = "failed"
    NOT_CHECKED = "not checked"


class PreflightRow(ResultModel):
    """
    One check.

    :param where: a replica, as its log lines name it (``worker-replica-0``), ``all replicas``, ``this
        worker``, or ``the trainer``; of what the service needs, an image, a bucket, or a region.
    """

    check: Check
    where: str
    result: Verdict
    why: str


class PreflightReport(ResultModel):
    """The table; ``ok`` unless a row has failed."""

    ok: bool
    rows: list[PreflightRow]

    @classmethod
    def of(cls, rows: Sequence[PreflightRow]) -> PreflightReport:
        """Return the report with ``rows`` in the order of their checks."""
        order = list(Check)
        ordered = sorted(rows, key=lambda row: order.index(row.check))
        return cls(ok=all(row.result is not Verdict.FAILED for row in rows), rows=ordered)

    @property
    def failed(self) -> list[PreflightRow]:
        """The rows that make it fail."""
        return [row for row in self.rows if row.result is Verdict.FAILED]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """The effect of a SIGTERM: ``seconds`` until the end; ``killed``: a SIGKILL was needed."""

    seconds: float
    killed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaOutcome:
    """
    What became of one replica.

    :param start_error: why it could not be started at all; then all that follows says nothing.
    :param exit_code: ``None``: the container was still running when the preflight stopped watching.
    :param ran_seconds: until its own end, or until the end of the watch.
    :param ended_at: when it ended by itself.
    :param memory_bytes: its limit; ``None``: no limit.
    :param environment: the container's environment.
    :param tail: the last lines of its output.
    :param stop: ``None``: it was never asked to end, or ended before that.
    """

    replica: ReplicaId
    hostname: str
    start_error: str = ""
    exit_code: int | None = None
    out_of_memory: bool = False
    ran_seconds: float = 0.0
    ended_at: datetime | None = None
    memory_bytes: int | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    tail: tuple[str, ...] = ()
    stop: Stop | None = None

    @property
    def has_failed(self) -> bool:
        """Whether it did not start, or failed by itself."""
        return bool(self.start_error or self.exit_code)


def replica_rows(outcomes: Sequence[ReplicaOutcome], grace_seconds: float) -> list[PreflightRow]:
    """
    Return the rows of all checks that are about replicas.

    Pure.

    :param grace_seconds: between SIGTERM and SIGKILL.
    """
    failed_at = [outcome.ended_at for outcome in outcomes if outcome.exit_code and outcome.ended_at]
    first = min(failed_at, default=None)
    rows: list[PreflightRow] = []
    for outcome in outcomes:
        rows += [_start_row(outcome, first), _sigterm_row(outcome, grace_seconds)]
    return [*rows, *_cluster_rows(outcomes)]


def _start_row(outcome: ReplicaOutcome, first_failure: datetime | None) -> PreflightRow:
    where = outcome.replica.task_name
    if outcome.start_error:
        return PreflightRow(check=Check.START, where=where, result=Verdict.FAILED, why=outcome.start_error)
    if outcome.exit_code:
        is_later = (
            first_failure is not None and outcome.ended_at is not None and outcome.ended_at > first_failure
        )
        after = "; another replica had failed before" if is_later else ""
        hint = cluster_hint(outcome.tail)
        end = describe_end(
            outcome.exit_code or 0,
            out_of_memory=outcome.out_of_memory,
            memory_bytes=outcome.memory_bytes,
            ran_seconds=outcome.ran_seconds,
        )
        why = f"{end}{after}{f'; {hint}' if hint else ''}{_tail_text(outcome.tail)}"
        check = Check.CLUSTER if hint else Check.START
        return PreflightRow(check=check, where=where, result=Verdict.FAILED, why=why)
    how = "ran for" if outcome.exit_code is None else "ended with 0 after"
    return PreflightRow(
        check=Check.START, where=where, result=Verdict.OK, why=f"{how} {outcome.ran_seconds:.1f} s"
    )


def _tail_text(tail: Sequence[str]) -> str:
    shown = [line for line in tail if line.strip()][-SHOWN_LINES:]
    return "; its last output:\n" + "\n".join(f"  {line}" for line in shown) if shown else "; no output"


def cluster_hint(tail: Sequence[str]) -> str:
    """
    Return a hint if a failed replica's output is about the cluster variables; else empty.

    Pure. Searches only Python's last traceback, for the variables' names and for their keys.
    """
    starts = [number for number, line in enumerate(tail) if line.startswith(_TRACEBACK)]
    if not starts:
        return ""
    traceback = tail[starts[-1] :]
    missing = next((match for line in traceback if (match := _MISSING_KEY.match(line))), None)
    if missing and missing[1] == "chief":
        return "it looks for 'chief' in the cluster: set useChiefInTfConfig, or take 'master' too"
    if missing:
        return f"it looks for {missing[1]!r}, which its CLUSTER_SPEC or TF_CONFIG may lack"
    named = [variable for variable in VARIABLES if any(variable in line for line in traceback)]
    return f"its traceback is about {' and '.join(named)}" if named else ""


def _sigterm_row(outcome: ReplicaOutcome, grace_seconds: float) -> PreflightRow:
    where, stop = outcome.replica.task_name, outcome.stop
    if stop is None:
        why = "it did not run" if outcome.has_failed else "it had ended before it was asked to"
        return PreflightRow(check=Check.SIGTERM, where=where, result=Verdict.NOT_CHECKED, why=why)
    if stop.killed:
        why = (
            f"SIGTERM did not end it within {grace_seconds:g} s: a job that is cancelled or done will kill it, with what"
            " it has not written yet; handle SIGTERM, or let your program be the entry point"
        )
        return PreflightRow(check=Check.SIGTERM, where=where, result=Verdict.FAILED, why=why)
    return PreflightRow(
        check=Check.SIGTERM, where=where, result=Verdict.OK, why=f"ended {stop.seconds:.1f} s after it"
    )


def _cluster_rows(outcomes: Sequence[ReplicaOutcome]) -> list[PreflightRow]:
    """Return the rows about the variables themselves, whether or not the trainer reads them."""
    started = {outcome.replica: outcome for outcome in outcomes if not outcome.start_error}
    if not started:
        return []
    problems = cluster_disagreements(
        {replica: outcome.environment for replica, outcome in started.items()},
        {replica: outcome.hostname for replica, outcome in started.items()},
    )
    where = "all replicas"
    if problems:
        return [
            PreflightRow(check=Check.CLUSTER, where=where, result=Verdict.FAILED, why=problem)
            for problem in problems
        ]
    count = f"{len(started)} replica{'s' if len(started) > 1 else ''}"
    return [
        PreflightRow(
            check=Check.CLUSTER,
            where=where,
            result=Verdict.OK,
            why=f"{' and '.join(VARIABLES)} of {count} can be read and agree",
        )
    ]
