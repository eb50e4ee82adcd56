"""Which runtime a replica gets, and what the service says of an engine that lacks it."""

from __future__ import annotations

import pytest
import structlog

from container_engines.memory.engine import MemoryEngine
from training_api.errors import EngineError, EngineUnavailable
from training_service.model.container_runtimes import JobType, RuntimeSetting, check_runtimes, runtime_for

BY_TYPE = {JobType.CONTAINER: "runsc", JobType.GPU: "nvidia"}


class Engine(MemoryEngine):
    """One with runtimes."""

    known: frozenset[str] | None = frozenset({"runc", "runsc"})

    def runtimes(self) -> frozenset[str] | None:
        self._answer()
        return self.known


@pytest.mark.parametrize(
    ("setting", "gpus", "is_package", "expected"),
    [
        ("", 0, False, ""),
        ("runsc", 2, True, "runsc"),
        (BY_TYPE, 0, False, "runsc"),
        (BY_TYPE, 0, True, ""),
        (BY_TYPE, 1, True, "nvidia"),
    ],
)
def test_the_first_type_that_fits_decides(
    setting: RuntimeSetting, gpus: int, is_package: bool, expected: str
) -> None:
    assert runtime_for(setting, gpus=gpus, is_package=is_package) == expected


@pytest.mark.parametrize("setting", ["", "runsc", "io.containerd.kata.v2", {JobType.PACKAGE: "runsc"}])
def test_what_the_engine_has_is_accepted(setting: RuntimeSetting) -> None:
    check_runtimes(setting, Engine())


@pytest.mark.parametrize("setting", ["kata", {JobType.PACKAGE: "runsc", JobType.CONTAINER: "kata"}])
def test_a_runtime_that_the_engine_lacks_is_named_with_the_way_out(setting: RuntimeSetting) -> None:
    with pytest.raises(
        EngineError, match=r"no container runtime kata, .* it has runc, runsc: add .*daemon\.json"
    ):
        check_runtimes(setting, Engine())


def test_an_engine_that_chooses_itself_is_not_told() -> None:
    engine = Engine()
    engine.known = None

    check_runtimes("", engine)
    with pytest.raises(EngineError, match=r"default-runtime in daemon\.json of each machine"):
        check_runtimes("runsc", engine)


def test_an_engine_that_does_not_answer_does_not_stop_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> None:
        raise EngineUnavailable("down")

    monkeypatch.setattr(Engine, "_answer", refuse)
    with structlog.testing.capture_logs() as logs:
        check_runtimes("kata", Engine())

    assert [(each["log_level"], each["runtimes"]) for each in logs] == [("warning", ["kata"])]
