"""Vertex AI's Model Registry in memory, in place of the Google provider's hook."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Self

from google.api_core.exceptions import AlreadyExists, NotFound


class FakeVertexModels:
    """
    A provider's hook and its client: only what ``VertexModelsHook`` uses.

    :ivar uploads: the requests of uploads that were taken, the oldest first.
    :ivar is_pending: an upload is taken, and its model is not there yet.
    :ivar failure: raised to who waits for an upload that was taken.
    """

    def __init__(self, project_id: str = "p-1") -> None:
        self.project_id = project_id
        self.region = ""
        self.models: dict[str, dict[str, Any]] = {}
        self.uploads: list[dict[str, Any]] = []
        self.is_pending = False
        self.refusal: Exception | None = None
        self.failure: BaseException | None = None

    def get_model_service_client(self, region: str) -> Self:
        self.region = region
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    @staticmethod
    def common_location_path(project: str, region: str) -> str:
        return f"projects/{project}/locations/{region}"

    @staticmethod
    def model_path(project: str, region: str, model_id: str) -> str:
        return f"projects/{project}/locations/{region}/models/{model_id}"

    def get_model(self, *, name: str) -> Any:
        if name not in self.models or self.is_pending:
            raise NotFound(name)
        return SimpleNamespace(name=name, version_id="1")

    def upload_model(self, *, request: dict[str, Any]) -> Any:
        if self.refusal:
            raise self.refusal
        name = f"{request['parent']}/models/{request['model_id']}"
        if name in self.models:
            raise AlreadyExists(name)
        self.models[name] = request["model"]
        self.uploads.append(request)
        return SimpleNamespace(result=lambda timeout: self._result(name))

    def _result(self, name: str) -> Any:
        if self.failure:
            raise self.failure
        return SimpleNamespace(model=name, model_version_id="1")
