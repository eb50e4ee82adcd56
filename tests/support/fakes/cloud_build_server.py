"""Cloud Build's API, v1, over gRPC: builds are kept in memory, and do what a test says."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
from google.cloud.devtools.cloudbuild_v1 import types  # noqa: TID253  # its messages
from google.longrunning.operations_pb2 import Operation

_SERVICE = "google.devtools.cloudbuild.v1.CloudBuild"
DIGEST = "sha256:" + "d" * 64


class CloudBuildServer:
    """
    The builds of all projects.

    A build goes one of ``course`` on with each look at it, and stays at the last.
    """

    def __init__(self) -> None:
        self.address = ""
        self.builds: dict[str, Any] = {}
        self.created: list[Any] = []
        self.cancelled: list[str] = []
        self.course = ["QUEUED", "WORKING", "SUCCESS"]
        #: What a build says beside its status when it has ended.
        self.end: Callable[[Any], object] = _pushed
        #: Method -> the code with which it refuses.
        self.refusals: dict[str, grpc.StatusCode] = {}
        self._looks: dict[str, Iterator[str]] = {}
        self._numbers = itertools.count(1)

    def create_build(self, request: Any) -> Operation:
        build = types.Build(request.build)
        build.id, build.project_id = f"build-{next(self._numbers)}", request.project_id
        build.log_url = f"https://console.cloud.google.com/cloud-build/builds/{build.id}"
        self.created.append(request)
        self.add(build)
        operation = Operation(name=f"operations/{build.id}")
        operation.metadata.Pack(types.BuildOperationMetadata.pb(types.BuildOperationMetadata(build=build)))
        return operation

    def add(self, build: Any) -> None:
        """Keep a build at the first of ``course``."""
        self.builds[build.id] = build
        self._looks[build.id] = iter(self.course)
        build.status = next(self._looks[build.id])

    def get_build(self, request: Any) -> Any:
        build = self.builds[request.id]
        build.status = next(self._looks[request.id], build.status.name)
        if build.status.name not in ("QUEUED", "PENDING", "WORKING"):
            self.end(build)
        return build

    def list_builds(self, request: Any) -> Any:
        """Return the builds with all tags that the filter names; it has no other form here."""
        wanted = {part.removeprefix('tags="').rstrip('"') for part in request.filter.split(" AND ")}
        return types.ListBuildsResponse(
            builds=[build for build in self.builds.values() if wanted <= set(build.tags)]
        )

    def cancel_build(self, request: Any) -> Any:
        self.cancelled.append(request.id)
        build = self.builds[request.id]
        self._looks[request.id] = iter(())
        build.status = "CANCELLED"
        return build


def _pushed(build: Any) -> None:
    if build.status.name == "SUCCESS":
        images = [types.BuiltImage(name=name, digest=DIGEST) for name in build.images]
        build.results = types.Results(images=images)


@contextmanager
def serve_cloud_build() -> Iterator[CloudBuildServer]:
    """Run the server on a free port of this machine, without TLS."""
    builds = CloudBuildServer()
    methods = {
        "CreateBuild": (builds.create_build, types.CreateBuildRequest, None),
        "GetBuild": (builds.get_build, types.GetBuildRequest, types.Build),
        "ListBuilds": (builds.list_builds, types.ListBuildsRequest, types.ListBuildsResponse),
        "CancelBuild": (builds.cancel_build, types.CancelBuildRequest, types.Build),
    }

    def handler(name: str, answer: Callable[[Any], Any], request: Any, response: Any) -> Any:
        def respond(message: Any, context: grpc.ServicerContext) -> Any:
            if name in builds.refusals:
                context.abort(builds.refusals[name], f"{name} is refused")
            return answer(message)

        return grpc.unary_unary_rpc_method_handler(
            respond,
            request_deserializer=request.deserialize,
            response_serializer=response.serialize if response else Operation.SerializeToString,
        )

    handlers = {name: handler(name, *parts) for name, parts in methods.items()}
    server = grpc.server(ThreadPoolExecutor(max_workers=2))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_SERVICE, handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    builds.address = f"127.0.0.1:{port}"
    try:
        yield builds
    finally:
        server.stop(None).wait()
