"""The tables of the service's database."""

from __future__ import annotations

import sqlalchemy as sa

metadata = sa.MetaData()
#: SQLite grows a rowid only for INTEGER keys, PostgreSQL wants BIGINT.
_BigKey = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

meta = sa.Table(
    "meta",
    metadata,
    sa.Column("key", sa.String(64), primary_key=True),
    sa.Column("value", sa.Text, nullable=False),
)

jobs = sa.Table(
    "jobs",
    metadata,
    sa.Column("sequence", _BigKey, primary_key=True, autoincrement=True),
    sa.Column("uid", sa.String(32), nullable=False, unique=True),
    sa.Column("project", sa.String(128), nullable=False),
    sa.Column("job_id", sa.String(128), nullable=False),
    sa.Column("labels", sa.JSON, nullable=False),
    # As it was sent: what the API shows. What runs is in spec.
    sa.Column("training_input", sa.JSON, nullable=False),
    sa.Column("spec", sa.JSON, nullable=False, server_default="{}"),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("priority", sa.Integer, nullable=False),
    sa.Column("created_us", sa.BigInteger, nullable=False),
    sa.Column("preparing_us", sa.BigInteger),
    sa.Column("running_us", sa.BigInteger),
    sa.Column("ended_us", sa.BigInteger),
    # From when on a job that has not started has waited too long; NULL: it may wait for ever.
    sa.Column("waits_until_us", sa.BigInteger),
    sa.Column("error_message", sa.Text, nullable=False, default=""),
    # What programs read of the reason, beside the message for people.
    sa.Column("reason", sa.JSON, nullable=False, server_default="{}"),
    sa.Column("images", sa.JSON, nullable=False, server_default="{}"),
    sa.Column("attempts", sa.JSON, nullable=False, server_default="{}"),
    sa.Column("outcome", sa.String(16), nullable=False, server_default=""),
    sa.Column("version", sa.Integer, nullable=False, default=1),
    # A trial is a row of its own, which the API's list does not show: its job_id is one that no job can have.
    sa.Column("study_uid", sa.String(32), nullable=False, server_default=""),
    sa.Column("trial", sa.JSON, nullable=False, server_default="{}"),
    sa.UniqueConstraint("project", "job_id"),
)
#: Not a trial. Written out, without a parameter: only so do the indices below serve.
is_job = jobs.c.study_uid == sa.literal_column("''")
# The list of a project, and of those in one state, newest first.
for _name, _columns in {
    "whole_jobs_by_time": (jobs.c.project, jobs.c.created_us, jobs.c.sequence),
    "whole_jobs_by_state_and_time": (jobs.c.project, jobs.c.state, jobs.c.created_us, jobs.c.sequence),
    # What has changed of late, for those who wait for many.
    "whole_jobs_by_start": (jobs.c.project, jobs.c.running_us),
    "whole_jobs_by_end": (jobs.c.project, jobs.c.ended_us),
    # The queue in its order, and the number of jobs by state.
    "whole_jobs_in_queue": (jobs.c.state, jobs.c.priority.desc(), jobs.c.sequence),
}.items():
    sa.Index(_name, *_columns, sqlite_where=is_job, postgresql_where=is_job)
sa.Index("trials_by_study_and_state", jobs.c.study_uid, jobs.c.state)
#: What has not ended, jobs and trials alike.
sa.Index("jobs_by_state_and_sequence", jobs.c.state, jobs.c.sequence)

#: IAM policies by resource name; a resource without a row has the empty policy.
policies = sa.Table(
    "policies",
    metadata,
    sa.Column("resource", sa.String(512), primary_key=True),
    sa.Column("policy", sa.JSON, nullable=False),
    sa.Column("version", sa.Integer, nullable=False),
)

log_entries = sa.Table(
    "log_entries",
    metadata,
    sa.Column("id", _BigKey, primary_key=True, autoincrement=True),
    sa.Column("project", sa.String(128), nullable=False),
    sa.Column("job_id", sa.String(128), nullable=False),
    sa.Column("task_name", sa.String(64), nullable=False),
    sa.Column("trial_id", sa.String(16), nullable=False, default=""),
    sa.Column("insert_id", sa.String(64), nullable=False),
    sa.Column("timestamp_us", sa.BigInteger, nullable=False),
    sa.Column("received_us", sa.BigInteger, nullable=False),
    sa.Column("severity", sa.String(16), nullable=False),
    sa.Column("text_payload", sa.Text),
    sa.Column("json_payload", sa.JSON(none_as_null=True)),
    sa.UniqueConstraint("project", "job_id", "task_name", "insert_id"),
    sa.Index("log_entries_by_time", "project", "job_id", "timestamp_us", "insert_id"),
    sa.Index("log_entries_by_arrival", "project", "job_id", "received_us"),
)

#: What trials reported. A source is one stream of reports of a job: a run of its master, or a summary file.
measurements = sa.Table(
    "measurements",
    metadata,
    sa.Column("id", _BigKey, primary_key=True, autoincrement=True),
    sa.Column("job_uid", sa.String(32), nullable=False),
    sa.Column("source", sa.String(512), nullable=False),
    sa.Column("sequence", sa.BigInteger, nullable=False),
    sa.Column("tag", sa.String(256), nullable=False),
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
    sa.Column("job_uid", sa.String(32), nullable=False),
    sa.Column("kind", sa.String(16), nullable=False),
    sa.Column("name", sa.String(512), nullable=False),
    sa.Column("attempt", sa.String(16), nullable=False),
    sa.Column("started_us", sa.BigInteger, nullable=False),
    sa.Column("ended_us", sa.BigInteger),
    sa.Column("exit_code", sa.Integer),
    sa.Column("out_of_memory", sa.Boolean, nullable=False, default=False),
    # Of a pull: the image that came, by digest.
    sa.Column("pinned", sa.Text, nullable=False, server_default=""),
    sa.UniqueConstraint("job_uid", "kind", "name", "attempt"),
)

#: What replicas used: cores on average since the sample before, and bytes.
usage_samples = sa.Table(
    "usage_samples",
    metadata,
    sa.Column("id", _BigKey, primary_key=True, autoincrement=True),
    sa.Column("job_uid", sa.String(32), nullable=False),
    sa.Column("task_name", sa.String(64), nullable=False),
    sa.Column("sampled_us", sa.BigInteger, nullable=False),
    sa.Column("cpu_cores", sa.Double, nullable=False),
    sa.Column("memory_bytes", sa.BigInteger, nullable=False),
    sa.Index("usage_samples_by_job", "job_uid", "id"),
)

#: What replicas with GPUs used of them at the same moment: GPUs that were busy, and bytes of their memory.
gpu_samples = sa.Table(
    "gpu_samples",
    metadata,
    sa.Column("job_uid", sa.String(32), primary_key=True),
    sa.Column("task_name", sa.String(64), primary_key=True),
    sa.Column("sampled_us", sa.BigInteger, primary_key=True),
    sa.Column("gpus", sa.Double, nullable=False),
    sa.Column("memory_bytes", sa.BigInteger, nullable=False),
)
