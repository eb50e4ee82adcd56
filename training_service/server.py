"""The service as a process: its own log, the lock on its database, the HTTP server."""

from __future__ import annotations

import ctypes
import gc
import logging
import sys
import threading
import time
from collections.abc import Callable

import sqlalchemy as sa
import structlog
import uvicorn
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from training_api.errors import TrainingError
from training_service.http_config import http_config
from training_service.locking import hold_database
from training_service.settings import LogFormat, ServiceSettings
from training_service.stopping import REQUESTS_SECONDS, StoppableServer
from training_service.wiring import build_service

#: uvicorn's own.
_STARTUP_FAILED = 3
#: Another service has taken the jobs over, or the database hangs: whoever restarts what failed starts this
#: one anew.
_TAKEN_OVER = 1
#: How often freed memory is given back; it takes some milliseconds.
_TRIM_SECONDS = 60.0
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


def serve(settings: ServiceSettings) -> int:
    """Run the service until it is stopped; return the exit status."""
    _configure_logging(settings.log_format)
    logger = structlog.get_logger("training_service")
    if settings.require_auth:
        logger.info(
            "callers need a bearer token; the IAM policies decide", tokens_file=str(settings.tokens_file)
        )
    elif settings.host in _LOOPBACK:
        logger.info("open to every user of this machine, reachable over loopback only", host=settings.host)
    else:
        logger.warning("open to everybody who reaches this address: jobs run code", host=settings.host)
    if settings.fault_injection:
        logger.warning("fault injection is on: administrators may have this service make mistakes")
    try:
        with hold_database(settings.database_url):
            return _run(settings)
    except TrainingError as error:
        logger.error("cannot start", reason=str(error))
        return 1
    except sa.exc.OperationalError as error:
        logger.error(
            "cannot start",
            reason=f"the database does not answer: {error.orig}; check the server, any proxy before it, and "
            "TRAINING_DATABASE_URL",
        )
        return 1


def _run(settings: ServiceSettings) -> int:
    """
    Serve, and return the exit status.

    0: a signal came; 1: it has to be started anew, as another service has taken the jobs over, or the
    database hangs.
    """
    app = build_service(settings, on_lost=lambda: server.leave(_TAKEN_OVER))
    _keep_memory_small()
    server = StoppableServer(service_config(app, settings.host, settings.port))
    return server.exit_status if server.run_until_told() else _STARTUP_FAILED


def service_config(app: ASGIApp, host: str, port: int) -> uvicorn.Config:
    """Return how the service's own HTTP server runs; port 0: a free one."""
    return http_config(
        _BearsGoneClients(app), host=host, port=port, timeout_graceful_shutdown=REQUESTS_SECONDS
    )


class _BearsGoneClients:
    """An app to whose log a client that goes away within an answer adds no traceback."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""

        async def send_if_there(message: Message) -> None:
            try:
                await send(message)
            except RuntimeError as error:
                # uvloop's own, from when it notices that the client has gone until uvicorn does.
                if "the handler is closed" not in str(error):
                    raise

        await self._app(scope, receive, send_if_there)


def _keep_memory_small() -> None:
    """
    From now on give back what was freed.

    Modules, routes and models, which stay, are taken out of garbage collection.
    """
    gc.collect()
    gc.freeze()
    # glibc keeps what was freed below its newest block; other C libraries do not have the function.
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim:
        threading.Thread(target=_trim, args=(trim,), name="trim", daemon=True).start()


def _trim(trim: Callable[[int], int]) -> None:
    while True:
        trim(0)
        time.sleep(_TRIM_SECONDS)


def _configure_logging(log_format: LogFormat) -> None:
    """structlog over the standard library's logging, on stderr."""
    shared: list[structlog.types.Processor] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    ]
    renderer: structlog.types.Processor = (
        structlog.processors.JSONRenderer()
        if log_format is LogFormat.JSON
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler()
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                renderer,
            ],
        )
    )
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
