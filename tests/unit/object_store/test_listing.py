"""Lists of objects, compared with a plain evaluation over all of them."""

from __future__ import annotations

import base64
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from object_store import listing
from object_store.data.catalog import Catalog, put_bucket, put_object
from object_store.data.records import Bucket, Content, Object
from object_store.errors import Invalid, NotFound, NotServed
from object_store.listing import ListQuery, list_objects
from tests.unit.object_store.conftest import MakeSite

#: Letters, folders, the last character of all, the ones around the gap of the halves, and odd ones.
NAMES = st.text("ab/\U0010ffff\ud7ff\ue000👍\x01é", min_size=1, max_size=5)
TEXTS = st.text("ab/\U0010ffff\ud7ff\ue000👍", max_size=3)


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sqlite3.Connection]:
    """Return a catalog with one bucket, whose objects each example replaces."""
    path = tmp_path_factory.mktemp("catalog") / "catalog.db"
    Catalog(path).close()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN")
        put_bucket(connection, Bucket(name="demo", fields={}, created=0, updated=0))
        yield connection


def fill(connection: sqlite3.Connection, generations: dict[str, int]) -> None:
    """Let each name have so many generations; the last one is live unless it is the third."""
    connection.execute("DELETE FROM objects")
    for name, count in generations.items():
        for generation in range(1, count + 1):
            content = Content(key="k", size=0, crc32c="", md5=None)
            is_live = generation == count and count < 3
            put_object(
                connection,
                Object(
                    bucket="demo",
                    name=name,
                    generation=generation,
                    metageneration=1,
                    content=content,
                    fields={},
                    created=0,
                    updated=0,
                    deleted=None if is_live else 1,
                ),
            )


def expected(generations: dict[str, int], query: dict[str, str]) -> tuple[list[tuple[str, int]], list[str]]:
    """Return objects and prefixes as the documentation says, over all names."""
    objects, prefixes = [], set()
    prefix, delimiter = query["prefix"], query["delimiter"]
    for name, count in sorted(generations.items()):
        if not name.startswith(prefix) or name < query["startOffset"]:
            continue
        if query["endOffset"] and name >= query["endOffset"]:
            continue
        shown = list(range(1, count + 1)) if query["versions"] == "true" else [count] if count < 3 else []
        rest = name[len(prefix) :]
        if delimiter and delimiter in rest and shown:
            folder = prefix + rest[: rest.index(delimiter) + len(delimiter)]
            prefixes.add(folder)
            if not (query["includeTrailingDelimiter"] == "true" and folder == name):
                continue
            if query["versions"] == "true":
                # The first generation stands for a folder's own object.
                shown = shown[:1]
        objects += [(name, generation) for generation in shown]
    return objects, sorted(prefixes)


@given(
    st.dictionaries(NAMES, st.integers(1, 3), max_size=12),
    st.fixed_dictionaries(
        {
            "prefix": TEXTS,
            "delimiter": st.sampled_from(["", "/", "/", "a", "/\U0010ffff", "\U0010ffff"]),
            "startOffset": TEXTS,
            "endOffset": TEXTS,
            "maxResults": st.sampled_from(["1", "2", "3", "1000"]),
            "versions": st.sampled_from(["true", "false"]),
            "includeTrailingDelimiter": st.sampled_from(["true", "false"]),
        }
    ),
)
def test_the_pages_joined_are_all_that_match_in_order_and_once(
    connection: sqlite3.Connection, generations: dict[str, int], query: dict[str, str]
) -> None:
    fill(connection, generations)
    objects: list[tuple[str, int]] = []
    prefixes: list[str] = []
    token: str | None = ""

    for _ in range(100):
        page = list_objects(connection, "demo", ListQuery.of({**query, "pageToken": token or ""}))
        assert len(page.objects) + len(page.prefixes) <= int(query["maxResults"]) + 1
        objects += [(found.name, found.generation) for found in page.objects]
        prefixes += page.prefixes
        token = page.next_token
        if token is None:
            break

    assert token is None
    assert (objects, prefixes) == expected(generations, query)


def test_a_page_ends_after_many_rows_that_do_not_match(
    connection: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "_ROWS", 3)
    fill(connection, {f"a{number}": 1 for number in range(10)} | {"z": 1})

    pages, token = [], ""
    while True:
        page = list_objects(connection, "demo", ListQuery.of({"matchGlob": "z", "pageToken": token}))
        pages.append([found.name for found in page.objects])
        if page.next_token is None:
            break
        token = page.next_token

    assert pages == [[], [], [], ["z"]]


def test_a_pattern_is_of_whole_names_and_of_folders(connection: sqlite3.Connection) -> None:
    fill(connection, {"a.py": 1, "b.txt": 1, "c/d.py": 1, "e/f.txt": 1})

    def listed(query: dict[str, str]) -> tuple[list[str], list[str]]:
        page = list_objects(connection, "demo", ListQuery.of(query))
        return [found.name for found in page.objects], page.prefixes

    assert listed({"matchGlob": "*.py"}) == (["a.py"], [])
    assert listed({"matchGlob": "**.py"}) == (["a.py", "c/d.py"], [])
    assert listed({"matchGlob": "c/", "delimiter": "/"}) == ([], ["c/"])


@pytest.mark.parametrize(
    "token",
    ["x", "é", "AAAA", "bnVsbA==", "W10=", "====", "W" * 9, "\x00"]
    + [
        base64.urlsafe_b64encode(json.dumps(value).encode()).decode()
        for value in (["a", -2], ["a", 2**63], ["a", "1"], [1, 1], ["a"], ["\ud800", 1], {"a": 1, "b": 2}, 5)
    ]
    + [base64.urlsafe_b64encode(b"[" * 100_000).decode()],
)
def test_a_token_that_no_list_gave_is_refused(token: str) -> None:
    with pytest.raises(Invalid, match="pageToken"):
        ListQuery.of({"pageToken": token})


@pytest.mark.parametrize("query", [{"maxResults": "-1"}, {"maxResults": "x"}, {"matchGlob": "{"}])
def test_a_wrong_value_is_refused(query: dict[str, str]) -> None:
    with pytest.raises(Invalid):
        ListQuery.of(query)


def test_what_is_not_served_is_said() -> None:
    with pytest.raises(NotServed, match="soft delete"):
        ListQuery.of({"softDeleted": "true"})
    with pytest.raises(Invalid, match="glob"):
        ListQuery.of({"matchGlob": "*", "delimiter": "a"})


def test_a_page_has_at_most_a_thousand_and_zero_is_no_limit() -> None:
    assert [ListQuery.of({"maxResults": text}).limit for text in ("0", "5", "5000", "")] == [
        1000,
        5,
        1000,
        1000,
    ]


def test_a_bucket_that_is_not_there_has_no_list(make_site: MakeSite, tmp_path: Path) -> None:
    site = make_site()

    with pytest.raises(NotFound):
        site.store.page("absent", ListQuery())
