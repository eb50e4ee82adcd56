"""A played Docker Engine that speaks HTTP, for docker-py's real client."""

from __future__ import annotations

import json
import re
import select
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import docker

_PATH = re.compile(r"/v[\d.]+/(.*)")
_SECONDS = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """
    What containers of an image do.

    :param lines: stream, 1 or 2, and text.
    :param exit_code: they end with it at once; ``None``: when they are stopped.
    :param ignores_sigterm: a stop kills them.
    """

    lines: tuple[tuple[int, str], ...] = ()
    exit_code: int | None = None
    out_of_memory: bool = False
    ignores_sigterm: bool = False


@dataclass(slots=True)
class _Container:
    body: dict[str, Any]
    name: str
    program: Program
    state: str = "created"
    exit_code: int = 0
    ended: threading.Event = field(default_factory=threading.Event)

    def end(self, exit_code: int) -> None:
        self.state, self.exit_code = "exited", exit_code
        self.ended.set()


@dataclass(slots=True)
class FakeDocker:
    """
    An engine.

    :param images: what it has, by name.
    :param registry: what a pull gets, by name; another one is unknown.
    :param imported: what containers of imported images do.
    :param refusals: a pattern of the beginning of ``METHOD path`` -> status and message of the answer.
    :param pull_error: ends each pull, within its stream.
    :param hanging: requests that are not answered until ``release`` is set -> what their answer, a stream,
        begins with; empty: not even its head.
    :param hanging_ends: how the names of more such requests end.
    :param hung_up: those of them whose caller went away.
    :param cut_off: requests whose answer, a stream, ends in its middle.
    :param requests: ``METHOD path`` of all that was asked.
    :param made: the bodies of the containers that were made.
    :param archives: what was unpacked in containers: ``PUT path``, and the tar file.
    """

    url: str = ""
    images: dict[str, Program] = field(default_factory=dict)
    registry: dict[str, Program] = field(default_factory=dict)
    imported: Program = Program(exit_code=0)
    refusals: dict[str, tuple[int, str]] = field(default_factory=dict)
    pull_error: str = ""
    hanging: dict[str, str] = field(default_factory=dict)
    hanging_ends: set[str] = field(default_factory=set)
    release: threading.Event = field(default_factory=threading.Event)
    hung_up: list[str] = field(default_factory=list)
    cut_off: set[str] = field(default_factory=set)
    requests: list[str] = field(default_factory=list)
    made: list[dict[str, Any]] = field(default_factory=list)
    archives: list[tuple[str, bytes]] = field(default_factory=list)
    logins: list[str] = field(default_factory=list)
    containers: dict[str, _Container] = field(default_factory=dict)
    networks: dict[str, dict[str, Any]] = field(default_factory=dict)
    secrets: dict[str, dict[str, Any]] = field(default_factory=dict)
    lock: threading.RLock = field(default_factory=threading.RLock)

    def client(self) -> docker.APIClient:
        """Return a client of it."""
        return docker.APIClient(base_url=self.url, version="1.41")


class _Refused(Exception):
    def __init__(self, status: int, message: str) -> None:
        self.status, self.message = status, message


