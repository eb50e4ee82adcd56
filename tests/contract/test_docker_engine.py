"""What only the Docker Engine can show."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace

import docker
import pytest

from container_engines.base import EngineView, GivenSecrets
from container_engines.docker.driver import DockerDriver
from container_engines.docker.engine import DockerEngine
from container_engines.pull_watch import PullAbandoned, PullWatch
from container_training.work.images.puller import pull_image
from tests.contract.engine_benches import MIB, DockerBench, is_ended, is_running, make_launch
from tests.support.bed.own_engine import run_own_engine
from tests.support.speed import scaled
from training_api.errors import EngineBusy, EngineError, ImageNotFound, RegistryUnavailable
from training_api.job.image_ref import ImageRef, parse_image_ref


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

    def test_pull_from_a_registry_that_never_answers_ends_when_it_is_given_up(self) -> None:
        watch = PullWatch()
        with (
            socket.create_server(("127.0.0.1", 0)) as registry,
            closing(DockerEngine("test")) as engine,
            ThreadPoolExecutor(1) as pool,
        ):
            ref = parse_image_ref(f"127.0.0.1:{registry.getsockname()[1]}/project/image:1")
            pull = pool.submit(engine.pull_image, ref, watch=watch)
            connection, _ = registry.accept()

            watch.cancel()

            with connection, pytest.raises(PullAbandoned):
                pull.result(scaled(60))

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

    def test_a_container_of_a_service_that_was_killed_before_the_start_gets_its_secrets(
        self, pushed_image: ImageRef, engine_client: docker.APIClient, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        bench = DockerBench(pushed_image)
        secrets = GivenSecrets(files={"ca": b"a certificate"}, environment={"API_KEY": "a key"})
        launch = replace(bench.launch("tells"), secrets=secrets)
        with monkeypatch.context() as patched:
            patched.setattr(DockerDriver, "put_files", lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                bench.engine.start_replica(launch)

        bench.engine.start_replica(launch)

        ended = bench.wait_for(is_ended)
        description = str(engine_client.inspect_container(ended.container_id))
        bench.engine.remove_job(launch.job_uid)
        bench.engine.close()
        assert ended.exit_code == 0
        assert "a certificate" not in description
        assert "a key" in description  # docs/access.md says so

    def test_a_container_runs_in_the_runtime_that_is_named(
        self, pushed_image: ImageRef, engine_client: docker.APIClient
    ) -> None:
        """By its second name, under which every engine has runc."""
        bench, runtime = DockerBench(pushed_image), "io.containerd.runc.v2"
        launch = replace(bench.launch("sleeps"), runtime=runtime)
        bench.engine.start_replica(launch)
        container = engine_client.inspect_container(bench.wait_for(is_running).container_id)
        bench.engine.remove_job(launch.job_uid)
        known = bench.engine.runtimes()
        with pytest.raises(EngineError, match=r"in the runtime no-such-runtime: .*no-such-runtime"):
            bench.engine.start_replica(replace(launch, runtime="no-such-runtime"))
        bench.engine.remove_job(launch.job_uid)
        bench.engine.close()

        assert container["HostConfig"]["Runtime"] == runtime
        assert {"runc", runtime} <= (known or set())

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
