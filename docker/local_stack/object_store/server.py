"""
gcp-storage-emulator behind a server that holds what a training job does to it.

The emulator (2026.7.19) answers one connection at a time, with a backlog of five: a client that connects and
says nothing stops everybody, and parallel trials wait for retransmitted connection requests. Its metadata
file is written in place, so a kill in that moment loses the store. It keeps objects under their own names, so
``model/`` and ``model/weights`` cannot both exist, which Google's clients and TensorFlow rely on. Here:

- each connection has a thread; a request is read completely, answered under one lock (the emulator's storage
  is not thread-safe), and only then written back;
- files are replaced atomically;
- contents lie under the hash of their object's name;
- policies of buckets are the training service's (``bucket_policies.py``), and containers cannot reach them;
- preconditions and generations of requests are kept (``object_conditions.py``);
- uploads of gcloud are taken: a multipart one whose boundary is in single quotes, and a resumable one below
  ``/resumable/upload``;
- links to an object's content name the host that the reader asked, not the one that the writer did:
  containers and this machine reach the store under different names, and the client for Python downloads from
  the link.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import logging
import os
import re
import signal
import socket
import sys
import threading
from functools import partial, partialmethod
from http import HTTPStatus
from http.server import ThreadingHTTPServer
from pathlib import Path
from types import FrameType
from typing import Any, BinaryIO
from urllib.parse import quote

from gcp_storage_emulator import server as emulator
from gcp_storage_emulator.storage import Storage, _FileStore

from local_stack.object_store.bucket_policies import BucketPolicies, bucket_of_policy
from local_stack.object_store.conditions import BadCondition, ConditionNotMet, Conditions, next_generation
from local_stack.processes.relay import CONTAINERS_ADDRESS

logger = logging.getLogger(__name__)

_SINGLE_QUOTED_BOUNDARY = re.compile(r"""boundary='([^'"]*)'""")


class AtomicFileStore(_FileStore):  # type: ignore[misc]  # the emulator has no types
    """Files that are either the old or the new ones, whenever the process is killed."""

    def write_bytes(self, rel: str, content: bytes) -> None:
        """Replace the file ``rel`` by one with ``content``; makes its folder."""
        path: Path = self._disk_path(rel)
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_name(f"{path.name}.new")
        fresh.write_bytes(content)
        fresh.replace(path)


class DurableStorage(Storage):  # type: ignore[misc]  # the emulator has no types
    """
    The emulator's storage with atomic writes; object names may be prefixes of others.

    ``reader_url`` is the store's URL as the client of the present request knows it, ``conditions`` what it
    demands of the objects.
    """

    reader_url = ""
    conditions = Conditions()
    method = emulator.GET

    def __init__(self, data_dir: Path) -> None:
        super().__init__(data_dir=str(data_dir.absolute()))
        self._store = AtomicFileStore(use_memory=False, root=data_dir.absolute() / "objects")
        self._read_config_from_file()

    def get_file_obj(self, bucket_name: str, file_name: str) -> dict[str, Any]:
        """Return an object's metadata; a copy."""
        found = super().get_file_obj(bucket_name, file_name)
        if self.method == emulator.GET:
            self.conditions.check_read(found)
        elif self.method == emulator.POST:
            self.conditions.check_source(found)
        return self._linked(found)

    def create_file(
        self, bucket_name: str, file_name: str, content: bytes, file_obj: dict[str, Any], file_id: Any = None
    ) -> None:
        """Write an object, if it is as the request wants it."""
        present = self.objects.get(bucket_name, {}).get(file_name)
        self.conditions.check_write(present)
        file_obj["generation"] = next_generation(present, file_obj["generation"])
        super().create_file(bucket_name, file_name, content, file_obj, file_id)

    def patch_object(self, bucket_name: str, file_name: str, file_obj: dict[str, Any]) -> None:
        """Write an object's metadata, if it is as the request wants it."""
        self.conditions.check_write(self.objects.get(bucket_name, {}).get(file_name))
        super().patch_object(bucket_name, file_name, file_obj)

    def delete_file(self, bucket_name: str, file_name: str) -> None:
        """Delete an object, if it is as the request wants it."""
        present = self.objects.get(bucket_name, {}).get(file_name)
        if present and self.method == emulator.DELETE:
            self.conditions.check_delete(present)
        super().delete_file(bucket_name, file_name)

    def get_file_list(self, *arguments: Any, **keywords: Any) -> tuple[list[dict[str, Any]], list[str]]:
        """Return the metadata of the objects that match, and the prefixes; copies."""
        objects, prefixes = super().get_file_list(*arguments, **keywords)
        return [self._linked(entry) for entry in objects], prefixes

    def _linked(self, entry: dict[str, Any]) -> dict[str, Any]:
        path = f"/download/storage/v1/b/{entry['bucket']}/o/{quote(entry['name'], safe='')}"
        return {**entry, "mediaLink": f"{self.reader_url}{path}?generation={entry['generation']}&alt=media"}

    def _object_path(self, bucket_name: str, file_name: str) -> str:
        return f"{bucket_name}/{hashlib.sha256(file_name.encode()).hexdigest()}"


