"""Whatever happens, in any order: every job ends, by legal steps, and leaves no container."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from container_engines.base import EngineView
from container_engines.memory.engine import Behaviour
from tests.support.fakes.world import PROJECT, World
from training_api.dialects.ml_v1.resources import ReplicaConfig
from training_api.errors import EngineBusy, EngineError
from training_api.states import LEGAL, TERMINAL, JobState
from training_service.store.database import open_database

_IMAGES = {
    "registry.test/p/quick:1": Behaviour(run_seconds=1),
    "registry.test/p/slow:1": Behaviour(run_seconds=500),
    "registry.test/p/failing:1": Behaviour(run_seconds=3, exit_code=2),
    "registry.test/p/killed:1": Behaviour(run_seconds=3, exit_code=137),
    "registry.test/p/shaky:1": Behaviour(run_seconds=3, exit_code=143, failures=2),
    "registry.test/p/stubborn:1": Behaviour(run_seconds=900, ignores_sigterm=True),
    "registry.test/p/broken:1": Behaviour(start_error="exec format error"),
    "registry.test/p/absent:1": None,
}
_images = st.sampled_from(sorted(_IMAGES))


class ServiceMachine(RuleBasedStateMachine):
    """People submit and cancel, time passes, processes die, engine and registry come and go."""

    @initialize()
    def begin(self) -> None:
        self.world = World(open_database("sqlite://"))
        self.job_ids: list[str] = []
        for image, behaviour in _IMAGES.items():
            if behaviour:
                self.world.add_image(behaviour, image)

    @rule(image=_images, worker_image=_images, workers=st.integers(0, 3))
    def submit(self, image: str, worker_image: str, workers: int) -> None:
        self.job_ids.append(f"job_{len(self.job_ids)}")
        cluster = {
            "scale_tier": "CUSTOM",
            "master_type": "n1-standard-4",
            "worker_type": "n1-standard-4",
            "worker_count": workers,
            "worker_config": ReplicaConfig(image_uri=worker_image),
        }
        self.world.submit(self.job_ids[-1], image, **cluster)

    @rule(place=st.integers(0, 20))
    def cancel(self, place: int) -> None:
        if self.job_ids:
            self.world.jobs.cancel(PROJECT, self.job_ids[place % len(self.job_ids)])

    @rule(times=st.integers(1, 4))
    def look(self, times: int) -> None:
        for _ in range(times):
            self._step()

    @rule(seconds=st.integers(1, 300))
    def pass_time(self, seconds: int) -> None:
        self.world.engine.advance(seconds)

    @rule()
    def kill_the_service(self) -> None:
        self.world.restart()

    @rule(available=st.booleans())
    def switch_engine(self, available: bool) -> None:
        self.world.engine.available = available

    @rule(available=st.booleans())
    def switch_registry(self, available: bool) -> None:
        self.world.engine.registry_available = available

    @rule(error=st.sampled_from([None, EngineBusy("not now"), EngineError("never")]), pull=st.booleans())
    def refuse(self, error: EngineError | None, pull: bool) -> None:
        setattr(self.world.engine, "pull_error" if pull else "start_error", error)

    @rule(place=st.integers(0, 20), whole=st.booleans())
    def lose_containers(self, place: int, whole: bool) -> None:
        launches = self.world.engine.launches()
        if launches:
            chosen = launches[place % len(launches)]
            self.world.engine.lose(chosen.job_uid, None if whole else chosen.replica)

    @rule(place=st.integers(0, 20), exit_code=st.sampled_from([1, 137, 143]))
    def kill_replica(self, place: int, exit_code: int) -> None:
        launches = self.world.engine.launches()
        if launches:
            chosen = launches[place % len(launches)]
            self.world.engine.end(chosen.job_uid, chosen.replica, exit_code)

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        self.world.engine.available = True
        self.world.engine.registry_available = True
        self.world.engine.pull_error = self.world.engine.start_error = None
        # A job that is killed again and again runs (1 + 5 restarts) x (1 + 3 retries) times.
        for _ in range(24 * len(self.job_ids) + 5):
            self.world.engine.advance(1000)
            for _ in range(8):
                self._step()
            if not self.world.store.list_active():
                break
        self._step()

        for job_id in self.job_ids:
            assert self.world.state(job_id) in TERMINAL, job_id
            assert self.world.get(job_id).end_time is not None
            self._assert_legal(job_id)
        assert self.world.engine.observe() == EngineView()
        self.world.database.dispose()

    def _step(self) -> None:
        try:
            self.world.scheduler.step()
        except EngineError:
            assert not self.world.engine.available

    def _assert_legal(self, job_id: str) -> None:
        entries, _ = self.world.logs.list_page(
            projects=[PROJECT],
            filter_text=f'resource.labels.job_id="{job_id}" AND resource.labels.task_name="service"',
            page_size=1000,
        )
        entries.sort(key=lambda entry: entry.receive_timestamp or entry.timestamp)
        states = [JobState(e.json_payload["state"]) for e in entries if "state" in (e.json_payload or {})]
        assert states[0] is JobState.QUEUED
        for current, successor in itertools.pairwise(states):
            assert successor in LEGAL[current], states


@pytest.mark.extended
def test_every_job_ends_by_legal_steps_and_leaves_nothing() -> None:
    run_state_machine_as_test(
        ServiceMachine,
        settings=settings(
            max_examples=40,
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
