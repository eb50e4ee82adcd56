"""``projects.getConfig`` of the v1 API."""

from __future__ import annotations

from fastapi.responses import JSONResponse

from training_api.dialects.ml_v1.dialect import AGENT
from training_api.dialects.ml_v1.resources import GetConfigResponse
from training_api.job.project_number import project_number
from training_service.api.paths import ProjectPath
from training_service.api.routes import Routes


def projects_router() -> Routes:
    """Return the routes of projects themselves."""
    router = Routes(prefix="/v1", tags=["projects"])

    @router.get("/projects/{project}:getConfig", response_model=GetConfigResponse)
    def get_config(project: ProjectPath) -> JSONResponse:
        """Return the project's service agent."""
        config = GetConfigResponse(
            service_account=AGENT.email(project), service_account_project=project_number(project)
        )
        return JSONResponse(config.to_wire())

    return router