@contextmanager
def run_fake_docker() -> Iterator[FakeDocker]:
    """Serve an engine without anything on a port of this machine."""
    fake = FakeDocker()

    class Handler(_Handler):
        engine = fake

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    fake.url = f"tcp://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield fake
    finally:
        fake.release.set()
        for container in list(fake.containers.values()):
            container.ended.set()
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    engine: FakeDocker
    protocol_version = "HTTP/1.1"
    # Else each answer waits 40 ms for the client's acknowledgement of its head.
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def do_PUT(self) -> None:
        self._answer()

    def do_DELETE(self) -> None:
        self._answer()

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def _answer(self) -> None:
        url = urlsplit(self.path)
        path = match[1] if (match := _PATH.fullmatch(url.path)) else url.path.lstrip("/")
        asked = f"{self.command} {unquote(path)}"
        sent = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.command == "PUT":
            self.engine.archives.append((asked, sent))
        is_json = self.headers.get("Content-Type", "").startswith("application/json")
        body = json.loads(sent) if is_json and sent else {}
        query = {key: values[0] for key, values in parse_qs(url.query).items()}
        self.engine.requests.append(asked)
        hangs = asked in self.engine.hanging or any(map(asked.endswith, self.engine.hanging_ends))
        if hangs and not self._hang(asked):
            self.engine.hung_up.append(asked)
            self.close_connection = True
            return
        if asked in self.engine.cut_off:
            self._begin_stream(b'{"status": "Pulling"}\r\n')
            self.close_connection = True
            return
        try:
            for pattern, (status, message) in self.engine.refusals.items():
                if re.match(pattern, asked):
                    raise _Refused(status, message)
            self._route(asked, query, body)
        except _Refused as refused:
            self._send(refused.status, {"message": refused.message})

    def _route(self, asked: str, query: Mapping[str, str], body: dict[str, Any]) -> None:
        kind, *name = asked.partition(" ")[2].split("/")
        if kind == "images":
            self._images(name, query)
        elif kind == "networks":
            self._networks(name, query, body)
        elif kind == "containers":
            self._containers(name, query, body)
        elif kind == "secrets":
            self._secrets(name, query, body)
        elif kind == "_ping":
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"OK")
        else:
            machine = {"NCPU": 2, "MemTotal": 2**32}
            self._send(200, {"Version": "20.10.24", "ApiVersion": "1.41", **machine})

    def _images(self, name: list[str], query: Mapping[str, str]) -> None:
        if name == ["create"] and "fromSrc" in query:
            self.engine.images[f"{query['repo']}:{query['tag']}"] = self.engine.imported
            return self._send(200, {"status": "Done"})
        if name == ["create"]:
            return self._pull(query)
        if name == ["json"]:
            return self._send(200, [])  # none has the labels that are asked for
        image = "/".join(name[:-1])
        if image not in self.engine.images:
            raise _Refused(404, f"No such image: {image}")
        return self._send(200, {"Id": image, "RepoDigests": [], "Size": 1})

    def _networks(self, name: list[str], query: Mapping[str, str], body: dict[str, Any]) -> None:
        networks = self.engine.networks
        if name == ["create"]:
            networks[body["Name"]] = {**body, "Id": body["Name"]}
            self._send(201, {"Id": body["Name"]})
        elif name and self.command == "GET":
            pool = {"Gateway": "10.89.0.1", "Subnet": "10.89.0.0/24"}
            self._send(200, {**networks[name[0]], "IPAM": {"Config": [pool]}})
        elif name:
            del networks[name[0]]
            self._send(204)
        else:
            self._send(200, [each for each in networks.values() if _fits(each["Labels"], query)])

    def _containers(self, name: list[str], query: Mapping[str, str], body: dict[str, Any]) -> None:
        if name == ["create"]:
            self._create(query, body)
        elif name == ["json"]:
            self._send(200, [_row(each) for each in self._all() if _fits(each.body["Labels"], query)])
        elif name[1:] == ["archive"]:
            self._find(name[0])
            self._send(200)
        else:
            self._container(self._find(name[0]), "".join(name[1:]), query)

    def _secrets(self, name: list[str], query: Mapping[str, str], body: dict[str, Any]) -> None:
        kept = self.engine.secrets
        if name == ["create"]:
            if body["Name"] in kept:
                raise _Refused(409, "rpc error: code = AlreadyExists desc = secret already exists")
            kept[body["Name"]] = body
            self._send(201, {"ID": f"id-{body['Name']}"})
        elif name:
            del kept[name[0].removeprefix("id-")]
            self._send(204)
        else:
            wanted = json.loads(query.get("filters", "{}")).get("name", [""])[0]
            found = [each for each in kept.values() if each["Name"].startswith(wanted)]
            shown = [{"ID": f"id-{each['Name']}", "Spec": each} for each in found]
            self._send(200, [each for each in shown if _fits(each["Spec"]["Labels"], query)])

    def _all(self) -> list[_Container]:
        with self.engine.lock:
            return list(self.engine.containers.values())

    def _find(self, name: str) -> _Container:
        for container in self._all():
            if name in (container.name, _id_of(container)):
                return container
        raise _Refused(404, f"No such container: {name}")

    def _pull(self, query: Mapping[str, str]) -> None:
        image = f"{query['fromImage']}{'@' if ':' in query['tag'] else ':'}{query['tag']}"
        self.engine.logins.append(self.headers.get("X-Registry-Auth", ""))
        error = self.engine.pull_error or ("" if image in self.engine.registry else "manifest unknown")
        if not error:
            self.engine.images[image] = self.engine.registry[image]
        messages = [{"status": "Pulling"}, {"error": error} if error else {"status": "Done"}]
        self._stream(b"".join(json.dumps(message).encode() + b"\r\n" for message in messages))

    def _create(self, query: Mapping[str, str], body: dict[str, Any]) -> None:
        program = self.engine.images.get(body["Image"])
        if program is None:
            raise _Refused(404, f"No such image: {body['Image']}")
        with self.engine.lock:
            name = query.get("name", f"made-up-{len(self.engine.made)}")
            container = self.engine.containers[name] = _Container(body, name, program)
            self.engine.made.append(body)
        self._send(201, {"Id": _id_of(container)})

    def _container(self, container: _Container, what: str, query: Mapping[str, str]) -> None:
        if what == "json":
            return self._send(200, _description(container))
        if what == "wait":
            container.ended.wait(_SECONDS)
            return self._send(200, {"StatusCode": container.exit_code})
        if what == "logs":
            return self._logs(container, follow=query.get("follow") == "1")
        if what == "start":
            container.state = "running"
            container.ended.clear()
            if container.program.exit_code is not None:
                container.end(container.program.exit_code)
        elif what == "stop" and container.state == "running":
            container.end(137 if container.program.ignores_sigterm else 143)
        elif what == "kill" and container.state != "running":
            raise _Refused(409, f"Container {container.name} is not running")
        elif what in ("kill", ""):
            container.end(137)
        if self.command == "DELETE":
            with self.engine.lock:
                self.engine.containers.pop(container.name, None)
        return self._send(204)

    def _logs(self, container: _Container, *, follow: bool) -> None:
        self._stream(_frames(container.program), lambda: container.ended.wait(_SECONDS if follow else 0))

    def _hang(self, asked: str) -> bool:
        """Answer no further until the engine lets go; whether the caller is there still."""
        with suppress(ConnectionError):  # the caller went away with bytes on their way
            if says := self.engine.hanging.get(asked, ""):
                self._begin_stream(says.encode())
            while not self.engine.release.wait(0.02):
                readable, _, _ = select.select([self.connection], [], [], 0)
                if readable and not self.connection.recv(1, socket.MSG_PEEK):
                    return False
            return True
        return False

    def _begin_stream(self, content: bytes) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        if content:
            self.wfile.write(f"{len(content):x}\r\n".encode() + content + b"\r\n")

    def _stream(self, content: bytes, wait: Callable[[], object] = lambda: None) -> None:
        """Answer in a chunk, as the engine does; ``wait`` before the end."""
        self._begin_stream(content)
        wait()
        self.wfile.write(b"0\r\n\r\n")

    def _send(self, status: int, content: Any = None) -> None:
        data = b"" if content is None else json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def _id_of(container: _Container) -> str:
    return container.name.encode().hex().ljust(64, "0")[:64]


def _fits(labels: Mapping[str, str] | None, query: Mapping[str, str]) -> bool:
    wanted = json.loads(query.get("filters", "{}")).get("label", [])
    has = labels or {}
    return all(item in has or item in {f"{key}={value}" for key, value in has.items()} for item in wanted)


def _row(container: _Container) -> dict[str, Any]:
    return {
        "Id": _id_of(container),
        "State": container.state,
        "Labels": container.body["Labels"],
        "NetworkSettings": {"Networks": {}},
    }


def _description(container: _Container) -> dict[str, Any]:
    return {
        "Id": _id_of(container),
        "State": {
            "Status": container.state,
            "ExitCode": container.exit_code,
            "OOMKilled": container.program.out_of_memory,
            "StartedAt": "2026-01-01T00:00:00.123456789Z",
            "FinishedAt": "2026-01-01T00:00:02.123456789Z",
        },
    }


def _frames(program: Program) -> bytes:
    frames = b""
    for place, (stream, text) in enumerate(program.lines):
        payload = f"2026-01-01T00:00:0{place % 10}.000000000Z {text}\n".encode()
        frames += struct.pack(">BxxxL", stream, len(payload)) + payload
    return frames
