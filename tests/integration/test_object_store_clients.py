"""Clients as their makers deliver them work against the object store, a process of its own."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from google.api_core.exceptions import Conflict, NotFound, PreconditionFailed
from google.auth.credentials import AnonymousCredentials
from google.cloud import storage  # noqa: TID253  # what is tested
from google.cloud.storage import transfer_manager  # noqa: TID253  # the same
from googleapiclient.discovery import build_from_document
from googleapiclient.discovery_cache import get_static_doc
from googleapiclient.http import MediaIoBaseDownload, MediaIoBaseUpload, build_http

from tests.support import web
from tests.support.speed import scaled

_CHUNK = 256 * 1024
_MORE_THAN_TWO_CHUNKS = os.urandom(2 * _CHUNK + 17)
#: What the helpers of this module run in a process of its own may take.
_SECONDS = 120


@pytest.fixture
def client(store_url: str) -> Iterator[storage.Client]:
    client = storage.Client(
        project="demo-project",
        credentials=AnonymousCredentials(),
        client_options={"api_endpoint": store_url},
    )
    try:
        yield client
    finally:
        client._http.close()
        client.close()


@pytest.fixture
def bucket(client: storage.Client) -> storage.Bucket:
    """A bucket of the test's own."""
    return client.create_bucket(f"b-{uuid.uuid4().hex[:12]}")


# google-cloud-storage


