"""The service with ``TRAINING_RUNTIME``: what jobs start in, and when it does not start."""

from __future__ import annotations

from pathlib import Path

import pytest

from container_engines.memory.engine import MemoryEngine
from tests.integration.live_service import IMAGE, run_service
from tests.support import web
from tests.support.waiting import wait_until
from training_api.errors import EngineError
from training_service.settings import ServiceSettings
from training_service.wiring import build_service


class Engine(MemoryEngine):
    """One with a second runtime."""

    def runtimes(self) -> frozenset[str] | None:
        return frozenset({"runc", "runsc"})


@pytest.mark.parametrize(("setting", "runtime"), [("runsc", "runsc"), ('{"gpu": "runsc"}', "")])
def test_jobs_run_in_the_runtime_that_is_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: str, runtime: str
) -> None:
    monkeypatch.setenv("TRAINING_RUNTIME", setting)
    with run_service(tmp_path, engine=Engine()) as service:
        job = {"jobId": "a_job", "trainingInput": {"region": "r", "masterConfig": {"imageUri": IMAGE}}}
        web.post(f"{service.endpoint}/v1/projects/p/jobs", json=job).raise_for_status()
        (launch,) = wait_until(service.engine.launches, "the job is started")

    assert launch.runtime == runtime


def test_a_service_whose_engine_lacks_the_runtime_does_not_start(tmp_path: Path) -> None:
    settings = ServiceSettings(database_url=f"sqlite:///{tmp_path / 'jobs.db'}", runtime="kata")

    with pytest.raises(EngineError, match="no container runtime kata"):
        build_service(settings, Engine())
