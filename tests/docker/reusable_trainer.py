"""A trainer that the base image can run, and the object store that it reads and writes."""

from __future__ import annotations

from container_training.work.object_store import ObjectStore
from local_stack.stack import LocalStack

#: Reads its data and leaves a model and metrics, with nothing but the standard library.
TRAINER = """
import json, os, sys, urllib.parse, urllib.request
host = os.environ["STORAGE_EMULATOR_HOST"]
def split(uri):
    bucket, _, name = uri.removeprefix("gs://").partition("/")
    return bucket, urllib.parse.quote(name, safe="")
def option(name):
    return sys.argv[sys.argv.index(name) + 1]
bucket, name = split(option("--data"))
data = urllib.request.urlopen(f"{host}/storage/v1/b/{bucket}/o/{name}?alt=media").read()
for file, value in (("metrics.json", {"rows": len(data.split())}), ("model.joblib", data.decode())):
    bucket, name = split(option("--job-dir").rstrip("/") + "/" + file)
    url = f"{host}/upload/storage/v1/b/{bucket}/o?uploadType=media&name={name}"
    urllib.request.urlopen(urllib.request.Request(url, json.dumps(value).encode(), method="POST"))
"""


def object_store(stack: LocalStack) -> ObjectStore:
    """Return a client of the stack's object store, to be closed."""
    from google.auth.credentials import AnonymousCredentials
    from google.cloud import storage

    client = storage.Client(
        project=stack.settings.project,
        credentials=AnonymousCredentials(),
        client_options={"api_endpoint": stack.settings.object_store_url},
    )
    return ObjectStore(client)
