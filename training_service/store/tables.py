"""The tables of the service's database."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from training_api.states import JobState
from training_service.store.plain_text import plain_text


class Text(sa.TypeDecorator[str]):
    """
    Text of any length that every database takes, ordered by code points.

    PostgreSQL would limit a ``VARCHAR(n)``, which SQLite does not, and order text by the database's language.
    """

    impl = sa.Text
    cache_ok = True

    def load_dialect_impl(self, dialect: sa.Dialect) -> Any:
        """Return the type of the database."""
        return dialect.type_descriptor(sa.Text(collation="C" if dialect.name == "postgresql" else None))

    def process_bind_param(self, value: str | None, dialect: sa.Dialect) -> str | None:
        """Return what is sent to the database."""
        return None if value is None else plain_text(value)


metadata = sa.MetaData()
#: SQLite grows a rowid only for INTEGER keys, PostgreSQL wants BIGINT.
_BigKey = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

meta = sa.Table(
    "meta",
    metadata,
    sa.Column("key", Text, primary_key=True),
    sa.Column("value", Text, nullable=False),
)

#: Numbers that only grow, and that several services share.
counters = sa.Table(
    "counters",
    metadata,
    sa.Column("name", Text, primary_key=True),
    sa.Column("value", sa.BigInteger, nullable=False),
)

#: One row: which service moves the jobs. Its key is the token, so that only a takeover waits for its check.
leadership = sa.Table(
    "leadership",
    metadata,
    sa.Column("token", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("holder", Text, nullable=False),
    sa.Column("renewed_at", sa.DateTime(timezone=True), nullable=False),
)

jobs = sa.Table(
    "jobs",
    metadata,
    sa.Column("sequence", _BigKey, primary_key=True, autoincrement=True),
    sa.Column("uid", Text, nullable=False, unique=True),
    sa.Column("project", Text, nullable=False),
    sa.Column("job_id", Text, nullable=False),
    sa.Column("labels", sa.JSON, nullable=False),
    # In which dialect of the API the job was asked for, and the request as it was sent: the API shows it.
    # What runs is in spec.
    sa.Column("dialect", Text, nullable=False, server_default="ml_v1"),
    sa.Column("request", sa.JSON, nullable=False),
    sa.Column("spec", sa.JSON, nullable=False, server_default="{}"),
    sa.Column("state", Text, nullable=False),
    sa.Column("priority", sa.Integer, nullable=False),
    sa.Column("created_us", sa.BigInteger, nullable=False),
    sa.Column("preparing_us", sa.BigInteger),
    sa.Column("running_us", sa.BigInteger),
    sa.Column("ended_us", sa.BigInteger),
    # When a job that has not started has waited too long; NULL: it may wait for ever.
    sa.Column("waits_until_us", sa.BigInteger),
    sa.Column("error_message", Text, nullable=False, default=""),
    # The reason for programs, beside the message for people.
    sa.Column("reason", sa.JSON, nullable=False, server_default="{}"),
    sa.Column("images", sa.JSON, nullable=False, server_default="{}"),
    sa.Column("attempts", sa.JSON, nullable=False, server_default="{}"),
    sa.Column("outcome", Text, nullable=False, server_default=""),
    sa.Column("version", sa.Integer, nullable=False, default=1),
    # A trial is a row, too, which the API's list does not show: no job can have its job_id.
    sa.Column("study_uid", Text, nullable=False, server_default=""),
    sa.Column("trial", sa.JSON, nullable=False, server_default="{}"),
    sa.UniqueConstraint("project", "job_id"),
)
#: Not a trial. Written without a parameter: only so can the indices below be used.
is_job = jobs.c.study_uid == sa.literal_column("''")
#: A trial. A query of a study's trials must contain it, or it does not use their index.
is_trial = jobs.c.study_uid > sa.literal_column("''")


def is_of(job_uid: str) -> sa.ColumnElement[bool]:
    """Return the condition that a row is the job, or a trial of it."""
    return sa.or_(jobs.c.uid == job_uid, sa.and_(is_trial, jobs.c.study_uid == job_uid))


is_queued = jobs.c.state == sa.literal_column(f"'{JobState.QUEUED}'")
# The list of a project, and of those in one state, newest first.
for _name, _columns in {
    "whole_jobs_by_time": (jobs.c.project, jobs.c.created_us, jobs.c.sequence),
    "whole_jobs_by_state_and_time": (jobs.c.project, jobs.c.state, jobs.c.created_us, jobs.c.sequence),
    # Recent changes, for clients that wait for many jobs.
    "whole_jobs_by_start": (jobs.c.project, jobs.c.running_us),
    "whole_jobs_by_end": (jobs.c.project, jobs.c.ended_us),
    # The queue in its order, and the number of jobs by state.
    "whole_jobs_in_queue": (jobs.c.state, jobs.c.priority.desc(), jobs.c.sequence),
}.items():
    sa.Index(_name, *_columns, sqlite_where=is_job, postgresql_where=is_job)
# What the loop, and people who watch it, look for among waiting jobs.
for _name, _column, _which in (
    ("queued_jobs_by_limit", jobs.c.waits_until_us, is_job),
    ("queued_jobs_by_time", jobs.c.created_us, is_job),
    ("queued_trials", jobs.c.study_uid, is_trial),
):
    _queued = sa.and_(_which, is_queued)
    sa.Index(_name, jobs.c.state, _column, sqlite_where=_queued, postgresql_where=_queued)
# Of trials only: SQLite would use it for jobs, too, by its number of common columns.
sa.Index("trials_by_study", jobs.c.study_uid, jobs.c.state, sqlite_where=is_trial, postgresql_where=is_trial)
#: Active jobs and trials.
sa.Index("jobs_by_state_and_sequence", jobs.c.state, jobs.c.sequence)

#: Ended jobs and trials, in the order of their end.
sa.Index("jobs_by_end", jobs.c.ended_us, jobs.c.sequence)

#: What asked for a job as a step towards a model. It is written with its job, and outlives it.
pipelines = sa.Table(
    "pipelines",
    metadata,
    sa.Column("sequence", _BigKey, primary_key=True, autoincrement=True),
    sa.Column("project", Text, nullable=False),
    sa.Column("location", Text, nullable=False),
    sa.Column("pipeline_id", Text, nullable=False),
    sa.Column("request", sa.JSON, nullable=False),
    sa.Column("job_uid", Text, nullable=False, unique=True),
    sa.Column("job_id", Text, nullable=False),
    # The model that is there once the job has succeeded; an empty id: none.
    sa.Column("model_id", Text, nullable=False),
    sa.Column("model", sa.JSON, nullable=False),
    sa.Column("created_us", sa.BigInteger, nullable=False),
    # How the job ended, written with its end; before, its own row says how far it is.
    sa.Column("state", Text, nullable=False, server_default=""),
    sa.Column("started_us", sa.BigInteger),
    sa.Column("ended_us", sa.BigInteger),
    sa.Column("error_message", Text, nullable=False, server_default=""),
    sa.Column("reason", sa.JSON, nullable=False, server_default="{}"),
    sa.UniqueConstraint("project", "pipeline_id"),
    sa.Index("pipelines_by_location", "project", "location", "sequence"),
    sa.Index("pipelines_by_end", "ended_us"),
)

#: The models of pipelines that succeeded, and those that clients uploaded: each is there until it is deleted.
models = sa.Table(
    "models",
    metadata,
    sa.Column("sequence", _BigKey, primary_key=True, autoincrement=True),
    sa.Column("project", Text, nullable=False),
    sa.Column("location", Text, nullable=False),
    sa.Column("model_id", Text, nullable=False),
    # Empty: a client uploaded it.
    sa.Column("pipeline_id", Text, nullable=False),
    sa.Column("model", sa.JSON, nullable=False),
    sa.Column("created_us", sa.BigInteger, nullable=False),
    sa.UniqueConstraint("project", "model_id"),
    sa.Index("models_by_location", "project", "location", "sequence"),
)

#: IAM policies by resource name; a resource without a row has the empty policy.
policies = sa.Table(
    "policies",
    metadata,
    sa.Column("resource", Text, primary_key=True),
    sa.Column("policy", sa.JSON, nullable=False),
    sa.Column("version", sa.Integer, nullable=False),
)

#: Jobs that have written to a log, and how much: bytes of text, which a removal does not reduce.
log_jobs = sa.Table(
    "log_jobs",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("project", Text, nullable=False),
    sa.Column("job_id", Text, nullable=False),
    sa.Column("text_bytes", sa.BigInteger, nullable=False),
    sa.UniqueConstraint("project", "job_id"),
)
#: Who wrote the lines: a container, or the service itself (no container, as for lines from before version 6).
log_streams = sa.Table(
    "log_streams",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("log_job", sa.Integer, nullable=False),
    sa.Column("task_name", Text, nullable=False),
    sa.Column("trial_id", Text, nullable=False),
    sa.Column("container", Text, nullable=False),
    # How far it is stored: the engine's time of the newest line, -1: none, and when the last line was stored.
    sa.Column("newest_ns", sa.BigInteger, nullable=False),
    sa.Column("received_us", sa.BigInteger, nullable=False),
    sa.UniqueConstraint("log_job", "task_name", "trial_id", "container"),
)
#: The lines. Names are stored once, in the stream, and not in each of millions of rows and their indices: see
#: docs/adr/0026. The insert id is (timestamp, offset_ns, place, suffix): ``insert_ids.py``. Wide columns come
#: first, so that PostgreSQL needs no padding.
log_lines = sa.Table(
    "log_lines",
    metadata,
    sa.Column("received_us", _BigKey, primary_key=True, autoincrement=False),
    sa.Column("timestamp_us", sa.BigInteger, nullable=False),
    sa.Column("offset_ns", sa.BigInteger, nullable=False),
    sa.Column("log_job", sa.Integer, nullable=False),
    sa.Column("stream", sa.Integer, nullable=False),
    sa.Column("place", sa.Integer, nullable=False),
    sa.Column("severity", sa.SmallInteger, nullable=False),
    sa.Column("suffix", Text, nullable=False),
    sa.Column("text_payload", Text),
    sa.Column("json_payload", sa.JSON(none_as_null=True)),
)
#: The order of a page, and the identity of a line: storing it again changes nothing.
log_order = tuple(log_lines.c[name] for name in ("timestamp_us", "offset_ns", "place", "stream", "suffix"))
sa.Index("log_lines_by_time", log_lines.c.log_job, *log_order, unique=True)
sa.Index("log_lines_by_arrival", log_lines.c.log_job, log_lines.c.received_us)

#: By the labels of jobs, when one of a DAG and model last succeeded; empty texts stand for no label.
last_successes = sa.Table(
    "last_successes",
    metadata,
    sa.Column("dag", Text, primary_key=True),
    sa.Column("model", Text, primary_key=True),
    sa.Column("ended_us", sa.BigInteger, nullable=False),
    sa.Index("last_successes_by_time", "ended_us"),
)

#: What trials reported. A source is one stream of a job's reports: a run of its master, or a summary file.
measurements = sa.Table(
    "measurements",
    metadata,
    sa.Column("id", _BigKey, primary_key=True, autoincrement=True),
    sa.Column("job_uid", Text, nullable=False),
    sa.Column("source", Text, nullable=False),
    sa.Column("sequence", sa.BigInteger, nullable=False),
    sa.Column("tag", Text, nullable=False),
    sa.Column("step", sa.BigInteger, nullable=False),
    sa.Column("value", sa.Double),  # NULL: not a number, which SQLite cannot store otherwise
    sa.Column("reported_us", sa.BigInteger, nullable=False),
    sa.UniqueConstraint("job_uid", "source", "sequence"),
    sa.Index("measurements_by_tag", "job_uid", "tag", "id"),
    sa.Index("measurements_by_job", "job_uid", "id"),
)

#: What took a job's time: pulls of images, and runs of replicas.
spans = sa.Table(
    "spans",
    metadata,
    sa.Column("id", _BigKey, primary_key=True, autoincrement=True),
    sa.Column("job_uid", Text, nullable=False),
    sa.Column("kind", Text, nullable=False),
    sa.Column("name", Text, nullable=False),
    sa.Column("attempt", Text, nullable=False),
    sa.Column("started_us", sa.BigInteger, nullable=False),
    sa.Column("ended_us", sa.BigInteger),
    sa.Column("exit_code", sa.Integer),
    sa.Column("out_of_memory", sa.Boolean, nullable=False, default=False),
    # Of a pull: the pulled image, by digest.
    sa.Column("pinned", Text, nullable=False, server_default=""),
    sa.UniqueConstraint("job_uid", "kind", "name", "attempt"),
)

#: What replicas used: cores on average since the sample before, and bytes.
usage_samples = sa.Table(
    "usage_samples",
    metadata,
    sa.Column("id", _BigKey, primary_key=True, autoincrement=True),
    sa.Column("job_uid", Text, nullable=False),
    sa.Column("task_name", Text, nullable=False),
    sa.Column("sampled_us", sa.BigInteger, nullable=False),
    sa.Column("cpu_cores", sa.Double, nullable=False),
    sa.Column("memory_bytes", sa.BigInteger, nullable=False),
    sa.Index("usage_samples_by_job", "job_uid", "id"),
)

#: Usage of GPUs at the same moment: GPUs that were busy, and bytes of their memory.
gpu_samples = sa.Table(
    "gpu_samples",
    metadata,
    sa.Column("job_uid", Text, primary_key=True),
    sa.Column("task_name", Text, primary_key=True),
    sa.Column("sampled_us", sa.BigInteger, primary_key=True),
    sa.Column("gpus", sa.Double, nullable=False),
    sa.Column("memory_bytes", sa.BigInteger, nullable=False),
)

#: Images that this service has pulled onto the engine, by reference, and when a job last used them.
pulled_images = sa.Table(
    "pulled_images",
    metadata,
    sa.Column("reference", sa.String(512), primary_key=True),
    sa.Column("used_us", sa.BigInteger, nullable=False),
)

#: What a job is refused, by kind of work: how long it has been retried, and why it was refused.
refusals = sa.Table(
    "refusals",
    metadata,
    sa.Column("job_uid", Text, primary_key=True),
    sa.Column("work", Text, primary_key=True),
    sa.Column("lasted_us", sa.BigInteger, nullable=False),
    sa.Column("last_us", sa.BigInteger, nullable=False),
    sa.Column("reasons", sa.JSON, nullable=False),
)

#: Who did what, and who was refused: the audit log, apart from the logs of jobs.
audit_entries = sa.Table(
    "audit_entries",
    metadata,
    sa.Column("id", _BigKey, primary_key=True, autoincrement=True),
    sa.Column("at_us", sa.BigInteger, nullable=False),
    sa.Column("project", Text, nullable=False),
    sa.Column("failed", sa.Boolean, nullable=False),
    sa.Column("payload", sa.JSON, nullable=False),
    sa.Index("audit_entries_by_project", "project", "id"),
    # Upkeep removes the oldest; the id of one that was removed must not come again.
    sqlite_autoincrement=True,
)
