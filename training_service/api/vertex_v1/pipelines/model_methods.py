"""The methods of models, in canonical JSON: what every transport calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from training_api.dialects.vertex_v1.filters import read_filter
from training_api.dialects.vertex_v1.names import job_name
from training_api.dialects.vertex_v1.pipelines.filters import OF_MODELS
from training_api.errors import FieldViolation, InvalidRequest, ResourceNotFound
from training_service.api.vertex_v1.operations import Operations
from training_service.api.vertex_v1.pipelines.model_writer import MODELS, VERSION_ID, model_resource
from training_service.api.vertex_v1.read_mask import masked_page, read_mask
from training_service.api.vertex_v1.unserved import MODEL_VERBS, NotServed, message_of
from training_service.model import paging
from training_service.model.pipelines import ModelRecord
from training_service.store.pipelines.model_store import ModelStore
from training_service.use_cases.jobs import DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE

MESSAGE = "Model"


class Models:
    """
    The models of all projects, which pipelines have left; nothing else makes or changes one.

    :param learn: told of each project that a model is deleted in; its number leads to it from then on.
    """

    def __init__(
        self,
        models: ModelStore,
        operations: Operations,
        learn: Callable[[str], None] = lambda project: None,
    ) -> None:
        self._models = models
        self._operations = operations
        self._learn = learn

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