def test_strings_files_and_streams_come_back(bucket: storage.Bucket, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(_MORE_THAN_TWO_CHUNKS)

    bucket.blob("text ü/1").upload_from_string("grün", content_type="text/plain")
    bucket.blob("file").upload_from_filename(file, checksum="crc32c")
    bucket.blob("stream").upload_from_file(io.BytesIO(_MORE_THAN_TWO_CHUNKS), checksum="md5")

    assert bucket.blob("text ü/1").download_as_text() == "grün"
    for name in ("file", "stream"):
        bucket.blob(name).download_to_filename(tmp_path / name, checksum="crc32c")
        assert (tmp_path / name).read_bytes() == _MORE_THAN_TWO_CHUNKS
    stored = bucket.get_blob("text ü/1")
    assert (stored.content_type, stored.size, stored.generation > 0) == ("text/plain", 5, True)


def test_an_upload_in_chunks_and_a_file_that_is_written_come_back(bucket: storage.Bucket) -> None:
    bucket.blob("chunks", chunk_size=_CHUNK).upload_from_file(io.BytesIO(_MORE_THAN_TWO_CHUNKS))
    with bucket.blob("written").open("wb", chunk_size=_CHUNK) as file:
        file.write(_MORE_THAN_TWO_CHUNKS)

    assert bucket.blob("chunks", chunk_size=_CHUNK).download_as_bytes() == _MORE_THAN_TWO_CHUNKS
    with bucket.blob("written").open("rb", chunk_size=_CHUNK) as file:
        assert file.read() == _MORE_THAN_TWO_CHUNKS


def test_ranges_are_parts_of_the_bytes(bucket: storage.Bucket) -> None:
    blob = bucket.blob("digits")
    blob.upload_from_string("0123456789")

    assert blob.download_as_bytes(start=2, end=4) == b"234"
    assert blob.download_as_bytes(start=7) == b"789"
    assert blob.download_as_bytes(start=-3) == b"789"


def test_lists_know_prefixes_folders_patterns_and_pages(
    client: storage.Client, bucket: storage.Bucket
) -> None:
    for name in ("a/1.txt", "a/2.csv", "a/b/3.txt", "top.txt"):
        bucket.blob(name).upload_from_string(name)

    def names(**query: Any) -> list[str]:
        return [blob.name for blob in client.list_blobs(bucket, **query)]

    assert names(prefix="a/") == ["a/1.txt", "a/2.csv", "a/b/3.txt"]
    assert names(match_glob="**.txt") == ["a/1.txt", "a/b/3.txt", "top.txt"]
    assert names(page_size=1) == ["a/1.txt", "a/2.csv", "a/b/3.txt", "top.txt"]
    assert names(start_offset="a/b", end_offset="top") == ["a/b/3.txt"]
    folder = client.list_blobs(bucket, prefix="a/", delimiter="/")
    assert [blob.name for blob in folder] == ["a/1.txt", "a/2.csv"]
    assert folder.prefixes == {"a/b/"}


def test_metadata_is_changed_and_removed(bucket: storage.Bucket) -> None:
    blob = bucket.blob("described")
    blob.metadata = {"kept": "1", "gone": "2"}
    blob.upload_from_string("x")

    blob.metadata = {"gone": None, "new": "ü"}
    blob.cache_control = "no-store"
    blob.patch()

    stored = bucket.get_blob("described")
    assert stored.metadata == {"kept": "1", "new": "ü"}
    assert (stored.cache_control, stored.metageneration) == ("no-store", 2)


def test_objects_are_copied_rewritten_renamed_composed_and_deleted(bucket: storage.Bucket) -> None:
    one = bucket.blob("one")
    one.upload_from_string("1", content_type="text/csv")

    copy = bucket.copy_blob(one, bucket, "copy")
    token, rewritten, total = bucket.blob("rewritten").rewrite(one)
    renamed = bucket.rename_blob(copy, "renamed")
    joined = bucket.blob("joined")
    joined.compose([one, renamed, bucket.blob("rewritten")])

    assert (token, rewritten, total) == (None, 1, 1)
    assert not bucket.blob("copy").exists()
    assert renamed.content_type == "text/csv"
    assert joined.download_as_bytes() == b"111"
    assert (joined.component_count, joined.md5_hash) == (3, None)
    bucket.delete_blobs(list(bucket.list_blobs()))
    assert list(bucket.list_blobs()) == []
    with pytest.raises(NotFound):
        one.delete()


def test_preconditions_hold_writers_off(bucket: storage.Bucket) -> None:
    blob = bucket.blob("once")
    blob.upload_from_string("first", if_generation_match=0)
    generation = blob.generation

    with pytest.raises(PreconditionFailed):
        bucket.blob("once").upload_from_string("second", if_generation_match=0)
    with pytest.raises(PreconditionFailed):
        bucket.blob("once", chunk_size=_CHUNK).upload_from_file(
            io.BytesIO(_MORE_THAN_TWO_CHUNKS), if_generation_match=0
        )
    with pytest.raises(PreconditionFailed):
        blob.delete(if_generation_match=generation + 1)
    blob.upload_from_string("third", if_generation_match=generation)
    assert bucket.blob("once").download_as_bytes() == b"third"


def test_a_bucket_has_labels_and_keeps_versions(client: storage.Client, bucket: storage.Bucket) -> None:
    bucket.labels = {"team": "a"}
    bucket.versioning_enabled = True
    bucket.patch()
    assert client.get_bucket(bucket.name).labels == {"team": "a"}

    for text in ("old", "new"):
        bucket.blob("kept").upload_from_string(text)
    bucket.blob("kept").delete()

    assert list(bucket.list_blobs()) == []
    versions = list(bucket.list_blobs(versions=True))
    assert [blob.download_as_bytes() for blob in versions] == [b"old", b"new"]
    with pytest.raises(Conflict):
        bucket.delete()
    bucket.delete_blobs(versions, preserve_generation=True)
    bucket.delete()
    assert client.lookup_bucket(bucket.name) is None


def test_the_transfer_manager_moves_many_files_and_large_ones(bucket: storage.Bucket, tmp_path: Path) -> None:
    names = [f"{number}.txt" for number in range(12)]
    for name in names:
        (tmp_path / name).write_text(name)
    threads = {"worker_type": transfer_manager.THREAD, "max_workers": 4}

    transfer_manager.upload_many_from_filenames(
        bucket, names, source_directory=str(tmp_path), raise_exception=True, **threads
    )
    target = tmp_path / "back"
    transfer_manager.download_many_to_path(
        bucket, names, destination_directory=str(target), raise_exception=True, **threads
    )
    assert [(target / name).read_text() for name in names] == names

    large = tmp_path / "large"
    large.write_bytes(os.urandom(11 << 20))
    blob = bucket.blob("large")
    transfer_manager.upload_chunks_concurrently(str(large), blob, chunk_size=5 << 20, **threads)
    transfer_manager.download_chunks_concurrently(
        blob, str(target / "large"), chunk_size=2 << 20, crc32c_checksum=True, **threads
    )
    assert (target / "large").read_bytes() == large.read_bytes()


# Others


_TABLES = """
import sys
import gcsfs, pandas
bucket, url = sys.argv[1:]
options = {"project": "demo-project", "token": "anon", "endpoint_url": url}
files = gcsfs.GCSFileSystem(**options)
table = pandas.DataFrame({"name": ["a", "b"], "size": [1, 2]})
table.to_csv(f"gs://{bucket}/t/table.csv", index=False, storage_options=options)
table.to_parquet(f"gs://{bucket}/t/deep/table.parquet", storage_options=options)
for read, name in ((pandas.read_csv, "t/table.csv"), (pandas.read_parquet, "t/deep/table.parquet")):
    assert read(f"gs://{bucket}/{name}", storage_options=options).equals(table), name
with files.open(f"{bucket}/large", "wb", block_size=1 << 18) as file:
    for number in range(5):
        file.write(bytes([number]) * (200 << 10))
assert files.cat_file(f"{bucket}/large", 200 << 10, (200 << 10) + 2) == b"\\1\\1"
files.pipe(f"{bucket}/t/small", b"small")
files.invalidate_cache()
assert files.ls(f"{bucket}/t") == [f"{bucket}/t/deep", f"{bucket}/t/small", f"{bucket}/t/table.csv"]
assert files.glob(f"{bucket}/**/*.parquet") == [f"{bucket}/t/deep/table.parquet"]
assert files.info(f"{bucket}/large")["size"] == 1000 << 10
assert files.isdir(f"{bucket}/t/deep") and not files.exists(f"{bucket}/none")
files.cp_file(f"{bucket}/t/small", f"{bucket}/t/copy")
files.mv(f"{bucket}/t/copy", f"{bucket}/moved")
assert files.cat(f"{bucket}/moved") == b"small"
files.rm(f"{bucket}/t", recursive=True)
files.invalidate_cache()
assert files.find(bucket) == [f"{bucket}/large", f"{bucket}/moved"]
"""
_AIO = """
import asyncio, sys
from gcloud.aio.storage import Storage

async def main(bucket):
    async with Storage() as storage:
        await storage.upload(bucket, "aio/small", b"small")
        large = bytes(range(256)) * 4096 * 3
        await storage.upload(bucket, "aio/large", large, force_resumable_upload=True)
        assert await storage.download(bucket, "aio/small") == b"small"
        assert await storage.download(bucket, "aio/large") == large
        listed = await storage.list_objects(bucket, params={"prefix": "aio/"})
        assert [item["name"] for item in listed["items"]] == ["aio/large", "aio/small"]
        await storage.delete(bucket, "aio/small")

asyncio.run(main(sys.argv[1]))
"""


def _run(program: str, *arguments: str, **environment: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=scaled(_SECONDS),
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]


def test_pandas_writes_and_reads_tables_through_gcsfs(bucket: storage.Bucket, store_url: str) -> None:
    # Else gcsfs asks for the type of the bucket by gRPC with TLS, which fails after a minute each time.
    _run(_TABLES, bucket.name, store_url, GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT="false")


def test_gcloud_aio_uploads_and_downloads(bucket: storage.Bucket, store_url: str) -> None:
    _run(_AIO, bucket.name, STORAGE_EMULATOR_HOST=store_url)


def test_the_client_made_from_the_discovery_document_works(store_url: str) -> None:
    # Its uploads go to the document's rootUrl, whatever api_endpoint says.
    document = {**json.loads(get_static_doc("storage", "v1")), "rootUrl": f"{store_url}/"}
    with build_from_document(document, http=build_http()) as service:
        name = f"b-{uuid.uuid4().hex[:12]}"
        service.buckets().insert(project="demo-project", body={"name": name}).execute()
        assert service.buckets().get(bucket=name).execute()["name"] == name
        assert name in [
            item["name"] for item in service.buckets().list(project="demo-project").execute()["items"]
        ]

        media = MediaIoBaseUpload(
            io.BytesIO(_MORE_THAN_TWO_CHUNKS), "application/x-test", chunksize=_CHUNK, resumable=True
        )
        request = service.objects().insert(bucket=name, name="large", media_body=media)
        answer = None
        while answer is None:
            _, answer = request.next_chunk()
        small = MediaIoBaseUpload(io.BytesIO(b"small"), "text/plain")
        service.objects().insert(bucket=name, body={"name": "small"}, media_body=small).execute()

        found = service.objects().list(bucket=name, fields="items(name,size)").execute()
        assert found == {
            "items": [
                {"name": "large", "size": str(len(_MORE_THAN_TWO_CHUNKS))},
                {"name": "small", "size": "5"},
            ]
        }
        # With a query this long the client sends a POST that says it is a GET.
        assert "items" not in service.objects().list(bucket=name, prefix="ü" * 500).execute()
        resource = service.objects().get(bucket=name, object="large").execute()
        assert resource["contentType"] == "application/x-test"
        back = io.BytesIO()
        download = MediaIoBaseDownload(
            back, service.objects().get_media(bucket=name, object="large"), chunksize=_CHUNK
        )
        is_done = False
        while not is_done:
            _, is_done = download.next_chunk()
        assert back.getvalue() == _MORE_THAN_TWO_CHUNKS


@pytest.mark.needs_program("curl")
def test_curl_uploads_json_as_media_and_downloads_it(store_url: str) -> None:
    name = uuid.uuid4().hex
    body = json.dumps({"name": "this is contents, not a resource"})

    def curl(*arguments: str) -> str:
        command = ["curl", "--silent", "--show-error", "--fail", "--noproxy", "*", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=scaled(60)).stdout

    answer = curl(
        *("-X", "POST", "-H", "Content-Type: application/json", "--data-binary", body),
        f"{store_url}/upload/storage/v1/b/bkt/o?uploadType=media&name=f%2F{name}",
    )

    assert json.loads(answer)["contentType"] == "application/json"
    assert curl(f"{store_url}/storage/v1/b/bkt/o/f%2F{name}?alt=media") == body
    assert curl("-r", "2-5", f"{store_url}/bkt/f/{name}") == body[2:6]
    found = web.get(f"{store_url}/storage/v1/b/bkt/o/f%2F{name}").json()
    assert found["size"] == str(len(body))
