"""The service as a process: its own log, the lock on its database, the HTTP server."""

from __future__ import annotations

import logging
import sys

import structlog
import uvicorn

from training_service.access.signing_key import InvalidSigningKey
from training_service.access.tokens_file import InvalidTokensFile
from training_service.locking import DatabaseInUse, hold_database
from training_service.settings import LogFormat, ServiceSettings
from training_service.studies.installed import TuningNotInstalled
from training_service.wiring import build_service

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
            app = build_service(settings)
            uvicorn.run(
                app,
                host=settings.host,
                port=settings.port,
                log_config=None,
                access_log=False,
                timeout_graceful_shutdown=5,
            )
    except (DatabaseInUse, InvalidTokensFile, InvalidSigningKey, TuningNotInstalled) as error:
        logger.error("cannot start", reason=str(error))
        return 1
    return 0


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
