"""Whether tasks are deferred by default, and whether a triggerer is there to continue them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

import httpx
from airflow.sdk import conf

_HEALTHY = "healthy"
_ANSWER_SECONDS = 3.0
#: A process that defers one task after the other asks once in this time.
_KEPT_SECONDS = 60.0
#: Address of an API server -> when it was asked, and what it said of the triggerer.
_kept: dict[str, tuple[float, dict[str, Any] | None]] = {}
# Tests put a clock of their own here.
_now: Callable[[], float] = time.monotonic


def is_deferrable(wanted: bool | None) -> bool:
    """Return ``wanted``, or else Airflow's ``[operators] default_deferrable``."""
    if wanted is not None:
        return wanted
    return bool(conf.getboolean("operators", "default_deferrable", fallback=False))


def warn_without_triggerer(log: Any) -> None:
    """
    Log a warning if Airflow has no live triggerer, which a deferred task needs.

    Airflow has no interface by which a task learns of it, so this asks the health check of the API server,
    which needs no login. It is at the address from which workers get their tasks, unless a deployment serves
    the two apart; if it does not answer there, nothing is known and nothing is logged. A process asks once a
    minute, however many tasks it defers.
    """
    health = _recent_health(_api_server())
    if health is None or health.get("status") == _HEALTHY:
        return
    seen = health.get("latest_triggerer_heartbeat")
    log.log(
        logging.WARNING,
        "Airflow has no live triggerer (%s): this task stays deferred until one runs. Start `airflow "
        "triggerer`, or wait on a worker with deferrable=False or [operators] default_deferrable = False",
        f"the last one was seen at {seen}" if seen else "there never was one",
    )


def _recent_health(address: str) -> dict[str, Any] | None:
    """Return what the API server says of the triggerer, or has said within the last minute."""
    asked_at, health = _kept.get(address, (None, None))
    if asked_at is None or _now() >= asked_at + _KEPT_SECONDS:
        health = _health(address)
        _kept[address] = (_now(), health)
    return health


def _health(address: str) -> dict[str, Any] | None:
    """Return what the health check says of the triggerer; ``None``: nothing."""
    try:
        answer = httpx.get(f"{address}/api/v2/monitor/health", timeout=_ANSWER_SECONDS)
        health = answer.raise_for_status().json()["triggerer"]
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, KeyError, TypeError):
        return None
    return health if isinstance(health, dict) else None


def _api_server() -> str:
    """Return the address from which Airflow's executors let workers get their tasks."""
    tasks_from: str = conf.get("core", "execution_api_server_url", fallback="").rstrip("/")
    if tasks_from:
        return tasks_from.removesuffix("/execution")
    base_url: str = conf.get("api", "base_url", fallback="").rstrip("/")
    return base_url if "://" in base_url else f"http://localhost:8080{base_url}"
