"""What the store of the audit log does on every database."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from training_api.errors import InvalidFilter, InvalidRequest
from training_service.store import audit_store
from training_service.store.audit_store import AuditEntry, AuditStore

NOON = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)


class Days:
    """A clock that a test turns."""

    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> Days:
    return Days()


@pytest.fixture
def store(database: sa.Engine, clock: Days) -> AuditStore:
    return AuditStore(database, clock)


def note(store: AuditStore, method: str, *, project: str = "p", failed: bool = False) -> None:
    payload = {
        "methodName": method,
        "serviceName": "ml.googleapis.com",
        "status": {"code": 7} if failed else {},
    }
    store.append(AuditEntry(project=project, payload=payload, failed=failed))


def methods(store: AuditStore, filter_text: str = "", **options: Any) -> list[str]:
    asked: dict[str, Any] = {"projects": ["p"], "filter_text": filter_text, "page_size": 10, **options}
    return [entry.resource.labels["method"] for entry in store.list_page(**asked)[0]]


@pytest.mark.parametrize(
    ("filter_text", "found"),
    [
        ("", ["a", "b"]),
        ('protoPayload.methodName="a"', ["a"]),
        ("protoPayload.status.code=7", ["b"]),
        ("severity>=ERROR", ["b"]),
        ('logName="projects/p/logs/cloudaudit.googleapis.com%2Factivity"', ["a", "b"]),
        ('logName:"cloudaudit" AND NOT protoPayload.methodName=a', ["b"]),
        ('timestamp>"2026-11-20T12:00:00Z"', []),
    ],
)
def test_entries_are_found_by_their_fields(store: AuditStore, filter_text: str, found: list[str]) -> None:
    note(store, "a")
    note(store, "b", failed=True)
    note(store, "c", project="another")

    assert methods(store, filter_text) == found
    assert methods(store, filter_text, descending=True) == found[::-1]


def test_what_no_database_stores_is_replaced(store: AuditStore) -> None:
    note(store, "a\x00\ud800b")

    assert methods(store, 'protoPayload.methodName:"b"') == ["a\ufffd\ufffdb"]


def test_wrong_questions_are_refused(store: AuditStore) -> None:
    with pytest.raises(InvalidFilter, match="cannot ask for 'textPayload'"):
        methods(store, "textPayload=a")
    with pytest.raises(InvalidRequest):
        methods(store, page_token="9" * 40)


def test_the_old_ones_go_and_so_do_those_beyond_the_most(
    store: AuditStore, clock: Days, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_store, "MOST_ENTRIES", 3)
    for method in "abcdef":
        note(store, method)
        clock.now += timedelta(days=1)

    assert store.remove_before(None, 2) == 2
    assert methods(store) == ["c", "d", "e", "f"]
    assert store.remove_before(NOON + timedelta(days=4), 10) == 2
    assert methods(store) == ["e", "f"]
    assert store.remove_before(NOON + timedelta(days=4), 10) == 0
