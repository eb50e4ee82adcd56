"""
What becomes of a request that the database does not serve.

It is answered 503, with the time after which to ask again.
"""

from __future__ import annotations

import sqlalchemy as sa
import structlog
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

from training_service.api.errors import error_response

#: A client that is told so comes back with the others; each pause of its own is longer.
RETRY_AFTER_SECONDS = 2
#: PostgreSQL: query_canceled. Source: its manual, appendix A.
_CANCELED = "57014"

logger = structlog.get_logger(__name__)


def install_database_errors(app: FastAPI) -> None:
    """Give database errors the API's form."""

    @app.exception_handler(sa.exc.TimeoutError)
    def _full(request: Request, _: sa.exc.TimeoutError) -> JSONResponse:
        logger.warning("all connections for requests are in use", path=request.url.path)
        return _later("The service is busy: all its database connections for requests are in use.")

    @app.exception_handler(sa.exc.OperationalError)
    def _unanswered(request: Request, error: sa.exc.OperationalError) -> JSONResponse:
        if _is_too_long(error):
            logger.warning("a statement took too long", path=request.url.path)
            return _later(
                "The database took too long to answer this request (setting TRAINING_API_STATEMENT_SECONDS). "
                "Ask for less at once: a narrower filter or a smaller page."
            )
        logger.error("the database does not answer", path=request.url.path, reason=str(error.orig))
        return _later("The service's database does not answer now.")

    @app.exception_handler(sa.exc.DataError)
    def _refused(request: Request, error: sa.exc.DataError) -> JSONResponse:
        logger.warning("the database refuses a value", path=request.url.path, reason=str(error.orig))
        return error_response(400, "The request has a value that the database cannot take or compare.")


def _is_too_long(error: sa.exc.OperationalError) -> bool:
    code = getattr(error.orig, "sqlstate", None) or getattr(error.orig, "sqlite_errorname", "")
    return code in (_CANCELED, "SQLITE_INTERRUPT")


def _later(message: str) -> JSONResponse:
    response = error_response(503, f"{message} Try again in {RETRY_AFTER_SECONDS} s.")
    response.headers["Retry-After"] = str(RETRY_AFTER_SECONDS)
    return response
