"""How much of a bucket is filled, as the training service asks."""

from __future__ import annotations

import pytest

from object_store.conditions import NO_CONDITIONS
from object_store.data.records import now_us
from object_store.errors import NotFound
from object_store.store import Store
from object_store.uploads import Uploads
from object_store.use import use_below
from tests.unit.object_store.conftest import put, target


def test_the_use_of_a_folder_has_all_generations_and_what_uploads_have_sent(store: Store) -> None:
    store.patch_bucket("demo", {"versioning": {"enabled": True}}, NO_CONDITIONS)
    uploads = Uploads(store)
    for name, content in (("j/a", b"123"), ("j/a", b"4567"), ("j", b"no"), ("j0", b"no"), ("k/a", b"no")):
        put(store, name, content)
    key = uploads.begin(target("j/b"), {})
    file = uploads.take(key)
    file.write(b"89")
    uploads.leave(key, file)
    in_parts = uploads.begin(target("j/c"), {})
    part = uploads.take_part(in_parts, 1)
    part.write(b"0")
    uploads.keep_part(in_parts, 1, part, {})
    part.close()
    uploads.begin(target("k/b"), {})

    assert use_below(store, "demo", "j/") == (4, 10)
    assert use_below(store, "demo", "") == (8, 16)
    newest = store.object(target("k/a")).created
    assert use_below(store, "demo", "", newest) == (4, 5)
    assert use_below(store, "demo", "", now_us() + 1) == (0, 0)


def test_the_use_of_a_bucket_that_is_not_there_is_unknown(store: Store) -> None:
    with pytest.raises(NotFound):
        use_below(store, "gone", "")
