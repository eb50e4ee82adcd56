"""
MLflow's model registry as a mirror of ours.

Versions have their origin as tags; the alias is ``champion``.

Spoken to by its REST API, so nothing of MLflow is installed beside Airflow (docs/adr). MLflow has no
conditional write: its alias follows the pointer in the object store, and never leads.

Source: https://mlflow.org/docs/latest/rest-api.html (2026-11-20), seen on MLflow 3.17.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx

from container_training.work.models.champion import Reading
from container_training.work.models.versions import ModelVersion
from training_api.clients.http_session import HttpSession
from training_api.clients.network import DEFAULT_NETWORK
from training_api.errors import RegistryMirrorFailed

ALIAS = "champion"
#: Tag by which a version is found again; MLflow's own numbers are its own.
VERSION_TAG = "container_training.version_id"
_TIMEOUT_SECONDS = 30.0
_MAX_ROUNDS = 20
_EXISTS = frozenset({"RESOURCE_ALREADY_EXISTS"})
_MISSING = frozenset({"RESOURCE_DOES_NOT_EXIST"})
_SET_AT_ONE_MOMENT = frozenset({"BAD_REQUEST"})
#: What MLflow answers when nobody has set the alias.
_NO_ALIAS = frozenset({"INVALID_PARAMETER_VALUE"})


class MlflowRegistry(HttpSession):
    """
    One registered model of an MLflow server.

    :param url: of the server, ``http://HOST:PORT``.
    :param model: its name there.
    :param login: user and password, or ``None``.
    :param token: bearer token, or nothing.
    """

    def __init__(
        self,
        url: str,
        model: str,
        *,
        login: tuple[str, str] | None = None,
        token: str = "",
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._model = model
        http = httpx.Client(
            base_url=f"{url.rstrip('/')}/api/2.0/mlflow/",
            auth=login,
            headers={"Authorization": f"Bearer {token}"} if token else {},
            timeout=_TIMEOUT_SECONDS,
            transport=transport or DEFAULT_NETWORK.transport(url),
        )
        super().__init__(http)

    def show_version(self, version: ModelVersion) -> None:
        """
        Make the server have ``version``.

        :raises RegistryMirrorFailed: it does not answer, or refuses.
        """
        if self._numbers(version.version_id):
            return
        self._call("POST", "registered-models/create", {"name": self._model}, accepted=_EXISTS)
        tags = {
            VERSION_TAG: version.version_id,
            "image": version.image,
            "job_id": version.job_id,
            "snapshot": version.snapshot_uri or "",
            "hold_out": str(version.hold_out or ""),
            "created_by": version.created_by,
            **{f"metric.{name}": str(value) for name, value in version.metrics.items()},
        }
        self._call(
            "POST",
            "model-versions/create",
            {
                "name": self._model,
                "source": version.model.uri,
                "description": f"generation {version.model.generation}",
                "tags": [{"key": key, "value": value[:5000]} for key, value in tags.items() if value],
            },
        )

    def show_champion(self, read: Callable[[], Reading]) -> None:
        """
        Set the alias to the champion that ``read`` returns; once more if that changed meanwhile.

        Whoever sets the alias looks at the pointer after that, so the last one to set it has seen the last
        champion. Two who set it at one moment may both be refused (MLflow on SQLite: a constraint), so each
        looks at what came of it.

        :raises RegistryMirrorFailed: the server does not answer or refuses, or the champion changes without
            end.
        """
        for _ in range(_MAX_ROUNDS):
            reading = read()
            if reading.champion is None:
                return
            wanted = reading.champion.version_id
            self.show_version(reading.champion)
            body = {
                "name": self._model,
                "alias": ALIAS,
                "version": min(self._numbers(wanted), key=int),
            }
            self._call("POST", "registered-models/alias", body, accepted=_SET_AT_ONE_MOMENT)
            if self.champion() == wanted and read().generation == reading.generation:
                return
        raise RegistryMirrorFailed(
            f"MLflow's alias {ALIAS!r} of {self._model!r} is {self.champion()!r} after {_MAX_ROUNDS} tries "
            "to set it to the champion"
        )

    def forget_version(self, version_id: str) -> None:
        """
        Delete a version, if the server has it.

        :raises RegistryMirrorFailed: it does not answer, or refuses.
        """
        for number in self._numbers(version_id):
            self._call(
                "DELETE",
                "model-versions/delete",
                {"name": self._model, "version": number},
                accepted=_MISSING,
            )

    def champion(self) -> str | None:
        """
        Return the version id that the alias names, or ``None``.

        :raises RegistryMirrorFailed: no answer.
        """
        answer = self._call(
            "GET",
            "registered-models/alias",
            {"name": self._model, "alias": ALIAS},
            accepted=_MISSING | _NO_ALIAS,
        )
        tags = (answer.get("model_version") or {}).get("tags", [])
        return next((str(tag["value"]) for tag in tags if tag["key"] == VERSION_TAG), None)

    def _numbers(self, version_id: str) -> list[str]:
        """
        Return MLflow's numbers of a version.

        There are several if two tasks showed it at the same moment.
        """
        answer = self._call(
            "GET",
            "model-versions/search",
            {"filter": f"name = '{self._model}' and tag.`{VERSION_TAG}` = '{version_id}'"},
        )
        return [str(found["version"]) for found in answer.get("model_versions", [])]

    def _call(
        self, method: str, path: str, body: dict[str, Any], *, accepted: frozenset[str] = frozenset()
    ) -> Any:
        """
        Return the answer; an empty one for an error with a code in ``accepted``.

        Such an error leaves nothing to do.
        """
        arguments: dict[str, Any] = {"params": body} if method == "GET" else {"json": body}
        try:
            answer = self._http.request(method, path, **arguments)
        except httpx.HTTPError as error:
            raise RegistryMirrorFailed(
                f"MLflow does not answer at {self._http.base_url}: {error!r}"
            ) from error
        if answer.is_success:
            return answer.json() if answer.content else {}
        if _error_code(answer) in accepted:
            return {}
        raise RegistryMirrorFailed(
            f"MLflow refused {method} {path} of model {self._model!r} with status {answer.status_code}: "
            f"{answer.text[:300]}"
        )


def _error_code(answer: httpx.Response) -> str:
    try:
        return str(answer.json().get("error_code", ""))
    except (ValueError, AttributeError):
        return ""
