"""An object store that only gives downloads, or answers what it is told to."""

from __future__ import annotations

import base64
import hashlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit


class DownloadStore:
    """Objects by ``gs://`` URI, and what the next requests get instead."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.statuses: list[int] = []
        self.damage = 0
        self.location = ""
        self.token = ""
        store = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:  # the base class's name
                store.answer(self)

            def log_message(self, *_: object) -> None:
                return

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(
            target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
        ).start()

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        if request.path == "/computeMetadata/v1/instance/service-accounts/default/token":
            assert request.headers["Metadata-Flavor"] == "Google"
            body = b'{"access_token": "job-token", "expires_in": 3599, "token_type": "Bearer"}'
            request.send_response(200)
            request.send_header("Content-Length", str(len(body)))
            request.end_headers()
            request.wfile.write(body)
            return
        self.token = request.headers.get("Authorization", "")
        bucket, _, name = urlsplit(request.path).path.removeprefix("/download/storage/v1/b/").partition("/o/")
        generation = parse_qs(urlsplit(request.path).query).get("generation")
        version = f"#{generation[0]}" if generation else ""
        content = self.objects.get(f"gs://{bucket}/{unquote(name)}{version}")
        status = self.statuses.pop(0) if self.statuses else (200 if content is not None else 404)
        request.send_response(status)
        body = content if status == 200 and content is not None else b""
        request.send_header("Content-Length", str(len(body)))
        if self.location:
            request.send_header("Location", self.location)
        request.send_header(
            "x-goog-hash",
            f"crc32c=AAAAAA==,md5={base64.b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode()}",
        )
        request.end_headers()
        if self.damage:
            self.damage -= 1
            body = body[:-1] + b"!"
        request.wfile.write(body)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"
