"""``purge``: removes jobs that have ended from the database, or says which."""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from training_api.states import TERMINAL, JobState

if TYPE_CHECKING:
    import sqlalchemy as sa

    from training_service.store.ended.ended_jobs import Choice

_UNITS = {"h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}
#: What has just ended may still be written to: by collectors, and by the engine's clean-up.
_LEAST = timedelta(hours=1)


def add_command(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command to the parser's ``commands``."""
    parser = commands.add_parser(
        "purge", help="remove ended jobs with all that belongs to them; without --yes only say what would go"
    )
    parser.add_argument("--database-url", help="SQLAlchemy URL of the store; default: TRAINING_DATABASE_URL")
    parser.add_argument(
        "--older-than",
        type=_age,
        default=timedelta(days=90),
        metavar="AGE",
        help="only jobs that ended before: a number with h, d or w, 1h at least; default 90d",
    )
    parser.add_argument("--project", default="", help="only jobs of this project")
    parser.add_argument(
        "--state",
        type=str.upper,
        action="append",
        choices=sorted(TERMINAL),
        help="only jobs that ended so; may be given several times",
    )
    parser.add_argument("--yes", action="store_true", help="remove them; beside a running service, too")
    parser.add_argument(
        "--compact",
        action="store_true",
        help="with --yes: write a SQLite file anew, which gives all free space back; the service must be stopped",
    )
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    # A second of imports that the other commands do not need.
    import sqlalchemy as sa

    from training_service.locking import DatabaseInUse, hold_database
    from training_service.settings import ServiceSettings
    from training_service.store.database import open_database
    from training_service.store.ended.ended_jobs import Choice

    url = options.database_url or ServiceSettings().database_url
    choice = Choice(
        ended_before=datetime.now(UTC) - options.older_than,
        project=options.project,
        states=frozenset(JobState(state) for state in options.state or ()),
    )
    file = sa.make_url(url)
    if file.get_backend_name() == "sqlite" and not Path(file.database or "").is_file():
        print(
            f"error: there is no database at {file.database!r}; --database-url or TRAINING_DATABASE_URL names it",
            file=sys.stderr,
        )
        return 1
    try:
        if not options.compact:
            _purge(open_database(url), choice, is_meant=options.yes)
            return 0
        with hold_database(url):
            database = open_database(url)
            _purge(database, choice, is_meant=options.yes)
            if options.yes:
                _compact(database)
    except (DatabaseInUse, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _purge(database: sa.Engine, choice: Choice, *, is_meant: bool) -> None:
    from training_service.store.compaction import give_back, gives_back
    from training_service.store.ended.ended_jobs import EndedJobs
    from training_service.store.logs.log_sizes import log_amount
    from training_service.store.logs.log_store import LogStore
    from training_service.upkeep.tasks import remove_batch

    ended, logs = EndedJobs(database), LogStore(database)
    counts: Counter[str] = Counter()
    for batch in ended.batches(choice):
        counts.update(ended.count_rows(batch))
        for job in batch:
            entries, size = log_amount(database, job.project, job.job_id)
            counts.update({"log entries": entries, "bytes of log": size})
        if is_meant:
            for _ in remove_batch(ended, logs, batch):
                pass
    counts["pipelines"] = ended.count_pipelines(choice)
    if is_meant:
        for _ in ended.remove_pipelines(choice):
            pass
    found = ", ".join(f"{count} {kind.replace('_', ' ')}" for kind, count in counts.items() if count)
    if not is_meant:
        print(f"would remove {found}; --yes does it" if found else "nothing would go")
        return
    for _ in give_back(database):
        pass
    print(f"removed {found}" if found else "nothing was removed")
    if not gives_back(database):
        print(
            "the file keeps its size, as an earlier version made it: stop the service and run purge --yes --compact once",
            file=sys.stderr,
        )


def _compact(database: sa.Engine) -> None:
    from training_service.store.compaction import compact

    compact(database)
    print("the database is compact")


def _age(text: str) -> timedelta:
    found = re.fullmatch(r"(\d{1,5})([hdw])", text)
    if not found or (age := int(found[1]) * _UNITS[found[2]]) < _LEAST:
        raise argparse.ArgumentTypeError(
            f"an age is a number with h, d or w, like 90d, and 1h at least; got {text!r}"
        )
    return age
