"""What Vertex AI has and this service does not, refused by name."""

from __future__ import annotations

from fastapi import HTTPException, Request
from starlette.routing import Match, Route

from training_api.errors import ServiceError
from training_service.api.routes import Routes
from training_service.api.vertex_v1.paths import PREFIX, UNSERVED, UNSERVED_METHODS

#: In the state of a request that another transport has refused already: why. HTTP cannot set it.
REFUSAL = "refusal"
#: Of resources that training clients ask for -> the way out.
WAYS_OUT = {
    "endpoints": "serve the model from its artifactUri in a server of your own",
    "datasets": "have the trainer read from Cloud Storage",
    "tensorboards": "have the trainer write to AIP_TENSORBOARD_LOG_DIR",
    "metadataStores": "log to a tracking server of your own",
}

_MODELS = "models"
#: Methods of models that are not served, though their paths read as the name of one that is.
MODEL_VERBS = (
    *(":listVersions", ":deleteVersion", ":mergeVersionAliases", ":listCheckpoints"),
    *(":export", ":updateExplanationDataset", ":getIamPolicy", ":setIamPolicy", ":testIamPermissions"),
)


class NotServed(ServiceError):
    """A method of Vertex AI that this service does not have."""

    code, status = 501, "UNIMPLEMENTED"


def unserved_router() -> Routes:
    """Return the routes that answer for all that is not served; include it last."""
    router = Routes(prefix=PREFIX, include_in_schema=False)

    @router.api_route(UNSERVED.removeprefix(PREFIX), methods=[*UNSERVED_METHODS])
    def refuse(path: str, request: Request) -> None:
        """Refuse a method that this service does not have."""
        if refusal := getattr(request.state, REFUSAL, None):
            raise refusal
        if _is_served(request) and not path.endswith(MODEL_VERBS):
            raise HTTPException(405, "Method Not Allowed")
        raise NotServed(message_of(path))

    return router


def _is_served(request: Request) -> bool:
    """Tell whether the path is served, by other methods than the request's."""
    others = [route for route in request.app.routes if isinstance(route, Route) and route.path != UNSERVED]
    return any(route.matches(request.scope)[0] is not Match.NONE for route in others)


def message_of(path: str) -> str:
    """Return what is said of a path below the prefix. Pure."""
    if f"/{_MODELS}" in f"/{path}":
        return (
            f"of Vertex AI's models, this service has upload, get, list and delete, and "
            f"not {path[:100]!r}; docs/vertex.md says what works"
        )
    served = (
        "of Vertex AI's v1, this service has customJobs, hyperparameterTuningJobs, trainingPipelines, models, "
        "operations and locations"
    )
    for name, way_out in WAYS_OUT.items():
        if f"/{name}" in f"/{path}":
            return f"{served}, and not {name}; {way_out}"
    return f"{served}, and not {path[:100]!r}; docs/vertex.md says what works"
