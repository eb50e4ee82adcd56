"""What every engine does: the one in memory, Docker, Podman, and a swarm of three machines."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from container_engines.base import METRIC_FILE_NAME, EngineView, GivenSecrets
from container_engines.pull_watch import PullAbandoned, PullWatch
from tests.contract.engine_benches import (
    MIB,
    Bench,
    DockerBench,
    MemoryBench,
    PodmanBench,
    SwarmBench,
    is_ended,
    is_running,
)
from tests.support.speed import scaled
from tests.support.waiting import wait_until
from training_api.errors import EngineError, ImageNotFound
from training_api.job.image_ref import parse_image_ref
from training_api.states import ReplicaState

#: Rootful, so that its containers have limits also with control groups of version 1.
PODMAN = (pytest.mark.docker, pytest.mark.needs_root, pytest.mark.needs_program("podman"))


@pytest.fixture(
    params=[
        "memory",
        pytest.param("docker", marks=pytest.mark.docker),
        pytest.param("podman", marks=PODMAN),
        pytest.param("swarm", marks=pytest.mark.docker),
    ]
)
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    bench: Bench
    if request.param == "memory":
        bench = MemoryBench()
    elif request.param == "docker":
        bench = DockerBench(request.getfixturevalue("pushed_image"))
    elif request.param == "podman":
        podman = request.getfixturevalue("podman")
        bench = PodmanBench(request.getfixturevalue("podman_image"), podman.docker_host)
    else:
        manager = request.getfixturevalue("swarm").manager.docker_host
        bench = SwarmBench(request.getfixturevalue("swarm_image"), manager)
    yield bench
    for job_uid in bench.engine.observe().job_uids:
        bench.engine.remove_job(job_uid)
    assert bench.engine.observe() == EngineView()
    bench.engine.close()


class TestEngineContract:
    def test_an_address_nobody_has_is_no_jobs(self, bench: Bench) -> None:
        assert not bench.engine.job_at("10.255.255.254")
        assert not bench.engine.job_at("")

    def test_a_container_that_nobody_started_is_no_replica(self, bench: Bench) -> None:
        machine = next(iter(bench.engine.hosts()))

        assert bench.engine.job_on(machine, "0" * 64) is None
        assert bench.engine.job_on(machine, "") is None

    def test_host_has_cores_and_memory(self, bench: Bench) -> None:
        hosts = bench.engine.hosts()

        assert bench.engine.ping()
        assert hosts
        assert all(host.cpus >= 1 and host.memory_bytes > 256 * MIB for host in hosts.values())

    def test_fresh_service_sees_nothing(self, bench: Bench) -> None:
        assert bench.engine.observe() == EngineView()

    def test_image_that_does_not_exist_is_not_found(self, bench: Bench) -> None:
        known = bench.known_image
        absent = parse_image_ref(f"{known.host}/project/absent:1")

        with pytest.raises(ImageNotFound):
            bench.engine.pull_image(absent)

    def test_pull_that_was_given_up_is_not_made_and_another_is(self, bench: Bench) -> None:
        given_up = PullWatch()
        given_up.cancel()

        with pytest.raises(PullAbandoned):
            bench.engine.pull_image(bench.known_image, watch=given_up)

        assert bench.engine.pull_image(bench.known_image, watch=PullWatch()).image_id

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

    @pytest.mark.proves("running out of memory is reported at once", on="one machine")
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
        # What handles the signal, the program or the container's init, is in place when there is a line.
        next(iter(bench.engine.read_logs(running.container_id, 0)))

        grace_seconds = 1 if behaviour == "stubborn" else round(scaled(30))
        bench.engine.stop_replica(running.container_id, grace_seconds=grace_seconds)

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

    @pytest.mark.docker
    @pytest.mark.parametrize(
        "bench", ["docker", pytest.param("podman", marks=PODMAN), "swarm"], indirect=True
    )
    @pytest.mark.proves("secrets", on="swarm")
    def test_secrets_are_there_from_the_first_instruction_on_and_go_with_the_job(
        self, bench: DockerBench
    ) -> None:
        secrets = GivenSecrets(files={"ca": b"a certificate"}, environment={"API_KEY": "a key"})
        launch = replace(bench.launch("tells"), secrets=secrets)

        bench.engine.start_replica(launch)
        ended = bench.wait_for(is_ended)
        (line,) = bench.engine.read_logs(ended.container_id, 0)
        bench.engine.remove_job(launch.job_uid)

        assert line.text == "a certificate 0o100444 a key"
        assert bench.secrets_left() == []

    @pytest.mark.docker
    @pytest.mark.parametrize(
        "bench", ["docker", pytest.param("podman", marks=PODMAN), "swarm"], indirect=True
    )
    def test_files_beside_the_image_are_at_their_paths_and_open_folders_can_be_written(
        self, bench: DockerBench
    ) -> None:
        launch = replace(
            bench.launch("brings"), files={"/run/launcher/run.py": b"brought"}, folders=("/gcs",)
        )

        bench.engine.start_replica(launch)
        ended = bench.wait_for(is_ended)
        (line,) = bench.engine.read_logs(ended.container_id, 0)
        bench.engine.remove_job(launch.job_uid)

        assert line.text == "brought 0o100444 0o41777"
        assert bench.secrets_left() == []

    @pytest.mark.proves("use: CPU and memory of replicas", on="one machine")
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
