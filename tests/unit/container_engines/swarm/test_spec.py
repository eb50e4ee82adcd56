"""The service that a run of a replica is."""

from __future__ import annotations

from dataclasses import replace

from container_engines.base import GivenSecrets, ReplicaLaunch
from container_engines.labels import attempt_of, replica_labels, replica_of
from container_engines.swarm.spec import is_stopped, secret_name, service_name, service_spec, stopped
from container_engines.swarm.tasks import Node
from container_engines.swarm.way_out import WayOut
from training_api.job.cluster import ReplicaId, ReplicaRole
from training_api.job.machines import Resources
from training_api.job.restarts import Attempt

MIB = 1024**2
LAUNCH = ReplicaLaunch(
    job_uid="0123456789ab",
    job_id="job",
    project="project",
    replica=ReplicaId(role=ReplicaRole.WORKER, index=1),
    attempt=Attempt(retry=1, restart=2),
    image_id="registry.test/project/image@sha256:" + "0" * 64,
    host_name="cmle-training-worker-0123456789-1",
    command=(),
    args=("--lr", "0.1"),
    environment={"GREETING": "hello"},
    resources=Resources(cpus=1.5, memory_bytes=64 * MIB, gpus=2),
    pids_limit=64,
)


def machine(node_id: str, cpus: float, memory_bytes: int) -> Node:
    resources = Resources(cpus=cpus, memory_bytes=memory_bytes)
    return Node(node_id=node_id, name=node_id, resources=resources, is_down=False, is_open=True)


def test_service_is_bounded_and_runs_once() -> None:
    nodes = [machine("slow", 1, 512 * MIB), machine("small", 4, 32 * MIB), machine("right", 2, 64 * MIB)]
    labels = replica_labels("service", LAUNCH)

    spec = service_spec(
        LAUNCH, network_id="net", secret_ids={}, labels=labels, grace_seconds=2.5, nodes=nodes
    )

    template = spec["TaskTemplate"]
    container = template["ContainerSpec"]
    assert spec["Name"] == service_name(LAUNCH) == "ct-0123456789ab-worker-replica-1-1-2"
    assert spec["Mode"] == {"Replicated": {"Replicas": 1}}
    assert template["RestartPolicy"] == {"Condition": "none"}
    assert template["Resources"]["Limits"] == {"NanoCPUs": 15 * 10**8, "MemoryBytes": 64 * MIB, "Pids": 64}
    assert template["Resources"]["Reservations"] == {
        "GenericResources": [{"DiscreteResourceSpec": {"Kind": "NVIDIA-GPU", "Value": 2}}]
    }
    assert template["Placement"]["Constraints"] == ["node.id!=slow", "node.id!=small"]
    assert template["Networks"] == [{"Target": "net", "Aliases": [LAUNCH.host_name]}]
    assert container["Hostname"] == LAUNCH.host_name
    assert container["Command"] is None
    assert container["Args"] == ["--lr", "0.1"]
    assert container["Env"] == ["GREETING=hello"]
    assert container["StopGracePeriod"] == 2_500_000_000
    assert "NET_RAW" in container["CapabilityDrop"]
    assert (replica_of(container["Labels"]), attempt_of(container["Labels"])) == (
        LAUNCH.replica,
        LAUNCH.attempt,
    )


def test_a_launch_with_a_machine_runs_there_and_has_its_share_of_it_reserved() -> None:
    share = Resources(cpus=0.375, memory_bytes=16 * MIB)
    launch = replace(
        LAUNCH, resources=Resources(cpus=1.5, memory_bytes=64 * MIB), machine="n2", reserved=share
    )
    nodes = [machine("n1", 1, 32 * MIB), machine("n2", 2, 64 * MIB)]

    spec = service_spec(launch, network_id="net", secret_ids={}, labels={}, grace_seconds=1, nodes=nodes)

    template = spec["TaskTemplate"]
    assert template["Placement"]["Constraints"] == ["node.id==n2"]
    assert template["Resources"]["Reservations"] == {"NanoCPUs": 375_000_000, "MemoryBytes": 16 * MIB}


def test_stopped_service_keeps_all_but_its_place() -> None:
    spec = service_spec(LAUNCH, network_id="net", secret_ids={}, labels={}, grace_seconds=1, nodes=[])

    after = stopped(spec)

    assert (is_stopped(spec), is_stopped(after)) == (False, True)
    after["TaskTemplate"]["Placement"] = spec["TaskTemplate"]["Placement"]
    assert after == spec


def test_secrets_are_files_of_the_swarm_and_variables_that_replace_no_others() -> None:
    secrets = GivenSecrets(files={"ca": b"x"}, environment={"API_KEY": "k", "GREETING": "replaced"})
    launch = replace(LAUNCH, secrets=secrets)

    spec = service_spec(
        launch, network_id="net", secret_ids={"ca": "id"}, labels={}, grace_seconds=1, nodes=[]
    )

    container = spec["TaskTemplate"]["ContainerSpec"]
    (given,) = container["Secrets"]
    assert given["File"] == {"Name": "ca", "UID": "0", "GID": "0", "Mode": 0o444}
    assert (given["SecretID"], given["SecretName"]) == ("id", secret_name(launch, "ca"))
    assert len(secret_name(launch, "a" * 56)) <= 64
    assert sorted(container["Env"]) == ["API_KEY=k", "GREETING=hello"]


def test_files_beside_the_image_are_at_their_paths_and_folders_may_be_written() -> None:
    launch = replace(LAUNCH, files={"/run/launcher/run.py": b"1"}, folders=("/gcs",))

    spec = service_spec(
        launch,
        network_id="net",
        secret_ids={"/run/launcher/run.py": "id"},
        labels={},
        grace_seconds=1,
        nodes=[],
    )

    container = spec["TaskTemplate"]["ContainerSpec"]
    assert container["Secrets"][0]["File"]["Name"] == "/run/launcher/run.py"
    assert container["Mounts"] == [{"Type": "tmpfs", "Target": "/gcs", "TmpfsOptions": {"Mode": 0o1777}}]


def test_a_way_out_takes_the_place_of_the_swarms() -> None:
    spec = service_spec(
        LAUNCH,
        network_id="net",
        secret_ids={},
        labels={},
        grace_seconds=1,
        nodes=[],
        way_out=WayOut("out", dns=["192.0.2.1"], hosts={"mlflow.lan": "10.9.9.9"}),
    )

    template = spec["TaskTemplate"]
    assert template["Networks"] == [{"Target": "net", "Aliases": [LAUNCH.host_name]}, {"Target": "out"}]
    assert template["ContainerSpec"]["Hostname"] == f"{LAUNCH.host_name}-self"
    assert template["ContainerSpec"]["DNSConfig"]["Nameservers"] == ["192.0.2.1"]
    assert "10.9.9.9 mlflow.lan" in template["ContainerSpec"]["Hosts"]