class RequestHandler(emulator.RequestHandler):  # type: ignore[misc]  # the emulator has no types
    """Reads the whole request, lets the emulator answer it under the lock, writes the answer."""

    timeout = 60  # seconds in which a client must say something
    wfile: BinaryIO

    def __init__(
        self, storage: DurableStorage, policies: BucketPolicies, lock: threading.Lock, *arguments: Any
    ) -> None:
        self._policies = policies
        self._lock = lock
        super().__init__(storage, *arguments)

    def _accept_upload(self) -> None:
        """Put an upload into the form that the emulator knows."""
        self.path: str = self.path.removeprefix("/resumable")
        content_type = self.headers.get("Content-Type", "")
        if content_type.startswith("multipart/"):
            self.headers.replace_header(
                "Content-Type", _SINGLE_QUOTED_BOUNDARY.sub(r'boundary="\1"', content_type)
            )

    def _answer(self, method: str) -> None:
        body = emulator._read_raw_data(self) or b""
        if method in (emulator.GET, emulator.PUT) and bucket_of_policy(self.path):
            self._answer_policy(method, body)
            return
        self._accept_upload()
        del self.headers["Transfer-Encoding"]
        del self.headers["Content-Length"]
        self.headers["Content-Length"] = str(len(body))
        self.rfile = io.BufferedReader(io.BytesIO(body))
        connection: BinaryIO = self.wfile
        answer = io.BytesIO()
        self.wfile = answer
        try:
            conditions = Conditions.of(self.path)
            if self.path.startswith("/batch") and b"ifGeneration" in body:
                raise BadCondition(
                    "a request within a batch cannot have preconditions here; send it by itself"
                )
            with self._lock:
                self.storage.reader_url = f"http://{self.headers['Host']}"
                self.storage.conditions = conditions
                self.storage.method = self.headers.get("x-http-method-override") or method
                emulator.Router(self).handle(method)
        except ConditionNotMet as error:
            status = HTTPStatus.NOT_MODIFIED if error.is_unchanged else HTTPStatus.PRECONDITION_FAILED
            self._refuse(status, "conditionNotMet", str(error))
        except BadCondition as error:
            self._refuse(HTTPStatus.BAD_REQUEST, "invalid", str(error))
        except Exception:
            # The emulator lets errors escape, and its clients would see a closed connection.
            logger.exception("%s %s failed", method, self.path)
            answer.seek(0)
            answer.truncate()
            self.send_error(HTTPStatus.INTERNAL_SERVER_ERROR)
        connection.write(answer.getvalue())

    def _refuse(self, status: HTTPStatus, reason: str, message: str) -> None:
        problem = {"code": status, "message": message, "errors": [{"reason": reason, "message": message}]}
        content = b"" if status is HTTPStatus.NOT_MODIFIED else json.dumps({"error": problem}).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json; charset=UTF-8")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _answer_policy(self, method: str, body: bytes) -> None:
        """Ask the training service, without the lock: other requests need not wait for it."""
        if self.client_address[0] == CONTAINERS_ADDRESS:
            # A job that may write into a bucket must not thereby decide who else may.
            self.send_error(HTTPStatus.FORBIDDEN, "containers cannot read or change the policies of buckets")
            return
        with self._lock:
            buckets = frozenset(self.storage.buckets)
        status, answer = self._policies.answer(method, self.path, self.headers, body, buckets)
        self.send_response(status)
        self.send_header("Content-Type", "application/json; charset=UTF-8")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_GET = partialmethod(_answer, emulator.GET)  # noqa: N815  # names that the base class looks up
    do_POST = partialmethod(_answer, emulator.POST)  # noqa: N815  # the same
    do_PUT = partialmethod(_answer, emulator.PUT)  # noqa: N815  # the same
    do_PATCH = partialmethod(_answer, emulator.PATCH)  # noqa: N815  # the same
    do_DELETE = partialmethod(_answer, emulator.DELETE)  # noqa: N815  # the same


class ObjectStoreServer(ThreadingHTTPServer):
    """One thread a connection."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, host: str, port: int, data_dir: Path, training_url: str | None = None) -> None:
        self.lock = threading.Lock()
        self._policies = BucketPolicies(training_url)
        handler = partial(RequestHandler, DurableStorage(data_dir), self._policies, self.lock)
        super().__init__((host, port), handler)

    def server_close(self) -> None:
        """Stop listening, and close what this server opened."""
        super().server_close()
        self._policies.close()

    def server_bind(self) -> None:
        """Bind, without the reverse look-up of the host's name that can take seconds."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])


def serve(host: str, port: int, data_dir: Path, training_url: str | None) -> None:
    """Serve until SIGTERM or SIGINT; the request that is being answered is finished first."""
    server = ObjectStoreServer(host, port, data_dir, training_url)

    def stop(_signal: int, _frame: FrameType | None) -> None:
        # shutdown() waits for the loop, which runs in this very thread
        threading.Thread(target=server.shutdown).start()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    logger.info("object store on %s:%d, data in %s", host, server.server_port, data_dir)
    server.serve_forever()
    with server.lock:
        server.server_close()
        logging.shutdown()
        os._exit(0)  # threads of idle connections must not delay the end


def main() -> int:
    """Parse the command line and serve."""
    parser = argparse.ArgumentParser(prog="python -m local_stack.object_store.server", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--training-url", help="the training service, which keeps the policies of buckets")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    # The emulator warns at every answer that is a text.
    logging.getLogger("gcp_storage_emulator.server").addFilter(
        lambda record: "handled as string" not in str(record.msg)
    )
    serve(arguments.host, arguments.port, arguments.data_dir, arguments.training_url)
    return 0


if __name__ == "__main__":
    sys.exit(main())
