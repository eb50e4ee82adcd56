"""What the one poller of many waits asks, and when."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from container_training.work.waiting.roster import (
    ALL_BY_ID,
    PAGE_SIZE,
    SLOWEST_SECONDS,
    Question,
    Roster,
    log_pause_seconds,
)
from training_api.dialects.ml_v1.resources import Job
from training_api.filtering import Or, parse_filter
from training_api.states import JobState

NOON = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)


def job(job_id: str, state: JobState = JobState.QUEUED, **times: datetime) -> Job:
    return Job(job_id=job_id, state=state, create_time=times.pop("created", NOON), **times)  # type: ignore[arg-type]


def roster_of(count: int, interval: float = 1.0) -> Roster:
    roster = Roster()
    for place in range(count):
        roster.join(f"job_{place:04d}", interval, now=0.0)
    return roster


def look_at_all(roster: Roster, now: float = 0.0) -> int:
    """Ask until no newcomer is left; return how many questions that took."""
    questions = 0
    while roster.has_newcomers:
        question = roster.question(now)
        roster.take(question, [job(job_id) for job_id in question.job_ids], now)
        questions += 1
    return questions


def test_a_few_jobs_are_all_asked_for_by_id() -> None:
    roster = roster_of(3)
    look_at_all(roster)

    question = roster.question(1.0)

    assert question.filter == 'jobId="job_0000" OR jobId="job_0001" OR jobId="job_0002"'
    assert question.job_ids == ("job_0000", "job_0001", "job_0002")


def test_thousands_of_newcomers_are_looked_at_in_pages_and_then_in_one_question() -> None:
    roster = roster_of(5000)

    assert look_at_all(roster) == -(-5000 // ALL_BY_ID)
    question = roster.question(1.0)
    tree = parse_filter(question.filter)
    assert isinstance(tree, Or)
    assert len(question.job_ids) < PAGE_SIZE
    assert len(question.filter) < 7_000


def test_of_many_those_are_asked_for_that_changed_since_the_look_before() -> None:
    roster = roster_of(ALL_BY_ID + 1)
    look_at_all(roster, now=100.0)
    quiet = roster.question(160.0)
    roster.take(quiet, [], now=160.0)

    question = roster.question(161.0)

    # The service's clock showed noon at 100, so at 160 it was at least a minute past; two seconds are for
    # what is late.
    since = "2026-11-20T12:00:58.000000Z"
    assert f'startTime>="{since}" OR endTime>="{since}"' in question.filter
    assert "state=CANCELLING OR state=PREPARING" in question.filter


def test_a_failed_look_does_not_move_the_time_on() -> None:
    roster = roster_of(ALL_BY_ID + 1)
    look_at_all(roster, now=100.0)
    unanswered = roster.question(200.0)

    assert "12:00:00" not in unanswered.filter
    assert roster.question(300.0).filter.count("11:59:58") == 2


def test_every_job_is_looked_at_again_and_again_however_quiet_it_is() -> None:
    roster = roster_of(1000)
    look_at_all(roster)
    seen: set[str] = set()

    for second in range(1, 51):
        question = roster.question(float(second))
        roster.take(question, [job(job_id) for job_id in question.job_ids], float(second))
        seen.update(question.job_ids)

    assert len(seen) == 1000


def test_jobs_that_run_are_looked_at_more_often_than_those_that_wait() -> None:
    roster = roster_of(1000)
    look_at_all(roster)
    roster.take(
        Question(filter="", job_ids=(), asked_at=0.0),
        [job(f"job_{place:04d}", JobState.RUNNING) for place in range(40)],
        0.5,
    )
    counts = dict.fromkeys((f"job_{place:04d}" for place in range(1000)), 0)

    for second in range(1, 21):
        question = roster.question(float(second))
        states = {f"job_{place:04d}": JobState.RUNNING for place in range(40)}
        roster.take(
            question,
            [job(name, states.get(name, JobState.QUEUED)) for name in question.job_ids],
            float(second),
        )
        for name in question.job_ids:
            counts[name] += 1

    assert min(counts[f"job_{place:04d}"] for place in range(40)) >= 9
    assert max(counts[f"job_{place:04d}"] for place in range(40, 1000)) <= 1


def test_an_answer_tells_what_changed_once_and_what_is_missing() -> None:
    roster = roster_of(2)
    first = roster.question(0.0)

    news = roster.take(first, [job("job_0000"), job("a_strangers")], 0.1)
    again = roster.take(roster.question(1.0), [job("job_0000")], 1.1)
    moved = roster.take(roster.question(2.0), [job("job_0000", JobState.RUNNING)], 2.1)

    assert [each.job_id for each in news.changed] == ["job_0000"]
    assert news.missing == ("job_0001",)
    assert again.changed == ()
    assert [each.state for each in moved.changed] == [JobState.RUNNING]


def test_who_joins_a_job_that_is_watched_already_hears_of_it_at_the_next_look() -> None:
    roster = roster_of(1)
    look_at_all(roster)
    roster.join("job_0000", 1.0, now=5.0)

    news = roster.take(roster.question(5.0), [job("job_0000")], 5.1)
    roster.leave("job_0000", 1.0)

    assert len(news.changed) == 1
    assert len(roster) == 1


@pytest.mark.parametrize(
    ("state", "age", "pause"),
    [
        (JobState.PREPARING, 3600.0, 1.0),
        (JobState.CANCELLING, 3600.0, 1.0),
        (JobState.RUNNING, 10.0, 1.0),
        (JobState.RUNNING, 300.0, 3.0),
        (JobState.QUEUED, 3600.0, SLOWEST_SECONDS),
        (JobState.RUNNING, 86400.0, SLOWEST_SECONDS),
    ],
)
def test_the_pause_is_short_while_something_is_about_to_change(
    state: JobState, age: float, pause: float
) -> None:
    roster = roster_of(1)
    roster.take(roster.question(0.0), [job("job_0000", state)], 0.0)

    assert roster.pause_seconds(age) == pause


def test_the_most_hurried_job_sets_the_pause_of_all() -> None:
    roster = roster_of(5)
    states = [JobState.QUEUED] * 4 + [JobState.PREPARING]
    roster.take(roster.question(0.0), [job(f"job_{n:04d}", state) for n, state in enumerate(states)], 0.0)

    assert roster.pause_seconds(3600.0) == 1.0


def test_a_wait_may_ask_for_longer_pauses_and_a_connection_for_longer_ones_still() -> None:
    patient, bounded = Roster(), Roster(least_seconds=30.0)
    for roster, interval in ((patient, 20.0), (bounded, 1.0)):
        roster.join("job_0000", interval, now=0.0)

    assert patient.pause_seconds(0.0) == 20.0
    assert bounded.pause_seconds(0.0) == 30.0


def test_long_ids_make_a_question_shorter_and_none_is_left_out_for_ever() -> None:
    roster = Roster()
    for place in range(60):
        roster.join(f"{place:04d}{'x' * 124}", 1.0, now=0.0)

    questions = look_at_all(roster)

    assert questions == 2
    assert len(roster.question(1.0).filter) < 6_000


def test_pages_of_logs_get_rarer_the_more_waits_show_theirs() -> None:
    assert [log_pause_seconds(readers) for readers in (1, 50, 500)] == [1.0, 1.0, 10.0]


def test_a_job_that_started_since_is_found_by_its_time() -> None:
    roster = roster_of(ALL_BY_ID + 1)
    look_at_all(roster, now=0.0)
    roster.question(1.0)

    news = roster.take(
        roster.question(1.0),
        [job("job_0080", JobState.RUNNING, start_time=NOON + timedelta(seconds=1))],
        1.1,
    )

    assert [each.job_id for each in news.changed] == ["job_0080"]


def living_roster_of(count: int) -> Roster:
    roster = Roster(lists_by_id=False)
    for place in range(count):
        roster.join(f"job_{place:04d}", 1.0, now=0.0)
    return roster


def test_without_ids_in_lists_one_question_is_about_all_living_jobs_of_tasks() -> None:
    question = living_roster_of(5000).question(1.0)

    assert question.filter == (
        "labels.airflow-owner:* AND (state=CANCELLING OR state=PREPARING OR state=QUEUED OR state=RUNNING)"
    )
    assert len(question.job_ids) == 5000


def test_what_a_list_of_living_jobs_lacks_is_asked_for_the_longest_unseen_first() -> None:
    roster = living_roster_of(200)
    listed = [job(f"job_{place:04d}") for place in range(50)]

    first = roster.take(roster.question(1.0), listed, 1.0)
    for job_id in first.missing:
        roster.see(job(job_id), 1.0)
    second = roster.take(roster.question(2.0), listed, 2.0)

    assert len(first.changed) == 50
    assert len(first.missing) == len(second.missing) == ALL_BY_ID
    assert not {*first.missing} & {f"job_{place:04d}" for place in range(50)}
    assert {*second.missing} >= {f"job_{place:04d}" for place in range(130, 200)}


def test_without_ids_in_lists_a_newcomer_is_the_first_to_be_asked_for() -> None:
    roster = living_roster_of(200)
    for place in range(200):
        roster.see(job(f"job_{place:04d}"), 1.0)
    roster.join("newcomer", 1.0, now=2.0)

    assert roster.take(roster.question(2.0), [], 2.0).missing[0] == "newcomer"
