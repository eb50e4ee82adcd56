"""The methods of models, in canonical JSON: what every transport calls."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any

from training_api.dialects.vertex_v1.filters import read_filter
from training_api.dialects.vertex_v1.names import job_name, new_id
from training_api.dialects.vertex_v1.pipelines.filters import OF_MODELS
from training_api.dialects.vertex_v1.pipelines.model_upload import uploaded_model
from training_api.errors import (
    FieldViolation,
    InvalidRequest,
    QuotaExceeded,
    ResourceExists,
    ResourceNotFound,
)
from training_service.api.vertex_v1.canonical import canonical
from training_service.api.vertex_v1.operations import Operations
from training_service.api.vertex_v1.pipelines.model_writer import MODELS, VERSION_ID, model_resource
from training_service.api.vertex_v1.read_mask import masked_page, read_mask
from training_service.api.vertex_v1.unserved import MODEL_VERBS, NotServed, message_of
from training_service.model import paging
from training_service.model.clock import Clock, utc_now
from training_service.model.pipelines import ModelRecord
from training_service.store.pipelines.model_store import ModelStore
from training_service.use_cases.jobs import DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE

MESSAGE, UPLOAD = "Model", "UploadModel"
#: Models of a project that clients have uploaded: a rule of this service, so that no loop of uploads fills
#: the database. Uploads at the same time may exceed it by as many.
MAX_UPLOADED = 10_000


class Models:
    """
    The models of all projects, which pipelines have left or clients have uploaded.

    Nothing changes one.

    :param learn: told of each project that a model is uploaded or deleted in; its number leads to it from
        then on.
    :param random_number: what the ids of uploaded models are made from.
    """

    def __init__(
        self,
        models: ModelStore,
        operations: Operations,
        learn: Callable[[str], None] = lambda project: None,
        clock: Clock = utc_now,
        random_number: Callable[[], int] = lambda: secrets.randbits(63),
    ) -> None:
        self._models = models
        self._operations = operations
        self._learn = learn
        self._clock = clock
        self._random_number = random_number

    def upload(self, project: str, location: str, body: Any) -> dict[str, Any]:
        """
        Keep a model, and return the operation, which is done.

        :param body: the UploadModelRequest, in any form of its JSON.
        :raises BrokenRules: it cannot be read, or breaks rules.
        :raises ResourceExists: the project has a model of this id, in this location or in another.
        :raises QuotaExceeded: clients have uploaded :data:`MAX_UPLOADED` models of the project.
        """
        model_id, model = uploaded_model(canonical(f"{UPLOAD}Request", body))
        record = ModelRecord(
            project=project,
            location=location,
            model_id=model_id or new_id(self._random_number()),
            pipeline_id="",
            model=model,
            created_at=self._clock(),
        )
        if (count := self._models.count_uploaded(project)) >= MAX_UPLOADED:
            raise QuotaExceeded(
                f"project {project!r} has {count:,} uploaded models, and may have {MAX_UPLOADED:,}; delete those "
                "that are no longer needed"
            )
        if not self._models.add(record):
            raise ResourceExists(
                f"project {project!r} has a model {record.model_id!r} already; delete it, or choose another modelId"
            )
        self._learn(project)
        made = model_resource(record)
        response = {"model": made["name"], "modelVersionId": made["versionId"]}
        return self._operations.answered(project, location, UPLOAD, response)

    def list_page(
        self,
        project: str,
        location: str,
        *,
        filter_text: str = "",
        page_size: int = 0,
        page_token: str = "",
        mask: str = "",
        order_by: str = "",
    ) -> dict[str, Any]:
        """
        Return a page of the models of a location, newest first.

        :raises InvalidFilter: the filter cannot be read.
        :raises InvalidRequest: the mask, the page token, the page size or the order is invalid.
        """
        if order_by:
            description = "this service lists the newest models first; leave it out, and sort what is listed"
            raise InvalidRequest([FieldViolation(field="orderBy", description=description)])
        paths = read_mask(mask, MESSAGE)
        tree = read_filter(filter_text, OF_MODELS)
        size = paging.page_size(page_size, default=DEFAULT_PAGE_SIZE, maximum=MAX_PAGE_SIZE)
        records, token = self._models.list_page(project, location, tree, size, page_token)
        return masked_page(MODELS, map(model_resource, records), paths, token)

    def get(self, project: str, location: str, model_id: str) -> dict[str, Any]:
        """
        Return a model.

        :param model_id: may be followed by ``@`` and a version, by its id or by an alias.
        :raises ResourceNotFound: there is none, in another location, or not of this version.
        :raises NotServed: a method of the model is asked for that there is not.
        """
        plain, at, version = model_id.partition("@")
        found = model_resource(self._found(project, location, plain))
        if at and version not in (VERSION_ID, *found["versionAliases"]):
            raise ResourceNotFound(
                f"The Model {found['name']!r} has no version {version[:100]!r}; "
                f"it has {VERSION_ID}, {', '.join(found['versionAliases'])}"
            )
        return found

    def delete(self, project: str, location: str, model_id: str) -> dict[str, Any]:
        """
        Remove a model, and return the operation, which is done; what lies in Cloud Storage stays.

        :raises ResourceNotFound: there is none.
        """
        found = self._found(project, location, model_id)
        self._models.remove(project, found.model_id)
        # Its operation is asked for by the number, and this may have been all that the project had.
        self._learn(project)
        return self._operations.done(project, location)

    def _found(self, project: str, location: str, model_id: str) -> ModelRecord:
        if model_id.endswith(MODEL_VERBS):
            raise NotServed(message_of(f"{MODELS}/{model_id}"))
        found = self._models.get(project, model_id)
        if found is None or found.location != location:
            name = job_name(project, location, MODELS, model_id[:100])
            where = f"; it is in {found.location}" if found else ""
            raise ResourceNotFound(f"The Model does not exist: {name!r}{where}")
        return found
