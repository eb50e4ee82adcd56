"""What every engine does: the one in memory, Docker, and a swarm of three machines."""

from __future__ import annotations

import threading
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import docker
import pytest

from container_engines.base import (
    METRIC_FILE,
    METRIC_FILE_NAME,
    Engine,
    EngineView,
    ObservedReplica,
    ReplicaLaunch,
)
from container_engines.docker.engine import DockerEngine
from container_engines.labels import SERVICE
from container_engines.memory.engine import Behaviour, MemoryEngine
from container_engines.memory.scripted_reports import ScriptedReport
from container_engines.swarm.engine import SwarmEngine
from container_training.work.images.puller import pull_image
from tests.support.bed.own_engine import run_own_engine
from tests.support.run_id import current_run
from tests.support.waiting import wait_until
from training_api.errors import EngineBusy, EngineError, ImageNotFound, RegistryUnavailable
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
            "sleeps": Behaviour(run_seconds=10**9),
            "stubborn": Behaviour(run_seconds=10**9, ignores_sigterm=True),
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
    "sleeps": "import time; time.sleep(600)",
    "stubborn": "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)",
    "reports": "import os; open(os.environ['METRIC_FILE'], 'w').write('accuracy\\n')",
    "hungry": "held = [bytearray(16 << 20) for _ in range(64)]",
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


class SwarmBench(DockerBench):
    """A swarm, seen by a service of the test's own."""

    tells_out_of_memory = False  # but for containers on the manager
    tells_usage = False

    def __init__(self, known_image: ImageRef, manager: str) -> None:
        super().__init__(known_image, SwarmEngine(new_service_id(), manager, stop_grace_seconds=1))


def new_service_id() -> str:
    """Return the id of a service of the test's own, whose things are this run's."""
    service_id = f"test-{uuid.uuid4().hex}"
    current_run().own_label(SERVICE, service_id)
    return service_id


def make_launch(image_id: str) -> ReplicaLaunch:
    return ReplicaLaunch(
        job_uid=uuid.uuid4().hex[:12],
        job_id="job",
        project="project",
        replica=MASTER,
        attempt=Attempt(),
        image_id=image_id,
        host_name="cmle-training-master-0123456789-0",
        command=(),
        args=(),
        environment={"GREETING": "hello", "METRIC_FILE": METRIC_FILE},
        resources=Resources(cpus=1, memory_bytes=64 * MIB),
        pids_limit=64,
    )


@pytest.fixture(
    params=[
        "memory",
        pytest.param("docker", marks=pytest.mark.docker),
        pytest.param("swarm", marks=pytest.mark.docker),
    ]
)
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    bench: Bench
    if request.param == "memory":
        bench = MemoryBench()
    elif request.param == "docker":
        bench = DockerBench(request.getfixturevalue("pushed_image"))
    else:
        manager = request.getfixturevalue("swarm").manager.docker_host
        bench = SwarmBench(request.getfixturevalue("swarm_image"), manager)
    yield bench
    for job_uid in bench.engine.observe().job_uids:
        bench.engine.remove_job(job_uid)
    assert bench.engine.observe() == EngineView()
    bench.engine.close()


def is_ended(replica: ObservedReplica) -> bool:
    return replica.state is ReplicaState.EXITED


def is_running(replica: ObservedReplica) -> bool:
    return replica.state is ReplicaState.RUNNING


