"""Engines with images that behave in known ways, for tests that all engines pass."""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace

import docker

from container_engines.base import METRIC_FILE, Engine, ObservedReplica, ReplicaLaunch
from container_engines.docker.engine import DockerEngine
from container_engines.labels import SERVICE
from container_engines.memory.engine import Behaviour, MemoryEngine
from container_engines.memory.scripted_reports import ScriptedReport
from container_engines.swarm.engine import SwarmEngine
from tests.support.bed.podman import has_one_tree_of_groups
from tests.support.full_memory import FULL_MEMORY
from tests.support.run_id import current_run
from tests.support.waiting import wait_until
from training_api.job.cluster import ReplicaId, ReplicaRole
from training_api.job.image_ref import ImageRef, parse_image_ref
from training_api.job.machines import Resources
from training_api.job.restarts import Attempt
from training_api.states import ReplicaState

MIB = 1024**2
MASTER = ReplicaId(role=ReplicaRole.MASTER)


class Bench(ABC):
    """One engine with images that behave in known ways."""

    engine: Engine
    known_image: ImageRef
    #: Whether a container that was killed for its memory can be told from one that was killed.
    tells_out_of_memory = True
    #: Whether what a container uses is known.
    tells_usage = True

    @abstractmethod
    def launch(self, behaviour: str) -> ReplicaLaunch:
        """
        Return a launch of a small program.

        ``prints``, ``fails``, ``sleeps``, ``stubborn``, ``hungry``, ``reports`` or ``broken``.
        """

    @abstractmethod
    def pass_time(self) -> None:
        """Let what ends by itself end."""

    def wait_for(self, condition: Callable[[ObservedReplica], bool]) -> ObservedReplica:
        """Return the only replica once ``condition`` holds."""

        def reached() -> ObservedReplica:
            self.pass_time()
            (replica,) = self.engine.observe().replicas
            assert condition(replica), replica
            return replica

        return wait_until(reached, f"the replica {condition.__name__}", seconds=120, ignoring=AssertionError)


class MemoryBench(Bench):
    """The engine in memory."""

    known_image = parse_image_ref("registry.test/project/known:1")

    def __init__(self) -> None:
        self.engine = self.memory = MemoryEngine()
        self.memory.add_image(self.known_image, Behaviour())
        behaviours = {
            "prints": Behaviour(lines=("one", "two")),
            "fails": Behaviour(exit_code=3),
            "sleeps": Behaviour(lines=("up",), run_seconds=10**9),
            "stubborn": Behaviour(lines=("up",), run_seconds=10**9, ignores_sigterm=True),
            "reports": Behaviour(
                reports=(ScriptedReport(after_seconds=0, tag="accuracy", step=1, value=0.5),)
            ),
            "hungry": Behaviour(exit_code=137, out_of_memory=True),
            "broken": Behaviour(exit_code=127, lines=("exec no-such-program failed",)),
        }
        for name, behaviour in behaviours.items():
            self.memory.add_image(parse_image_ref(f"registry.test/project/{name}:1"), behaviour)

    def launch(self, behaviour: str) -> ReplicaLaunch:
        image = self.engine.pull_image(parse_image_ref(f"registry.test/project/{behaviour}:1"))
        return make_launch(image.image_id)

    def pass_time(self) -> None:
        self.memory.advance(1)


PROGRAMS = {
    "prints": "import sys; print('one'); print('two', file=sys.stderr)",
    "fails": "import sys; sys.exit(3)",
    "sleeps": "import time; print('up', flush=True); time.sleep(600)",
    "stubborn": "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)",
    "reports": "import os; open(os.environ['METRIC_FILE'], 'w').write('accuracy\\n')",
    "tells": "import os; p = '/run/secrets/ca'; print(open(p).read(), oct(os.stat(p).st_mode), os.environ['API_KEY'])",
    "brings": "import os; p = '/run/launcher/run.py'; open('/gcs/new', 'w').close(); "
    "print(open(p).read(), oct(os.stat(p).st_mode), oct(os.stat('/gcs').st_mode))",
    "hungry": FULL_MEMORY,
}


class DockerBench(Bench):
    """A Docker Engine, seen by a service of the test's own."""

    def __init__(self, known_image: ImageRef, engine: Engine | None = None) -> None:
        self.known_image = known_image
        self.engine = engine or DockerEngine(service_id=new_service_id())

    def launch(self, behaviour: str) -> ReplicaLaunch:
        image_id = self.engine.pull_image(self.known_image).image_id
        launch = make_launch(image_id)
        if behaviour == "broken":
            return replace(launch, command=("no-such-program",))
        return replace(launch, command=("python3", "-u", "-c", PROGRAMS[behaviour]))

    def pass_time(self) -> None:
        pass

    def secrets_left(self) -> list[object]:
        """Return the engine's own secrets; a single engine has none."""
        return []


class SwarmBench(DockerBench):
    """A swarm, seen by a service of the test's own."""

    tells_out_of_memory = False  # but for containers on the manager
    tells_usage = False

    def __init__(self, known_image: ImageRef, manager: str) -> None:
        service_id = new_service_id()
        super().__init__(
            known_image, SwarmEngine(service_id, manager, stop_grace_seconds=1, prepare_seconds=300)
        )
        self._manager = manager
        self._own = {"label": f"{SERVICE}={service_id}"}

    def secrets_left(self) -> list[object]:
        with closing(docker.APIClient(self._manager)) as client:
            return list(client.secrets(filters=self._own))


class PodmanBench(DockerBench):
    """Podman through its Docker-compatible API, seen by a service of the test's own."""

    # With control groups of version 1, its monitor (conmon 2.1.6) does not see that the memory was full.
    tells_out_of_memory = has_one_tree_of_groups()

    def __init__(self, known_image: ImageRef, docker_host: str) -> None:
        super().__init__(known_image, DockerEngine(new_service_id(), docker_host))


def new_service_id() -> str:
    """Return the id of a service of the test's own, whose things are this run's."""
    service_id = f"test-{uuid.uuid4().hex}"
    current_run().own_label(SERVICE, service_id)
    return service_id


def make_launch(image_id: str, command: tuple[str, ...] = ()) -> ReplicaLaunch:
    return ReplicaLaunch(
        job_uid=uuid.uuid4().hex[:12],
        job_id="job",
        project="project",
        replica=MASTER,
        attempt=Attempt(),
        image_id=image_id,
        host_name="cmle-training-master-0123456789-0",
        command=command,
        args=(),
        environment={"GREETING": "hello", "METRIC_FILE": METRIC_FILE},
        resources=Resources(cpus=1, memory_bytes=64 * MIB),
        pids_limit=64,
    )


def is_ended(replica: ObservedReplica) -> bool:
    return replica.state is ReplicaState.EXITED


def is_running(replica: ObservedReplica) -> bool:
    return replica.state is ReplicaState.RUNNING
