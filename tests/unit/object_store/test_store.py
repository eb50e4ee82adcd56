"""What requests do to the catalog and the files, and what they leave behind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from object_store.conditions import Conditions
from object_store.data import catalog
from object_store.data.contents import new_key
from object_store.errors import ConditionNotMet, Conflict, Invalid, NotFound, NotServed
from object_store.listing import ListQuery
from object_store.store import Store, Target
from tests.unit.object_store.conftest import files, put, read, target


def names(store: Store, *, versions: bool = False) -> list[tuple[str, int]]:
    page = store.page("demo", ListQuery(versions=versions))
    return [(found.name, found.generation) for found in page.objects]


def test_an_object_that_is_replaced_leaves_no_file(store: Store) -> None:
    first = put(store, "a", b"one")
    second = put(store, "a", b"two")

    assert read(store, "a") == b"two"
    assert files(store) == [("contents", second.content.key)]
    assert (second.generation > first.generation, second.metageneration) == (True, 1)
    with pytest.raises(NotFound):
        store.object(target("a", first.generation))


@pytest.mark.parametrize(
    ("at", "error"),
    [
        (target("a", GenerationMatch=0), ConditionNotMet),
        (target("a", GenerationNotMatch=5), ConditionNotMet),
        (target("a", MetagenerationMatch=2), ConditionNotMet),
        (target("a", MetagenerationNotMatch=1), ConditionNotMet),
        (Target(bucket="absent", name="a"), NotFound),
        (target("a\n"), Invalid),
    ],
)
def test_what_is_refused_leaves_no_file(
    at: Target, error: type[Exception], store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog, "now_us", lambda: 5)
    kept = put(store, "a", b"kept")
    source = put(store, "source", b"x")
    before = files(store)

    for attempt in (
        lambda: put(store, at, b"new"),
        lambda: store.copy(target("source"), at, {}),
        lambda: store.move(target("source"), at),
        lambda: store.compose(at, [target("source")], {}),
    ):
        with pytest.raises(error) as refusal:
            attempt()
        assert getattr(refusal.value, "status", 0) != 304
    with pytest.raises((error, NotFound)):
        store.patch(at, {"contentType": "x"})
    with pytest.raises((error, NotFound)):
        store.delete(at)

    assert files(store) == before
    assert names(store) == [("a", kept.generation), ("source", source.generation)]


@pytest.mark.parametrize("body", [{"contentType": 5}, {"temporaryHold": True}])
def test_a_copy_with_wrong_fields_leaves_no_file(body: dict[str, object], store: Store) -> None:
    put(store, "a")
    before = files(store)

    with pytest.raises((Invalid, NotServed)):
        store.copy(target("a"), target("b"), body)
    with pytest.raises((Invalid, NotServed)):
        store.compose(target("b"), [target("a")], body)

    assert files(store) == before


@pytest.mark.parametrize("condition", ["GenerationNotMatch", "MetagenerationNotMatch"])
def test_a_source_that_is_not_as_wanted_is_never_unchanged(condition: str, store: Store) -> None:
    found = put(store, "a")
    wanted = found.generation if condition == "GenerationNotMatch" else 1
    source = target("a", **{condition: wanted})
    attempts: list[Callable[[], object]] = [
        lambda: store.copy(source, target("b"), {}),
        lambda: store.move(source, target("b")),
        lambda: store.compose(target("b"), [source], {}),
    ]

    for attempt in attempts:
        with pytest.raises(ConditionNotMet) as refusal:
            attempt()
        assert refusal.value.status == 412
    with pytest.raises(ConditionNotMet) as refusal:
        store.object(source)
    assert refusal.value.status == 304


def test_a_bucket_with_versioning_keeps_what_is_replaced_and_deleted(store: Store) -> None:
    store.patch_bucket("demo", {"versioning": {"enabled": True}}, Conditions())
    first, second = put(store, "a", b"one"), put(store, "a", b"two")
    store.delete(target("a"))

    with pytest.raises(NotFound):
        store.object(target("a"))
    assert names(store) == []
    assert names(store, versions=True) == [("a", first.generation), ("a", second.generation)]
    assert read(store, target("a", first.generation)) == b"one"
    assert store.object(target("a", second.generation)).deleted is not None

    store.delete(target("a", first.generation))
    assert names(store, versions=True) == [("a", second.generation)]
    with pytest.raises(Conflict, match="not empty"):
        store.delete_bucket("demo", Conditions())
    store.delete(target("a", second.generation))
    assert files(store) == []
    store.delete_bucket("demo", Conditions())


def test_a_copy_shares_the_bytes_and_outlives_its_source(store: Store, tmp_path: Path) -> None:
    source = put(store, "a", b"bytes", {"contentType": "text/x", "metadata": {"k": "v"}})
    copy = store.copy(target("a"), target("b"), {})
    path = tmp_path / "store" / "contents" / copy.content.key[:2] / copy.content.key

    assert path.stat().st_nlink == 2
    assert (copy.fields, copy.content.md5) == (source.fields, source.content.md5)
    store.delete(target("a"))
    assert path.stat().st_nlink == 1
    assert read(store, "b") == b"bytes"
    assert store.copy(target("b"), target("c"), {"contentType": "x"}).fields == {"contentType": "x"}


def test_an_object_can_be_copied_onto_itself(store: Store) -> None:
    put(store, "a", b"bytes")
    store.copy(target("a"), target("a"), {"contentType": "new"})

    assert (read(store, "a"), len(files(store))) == (b"bytes", 1)


def test_a_move_is_one_step(store: Store) -> None:
    put(store, "a", b"bytes", {"contentType": "x"})
    put(store, "b", b"old")

    moved = store.move(target("a"), target("b"))

    assert names(store) == [("b", moved.generation)]
    assert (read(store, "b"), moved.fields, len(files(store))) == (b"bytes", {"contentType": "x"}, 1)
    with pytest.raises(Invalid):
        store.move(target("b"), target("b"))
    with pytest.raises(NotFound):
        store.move(target("a"), target("c"))


def test_compose_joins_in_order_and_counts_the_parts(store: Store) -> None:
    put(store, "a", b"one,", {"contentType": "text/x"})
    put(store, "b", b"two,")

    joined = store.compose(target("j"), [target("a"), target("b"), target("a")], {})
    again = store.compose(target("j"), [target("j"), target("b")], {"contentType": "new"})

    assert read(store, "j") == b"one,two,one,two,"
    assert (joined.content.md5, joined.content.components) == (None, 3)
    assert (again.content.components, again.fields) == (4, {"contentType": "new"})
    assert joined.fields == {"contentType": "text/x"}
    assert len(files(store)) == 3


def test_compose_takes_up_to_32_sources_that_are_as_wanted(store: Store) -> None:
    put(store, "a", b"x")

    assert store.compose(target("j"), [target("a")] * 32, {}).content.size == 32
    for sources in ([], [target("a")] * 33):
        with pytest.raises(Invalid, match="1 to 32"):
            store.compose(target("j"), sources, {})
    with pytest.raises(ConditionNotMet):
        store.compose(target("j"), [target("a", GenerationMatch=1)], {})
    with pytest.raises(NotFound):
        store.compose(target("j"), [target("a"), target("absent")], {})
    assert len(files(store)) == 2


def test_generations_grow_also_when_the_clock_is_set_back(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = put(store, "a")
    monkeypatch.setattr(catalog, "now_us", lambda: 1)

    assert put(store, "a").generation == first.generation + 1


def test_a_patch_grows_the_metageneration_alone(store: Store) -> None:
    first = put(store, "a", b"x", {"contentType": "x", "metadata": {"k": "v"}})

    changed = store.patch(target("a", MetagenerationMatch=1), {"metadata": {"l": "w"}})
    anew = store.patch(target("a"), {"contentType": "y"}, anew=True)

    assert (changed.generation, changed.metageneration, anew.metageneration) == (first.generation, 2, 3)
    assert changed.fields == {"contentType": "x", "metadata": {"k": "v", "l": "w"}}
    assert anew.fields == {"contentType": "y"}


def test_conditions_of_buckets_count(store: Store) -> None:
    for condition, status in (("MetagenerationMatch", 412), ("MetagenerationNotMatch", 304)):
        wanted = Conditions({condition: 2 if status == 412 else 1})
        with pytest.raises(ConditionNotMet) as refusal:
            store.bucket("demo", wanted)
        assert refusal.value.status == status
        for attempt in (
            lambda wanted=wanted: store.patch_bucket("demo", {}, wanted),
            lambda wanted=wanted: store.delete_bucket("demo", wanted),
        ):
            with pytest.raises(ConditionNotMet) as refusal:
                attempt()
            assert refusal.value.status == 412
    assert store.patch_bucket("demo", {}, Conditions({"MetagenerationMatch": 1})).metageneration == 2


def test_a_bucket_is_made_once(store: Store) -> None:
    with pytest.raises(Conflict, match="exists already"):
        store.create_bucket("demo", {})
    with pytest.raises(Invalid):
        store.create_bucket(None, {})


def test_a_sweep_removes_only_what_nobody_names(tmp_path: Path) -> None:
    first = Store(tmp_path / "s")
    first.create_bucket("demo", {})
    kept = put(first, "a", b"kept")
    garbage = new_key()
    first.contents.share(kept.content.key, garbage)
    first.contents.grow("f" * 32).close()
    first.contents.grow(f"{'e' * 32}.part").close()
    first.close()

    store = Store(tmp_path / "s")
    later = put(store, "b")
    assert (store.sweep(), store.sweep()) == (3, 0)
    assert files(store) == sorted([("contents", kept.content.key), ("contents", later.content.key)])
    store.close()


def test_a_file_that_cannot_be_removed_takes_no_new_object_with_it(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = put(store, "a", b"one")
    remove = store.contents.remove

    def refuse(key: str) -> None:
        if key == old.content.key:
            raise OSError("input/output error")
        remove(key)

    monkeypatch.setattr(store.contents, "remove", refuse)
    with pytest.raises(OSError, match="input"):
        put(store, "a", b"two")

    assert read(store, "a") == b"two"


def test_a_commit_that_fails_keeps_the_old_object(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    put(store, "a", b"one")
    before = files(store)

    def fail(_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(store.catalog, "change", fail)
    with pytest.raises(OSError, match="disk full"):
        put(store, "a", b"two")

    assert (read(store, "a"), files(store)) == (b"one", before)


def test_a_reader_finds_the_new_object_when_the_old_one_goes(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(store, "a", b"one")
    look, looks = store.object, []

    def look_and_replace(at: Target, *, is_read: bool = True) -> object:
        found = look(at, is_read=is_read)
        if len(looks) < 2:
            looks.append(put(store, "a", b"two"))
        return found

    monkeypatch.setattr(store, "object", look_and_replace)

    assert read(store, "a") == b"two"


def test_an_object_whose_file_is_lost_is_not_found(store: Store) -> None:
    found = put(store, "a")
    store.contents.remove(found.content.key)

    with pytest.raises(NotFound):
        store.open(target("a"))


def test_the_folder_is_its_owners(store: Store, tmp_path: Path) -> None:
    assert (tmp_path / "store").stat().st_mode & 0o777 == 0o700