class TestEngineContract:
    def test_an_address_nobody_has_is_no_jobs(self, bench: Bench) -> None:
        assert bench.engine.job_at("10.255.255.254") is None
        assert bench.engine.job_at("") is None

    def test_host_has_cores_and_memory(self, bench: Bench) -> None:
        hosts = bench.engine.hosts()

        assert bench.engine.ping()
        assert hosts
        assert all(host.cpus >= 1 and host.memory_bytes > 256 * MIB for host in hosts)

    def test_fresh_service_sees_nothing(self, bench: Bench) -> None:
        assert bench.engine.observe() == EngineView()

    def test_image_that_does_not_exist_is_not_found(self, bench: Bench) -> None:
        known = bench.known_image
        absent = parse_image_ref(f"{known.host}/project/absent:1")

        with pytest.raises(ImageNotFound):
            bench.engine.pull_image(absent)

    def test_image_is_found_without_a_registry_if_the_engine_has_it(self, bench: Bench) -> None:
        known = bench.known_image
        pulled = bench.engine.pull_image(known)

        assert bench.engine.find_image(known) == pulled
        assert bench.engine.find_image(parse_image_ref(f"{known.host}/project/absent:1")) is None

    def test_replica_that_ends_has_its_exit_code_and_times(self, bench: Bench) -> None:
        bench.engine.start_replica(bench.launch("fails"))

        ended = bench.wait_for(is_ended)

        assert (ended.exit_code, ended.out_of_memory) == (3, False)
        assert ended.started_at is not None
        assert ended.finished_at is not None
        assert ended.started_at <= ended.finished_at

    def test_replica_that_needs_too_much_memory_is_reported(self, bench: Bench) -> None:
        bench.engine.start_replica(bench.launch("hungry"))

        ended = bench.wait_for(is_ended)

        assert ended.exit_code == 137
        assert ended.out_of_memory or not bench.tells_out_of_memory

    def test_starting_twice_makes_one_replica(self, bench: Bench) -> None:
        launch = bench.launch("sleeps")

        bench.engine.start_replica(launch)
        first = bench.wait_for(is_running)
        bench.engine.start_replica(launch)

        assert [replica.container_id for replica in bench.engine.observe().replicas] == [first.container_id]

    def test_program_that_does_not_exist_ends_with_127_and_a_line(self, bench: Bench) -> None:
        bench.engine.start_replica(bench.launch("broken"))

        ended = bench.wait_for(is_ended)

        (line,) = bench.engine.read_logs(ended.container_id, 0)
        assert ended.exit_code == 127
        assert "no-such-program" in line.text

    def test_missing_image_cannot_be_started(self, bench: Bench) -> None:
        launch = replace(bench.launch("prints"), image_id="sha256:" + "0" * 64)

        with pytest.raises(ImageNotFound):
            bench.engine.start_replica(launch)

    @pytest.mark.parametrize("behaviour", ["sleeps", "stubborn"])
    def test_stop_ends_a_replica_also_against_its_will(self, bench: Bench, behaviour: str) -> None:
        bench.engine.start_replica(bench.launch(behaviour))
        running = bench.wait_for(is_running)
        if behaviour == "stubborn" and isinstance(bench, DockerBench):
            # Its handler is in place when it has printed its line.
            next(iter(bench.engine.read_logs(running.container_id, 0)))

        bench.engine.stop_replica(running.container_id, grace_seconds=1)

        (stopped,) = bench.engine.observe().replicas
        assert stopped.state is ReplicaState.EXITED
        assert stopped.exit_code == {"sleeps": 143, "stubborn": 137}[behaviour]

    def test_stopping_and_removing_what_is_gone_is_no_error(self, bench: Bench) -> None:
        bench.engine.stop_replica("0" * 64, grace_seconds=0)
        bench.engine.remove_job("0" * 12)

    def test_remove_takes_a_running_job_away_whole(self, bench: Bench) -> None:
        launch = bench.launch("sleeps")
        bench.engine.start_replica(launch)
        bench.wait_for(is_running)

        bench.engine.remove_job(launch.job_uid)

        assert bench.engine.observe() == EngineView()

    def test_log_is_read_to_its_end_in_order(self, bench: Bench) -> None:
        bench.engine.start_replica(bench.launch("prints"))
        ended = bench.wait_for(is_ended)

        lines = list(bench.engine.read_logs(ended.container_id, 0))
        again = list(bench.engine.read_logs(ended.container_id, lines[-1].timestamp_ns))

        assert sorted(line.text for line in lines) == ["one", "two"]
        assert again[-1] == lines[-1]
        assert len(again) < 2 or lines[0].timestamp_ns == lines[1].timestamp_ns

    def test_metric_file_of_a_replica_is_seen_by_the_service_or_refused(
        self, bench: Bench, tmp_path: Path
    ) -> None:
        launch = replace(bench.launch("reports"), metric_folder=str(tmp_path))

        if not bench.engine.can_read_metrics:
            with pytest.raises(EngineError, match="metrics"):
                bench.engine.start_replica(launch)
            return
        bench.engine.start_replica(launch)
        ended = bench.wait_for(is_ended)

        assert ended.exit_code == 0
        assert "accuracy" in (tmp_path / METRIC_FILE_NAME).read_text()

    def test_usage_is_that_of_a_running_container_or_unknown(self, bench: Bench) -> None:
        bench.engine.start_replica(bench.launch("sleeps"))
        running = bench.wait_for(is_running)

        usage = bench.engine.read_usage(running.container_id)
        bench.engine.stop_replica(running.container_id, 0)
        bench.wait_for(is_ended)

        assert bench.engine.read_usage(running.container_id) is None
        assert bench.engine.read_usage("0" * 64) is None
        if bench.tells_usage:
            assert usage is not None
            assert 0 < usage.cpu_seconds < 5
            assert 0 < usage.memory_bytes < 512 * MIB
        else:
            assert usage is None

    def test_log_of_a_missing_container_is_an_error(self, bench: Bench) -> None:
        with pytest.raises(EngineError):
            list(bench.engine.read_logs("0" * 64, 0))

    def test_event_tells_of_a_start(self, bench: Bench) -> None:
        launch = bench.launch("prints")
        seen = threading.Event()

        def watch() -> None:
            for _ in bench.engine.events():
                seen.set()
                return

        threading.Thread(target=watch, daemon=True).start()

        def starts_and_sees() -> bool:
            # Watching begins at some moment after the thread has started, so starts are repeated until one is
            # seen.
            bench.engine.start_replica(replace(launch, job_uid=uuid.uuid4().hex[:12]))
            return seen.wait(0.5)

        wait_until(starts_and_sees, "a start is seen")


