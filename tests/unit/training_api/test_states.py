"""The state machine of a job, and the page that draws it."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

import pytest

from training_api.errors import IllegalTransition
from training_api.states import LEGAL, REPLICA_LEGAL, TERMINAL, JobState, ReplicaState, advance

PAGE = Path(__file__).resolve().parents[3] / "docs" / "states.md"
_EDGE = re.compile(r"^\s*(?P<start>\[\*\]|\w+) --> (?P<end>\[\*\]|\w+)(?:\s*:.*)?$", re.MULTILINE)
_OUTSIDE = "[*]"


def _reachable(start: JobState) -> set[JobState]:
    seen: set[JobState] = set()
    ahead = [start]
    while ahead:
        state = ahead.pop()
        if state not in seen:
            seen.add(state)
            ahead += LEGAL[state]
    return seen


def _drawn(place: int = 0) -> list[tuple[str, str]]:
    """Return the edges of the page's first diagram, of a job, or of its second, of a replica."""
    job, replica = re.findall(r"```mermaid\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return [(edge["start"], edge["end"]) for edge in _EDGE.finditer((job, replica)[place])]


def test_the_table_has_every_state() -> None:
    assert set(LEGAL) == set(JobState)


def test_the_ends_are_succeeded_failed_and_cancelled() -> None:
    assert {JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED} == TERMINAL
    assert {state for state in JobState if state.is_terminal} == TERMINAL


@pytest.mark.parametrize(("current", "successor"), list(product(JobState, JobState)))
def test_advance_takes_the_steps_of_the_table_and_refuses_all_others(
    current: JobState, successor: JobState
) -> None:
    if successor in LEGAL[current]:
        assert advance(current, successor) is successor
    else:
        with pytest.raises(IllegalTransition, match=f"cannot go from {current} to {successor}"):
            advance(current, successor)


def test_a_refusal_names_what_is_allowed() -> None:
    with pytest.raises(IllegalTransition, match=r"allowed: CANCELLING, FAILED, PREPARING$"):
        advance(JobState.QUEUED, JobState.RUNNING)


def test_a_refusal_says_that_an_end_is_final() -> None:
    with pytest.raises(IllegalTransition, match=r"allowed: nothing: the state is terminal$"):
        advance(JobState.CANCELLED, JobState.QUEUED)


def test_every_state_can_be_reached_from_queued() -> None:
    assert _reachable(JobState.QUEUED) == set(JobState)


@pytest.mark.parametrize("state", JobState)
def test_every_state_leads_to_an_end(state: JobState) -> None:
    assert _reachable(state) & TERMINAL


@pytest.mark.parametrize("state", [state for state in JobState if not state.is_terminal])
def test_every_job_that_has_not_ended_can_be_cancelled(state: JobState) -> None:
    assert JobState.CANCELLED in _reachable(state)


def test_the_page_draws_exactly_the_table() -> None:
    drawn = _drawn()

    table = [(start.value, end.value) for start, ends in LEGAL.items() for end in ends]
    assert sorted(edge for edge in drawn if _OUTSIDE not in edge) == sorted(table)


def test_the_page_draws_the_beginning_and_the_ends() -> None:
    drawn = _drawn()

    assert {end for start, end in drawn if start == _OUTSIDE} == {JobState.QUEUED.value}
    assert {start for start, end in drawn if end == _OUTSIDE} == {state.value for state in TERMINAL}


def test_the_page_draws_the_life_of_a_replica() -> None:
    inner = [(start.value, end.value) for start, ends in REPLICA_LEGAL.items() for end in ends]
    first, last = ReplicaState.CREATED.value, ReplicaState.EXITED.value

    assert sorted(_drawn(1)) == sorted([*inner, (_OUTSIDE, first), (last, _OUTSIDE)])


@pytest.mark.parametrize("state", JobState)
def test_the_page_says_what_each_state_means(state: JobState) -> None:
    assert f"| `{state.value}` |" in PAGE.read_text(encoding="utf-8")
