"""How much of a bucket somebody has filled."""

from __future__ import annotations

from object_store.data.catalog import find_bucket, sum_of_objects, uploads_below
from object_store.listing import next_after
from object_store.store import Store


def use_below(store: Store, bucket: str, prefix: str, since: int = 0) -> tuple[int, int]:
    """
    Return how many generations and uploads begin with ``prefix``, and their bytes.

    :param since: in microseconds since the epoch; what was made before is left out.
    :raises NotFound: there is no such bucket.
    """
    with store.catalog.reading() as connection:
        find_bucket(connection, bucket)
        count, size = sum_of_objects(connection, bucket, prefix, next_after(prefix), since)
        uploads = uploads_below(connection, bucket, prefix, since)
    files = (name for upload in uploads for name in (upload.key, *upload.files))
    return count + len(uploads), size + sum(map(store.contents.upload_bytes, files))