@pytest.mark.docker
class TestDockerEngine:
    """What only the Docker Engine can show."""

    def test_registry_that_is_down_is_told_from_a_missing_image_whoever_pulls(
        self, pushed_image: ImageRef, engine_client: docker.APIClient
    ) -> None:
        silent, absent = "127.0.0.1:1/project/image:1", f"{pushed_image.host}/project/absent:1"

        with closing(DockerEngine("test")) as engine:
            for name, expected in ((silent, RegistryUnavailable), (absent, ImageNotFound)):
                with pytest.raises(expected):
                    engine.pull_image(parse_image_ref(name))
                with pytest.raises(expected):
                    pull_image(engine_client, name, lambda _: {})

    def test_an_engine_on_another_machine_refuses_to_share_a_folder(self) -> None:
        engine = DockerEngine("test", "tcp://203.0.113.1:2375")
        launch = replace(make_launch("image"), metric_folder="/folder")

        with pytest.raises(EngineError, match="another machine"):
            engine.start_replica(launch)

    def test_a_network_that_cannot_be_made_is_an_error_that_says_why(self) -> None:
        """The engine's address pools are used up, as on a machine with many forgotten networks."""
        with run_own_engine("--default-address-pool=base=10.99.0.0/24,size=24") as url:
            client = docker.APIClient(url)
            client.create_network("takes-the-only-one")
            client.close()

            with pytest.raises(EngineBusy, match="non-overlapping IPv4 address pool"):
                DockerEngine("test", url).start_replica(make_launch("image"))

    def test_container_is_bounded_unprivileged_and_alone_in_its_network(
        self, pushed_image: ImageRef, engine_client: docker.APIClient
    ) -> None:
        bench = DockerBench(pushed_image)
        launch = bench.launch("sleeps")
        bench.engine.start_replica(launch)

        container = engine_client.inspect_container(bench.wait_for(is_running).container_id)
        bench.engine.remove_job(launch.job_uid)
        bench.engine.close()

        host = container["HostConfig"]
        assert host["Memory"] == host["MemorySwap"] == 64 * MIB
        assert host["NanoCpus"] == 10**9
        assert host["PidsLimit"] == 64
        assert host["Privileged"] is False
        assert host["CapAdd"] is None
        assert "NET_RAW" in host["CapDrop"]
        assert "no-new-privileges:true" in host["SecurityOpt"]
        assert container["Mounts"] == []
        assert list(container["NetworkSettings"]["Networks"]) == [f"ct-{launch.job_uid}"]
        assert container["Config"]["Hostname"] == launch.host_name
        assert "GREETING=hello" in container["Config"]["Env"]

    def test_services_do_not_see_each_other(self, pushed_image: ImageRef) -> None:
        mine, other = DockerBench(pushed_image), DockerBench(pushed_image)
        launch = mine.launch("sleeps")
        mine.engine.start_replica(launch)

        seen = other.engine.observe()
        other.engine.remove_job(launch.job_uid)
        still_there = mine.engine.observe().job_uids
        mine.engine.remove_job(launch.job_uid)
        mine.engine.close()
        other.engine.close()

        assert seen == EngineView()
        assert still_there == {launch.job_uid}
