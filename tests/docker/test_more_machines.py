"""
A stack on several machines, which run what ``make join-command`` prints on the first.

All of them are engines in network namespaces; the stack runs in the first one's.
"""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import docker
import httpx
import pytest

from container_engines.docker.client import post
from container_engines.swarm.agent import AGENT_OF
from container_engines.swarm.images import pull_headers
from local_stack.parts.agent_image import agent_image
from local_stack.people.credentials import registry_login
from local_stack.processes.progress import Progress
from tests.support import web
from tests.support.bed.first_machine import PROJECT, SOCKET, FirstMachine, run_there
from tests.support.bed.job_watch import messages, until_state
from tests.support.bed.machines import Machines
from tests.support.bed.swarm import set_availability
from tests.support.dead_runs import remove_tree
from tests.support.run_id import current_run
from tests.support.speed import scaled
from tests.support.waiting import wait_until
from training_api.dialects.ml_v1.resources import (
    Goal,
    HyperparameterSpec,
    Job,
    ParameterSpec,
    ParameterType,
    ReplicaConfig,
    TrainingInput,
)
from training_api.states import JobState

pytestmark = [pytest.mark.docker, pytest.mark.swarm]

#: Every replica reads the object, and writes what it read beside its name; the master waits for the others.
TRAINER = """\
import json, os, sys, time, urllib.parse, urllib.request
store, folder = os.environ["STORAGE_EMULATOR_HOST"], sys.argv[1]
spec = json.loads(os.environ["CLUSTER_SPEC"])
me = f"{spec['task']['type']}-{spec['task']['index']}"

def get(name):
    path = urllib.parse.quote(name, safe="")
    return urllib.request.urlopen(f"{store}/storage/v1/b/demo-bucket/o/{path}?alt=media").read().decode()

def there():
    prefix = urllib.parse.quote(folder, safe="")
    found = json.load(urllib.request.urlopen(f"{store}/storage/v1/b/demo-bucket/o?prefix={prefix}"))
    return [item["name"] for item in found.get("items", [])]

name = urllib.parse.quote(f"{folder}/{me}", safe="")
url = f"{store}/upload/storage/v1/b/demo-bucket/o?uploadType=media&name={name}"
headers = {"Content-Type": "text/plain"}
urllib.request.urlopen(urllib.request.Request(url, get("jobs/question").upper().encode(), headers)).close()
print(me, "wrote", flush=True)
while me.startswith("master") and len(there()) < 3 or not me.startswith("master"):
    time.sleep(0.2)
"""
#: Reports as cloudml-hypertune does: the newest 100 in its file, written anew each time.
REPORTS = """
import json, os, sys, time
path, lines = os.environ["CLOUD_ML_HP_METRIC_FILE"], []
for step in range(1, 31):
    report = {"timestamp": time.time(), "trial": os.environ["CLOUD_ML_TRIAL_ID"], "global_step": str(step)}
    lines.append(json.dumps({**report, "accuracy": str(step / 30)}, sort_keys=True))
    with open(path, "w") as file:
        file.write("\\n".join(lines[-100:]) + "\\n")
    time.sleep(0.2)
"""
DOCKERFILE = """\
FROM {base}
COPY trainer.py /trainer.py
ENTRYPOINT ["python3", "-u", "/trainer.py"]
"""


@pytest.fixture(scope="module")
def machines() -> Iterator[Machines]:
    """Three machines with an engine each, none of which is in a swarm."""
    machines = Machines(3, kind="j")
    try:
        machines.up()
        for node in machines.nodes:
            link = node.run("link", "ln", "-s", node.docker_host.removeprefix("unix://"), SOCKET)
            assert link.wait(scaled(30)) == 0
        yield machines
    finally:
        machines.down()


@pytest.fixture(scope="module")
def first(machines: Machines, engine_client: docker.APIClient, base_image: str) -> Iterator[FirstMachine]:
    """The stack on the first machine; its start was killed twice before."""
    folder = current_run().make_folder("stack")
    first = FirstMachine(machines.nodes[0], folder, base_image)
    first.node.copy_image(base_image, engine_client)
    # It reaches no index of packages, so that it is built beside it.
    agent = agent_image(base_image)
    with closing(docker.from_env()) as client:
        agent.ensure(client, Progress(quiet=True))
    first.node.copy_image(agent.name, engine_client)
    with closing(first.node.client()) as engine:
        first.start_and_kill(lambda: (folder / "machines" / "authority-key.pem").exists())
        first.start_and_kill(lambda: engine.info()["Swarm"]["LocalNodeState"] == "active")
    first.make("serve")
    yield first
    first.make("down")
    remove_tree(folder)


@pytest.fixture(scope="module")
def engines(machines: Machines) -> Iterator[Mapping[str, docker.APIClient]]:
    """A client of each machine's engine, by the machine's name."""
    clients = {node.name: node.client() for node in machines.nodes}
    yield clients
    for client in clients.values():
        client.close()


@pytest.fixture
def agents_everywhere(
    first: FirstMachine, machines: Machines, engines: Mapping[str, docker.APIClient]
) -> None:
    """Let those machines join that no test before has let in, and wait for the agents of all."""
    for node in machines.nodes[1:]:
        if engines[node.name].info()["Swarm"]["LocalNodeState"] == "inactive":
            status, printed = run_there(node, first.join_command())
            assert status == 0, printed
    wait_until(lambda: set(agents_of(engines)) == set(engines), "each machine has its agent", seconds=120)


def worker_token(engine: docker.APIClient) -> str:
    return str(engine.inspect_swarm()["JoinTokens"]["Worker"])


def test_nothing_but_the_named_ports_listens_beyond_loopback(first: FirstMachine) -> None:
    for kind, ports in (("t", (2377, 7946, 5000, 8474, 9023)), ("u", (7946,))):
        assert first.beyond_loopback(kind) == {f"{first.node.address}:{port}" for port in ports}


def test_each_port_refuses_who_has_no_token(first: FirstMachine) -> None:
    settings = first.settings
    gate, registry = settings.gate_url, settings.registry_url
    made_up = {"Authorization": "Bearer " + "x" * 43}
    scope = f"service=training-registry&scope=repository:{PROJECT}/x:pull"
    anybodys = first.ask("GET", f"{gate}/registry/token?{scope}").json()["token"]
    store = f"http://{first.node.address}:{settings.object_store_port}/storage/v1/b/demo-bucket/o"
    answers = {
        "service": first.ask("GET", f"{gate}/v1/projects/{PROJECT}/jobs"),
        "registry": first.ask("GET", f"{registry}/v2/"),
        "the registry, with the token that anybody gets": first.ask(
            "GET",
            f"{registry}/v2/{PROJECT}/x/tags/list",
            headers={"Authorization": f"Bearer {anybodys}"},
        ),
        "joining": first.ask("POST", f"{gate}/machines:join"),
        "a token that was made up": first.ask("POST", f"{gate}/machines:join", headers=made_up),
        "a machine that is none of the swarm": first.ask("GET", store),
    }

    assert {name: answer.status_code for name, answer in answers.items()} == {
        "service": 401,
        "registry": 401,
        "the registry, with the token that anybody gets": 401,
        "joining": 401,
        "a token that was made up": 403,
        "a machine that is none of the swarm": 403,
    }
    assert f'realm="{gate}/registry/token"' in answers["registry"].headers["WWW-Authenticate"]
    # Whoever does not trust the stack's authority learns of a false one.
    with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
        web.get(gate)


def test_without_tokens_nothing_is_started(first: FirstMachine) -> None:
    printed = first.make("serve", status=1, LOCAL_STACK_REQUIRE_AUTH="false")

    assert "needs LOCAL_STACK_REQUIRE_AUTH=true" in printed


def test_an_expired_token_lets_no_machine_in(first: FirstMachine, machines: Machines) -> None:
    script = first.join_command()
    (invitation,) = (first.settings.machines_dir / "invitations" / "open").iterdir()
    invitation.write_text(json.dumps({"until": time.time() - 1}))

    status, printed = run_there(machines.nodes[1], script)

    assert status == 1
    assert "the first machine refused: the token is unknown, used or expired" in printed


def test_machines_join_once_each_and_swarms_own_token_is_replaced(
    first: FirstMachine, machines: Machines, engines: Mapping[str, docker.APIClient]
) -> None:
    second, third = machines.nodes[1:]
    before = worker_token(engines["node1"])
    script = first.join_command()
    token = re.search(r"^token=(\S+)$", script, re.MULTILINE)
    assert token is not None
    assert run_there(second, script) == (
        0,
        f"this machine has joined as {second.address}; on the first machine, make status shows it\n",
    )
    again = f"this machine is in the swarm of {first.node.address} already, and trusts its registry\n"
    assert run_there(second, script) == (0, again)
    assert run_there(third, script)[0] == 1, "the token was used"
    wait_until(lambda: worker_token(engines["node1"]) != before, "Swarm's token is another one")
    assert token[1] not in "".join(path.read_text() for path in first.settings.log_dir.glob("*.log"))

    status, printed = run_there(third, first.join_command())
    assert status == 0, printed

    shown = first.make("status")
    rows = {line.split()[0]: line.split() for line in shown.splitlines() if line.startswith("node")}
    assert {name: row[1:5] for name, row in rows.items()} == {
        "node1": [first.node.address, "manager", "ready", "active"],
        "node2": [second.address, "worker", "ready", "active"],
        "node3": [third.address, "worker", "ready", "active"],
    }
    version = engines["node2"].version()["Version"]
    assert all(row[5] == str(os.cpu_count()) and row[-1] == version for row in rows.values())


def test_a_gate_that_is_killed_after_it_gave_swarms_token_away_replaces_it(
    first: FirstMachine, engines: Mapping[str, docker.APIClient]
) -> None:
    folder = first.settings.machines_dir / "invitations" / "given"
    wait_until(lambda: not list(folder.iterdir()), "what was given before is replaced")
    before = worker_token(engines["node1"])
    token = re.search(r"^token=(\S+)$", first.join_command(), re.MULTILINE)
    assert token is not None
    headers = {"Authorization": f"Bearer {token[1]}"}
    assert first.ask("POST", f"{first.settings.gate_url}/machines:join", headers=headers).json() == {
        "token": before
    }
    (gate,) = first.gate_pids()

    os.kill(gate, signal.SIGKILL)
    (record,) = folder.iterdir()
    # Its two minutes are over, and no machine has joined.
    record.write_text(json.dumps(json.loads(record.read_text()) | {"until": time.time()}))

    wait_until(lambda: worker_token(engines["node1"]) != before, "Swarm's token is another one")
    wait_until(lambda: not record.exists(), "it is forgotten")


def agents_of(engines: Mapping[str, docker.APIClient]) -> dict[str, str]:
    """Return the id of the running agent's container on each machine."""
    found = {name: engine.containers(filters={"label": AGENT_OF}) for name, engine in engines.items()}
    return {name: items[0]["Id"] for name, items in found.items() if items}


@pytest.mark.usefixtures("agents_everywhere")
def test_agents_come_to_every_machine_and_back_after_a_login_that_expired_and_a_kill(
    first: FirstMachine, engines: Mapping[str, docker.APIClient]
) -> None:
    wait_until(
        lambda: any(each.endswith("%docker_gwbridge:8475") for each in first.listeners("t")),
        "the agent of the first machine serves metadata to its containers",
    )
    before, manager = agents_of(engines), engines["node1"]
    (node,) = (each for each in manager.nodes() if each["Description"]["Hostname"] == "node3")
    (service,) = (
        each
        for each in manager.services(filters={"label": AGENT_OF})  # type: ignore[no-untyped-call]
        if each["Spec"]["Name"].endswith(node["ID"])
    )
    image = service["Spec"]["TaskTemplate"]["ContainerSpec"]["Image"]
    # It is away, and loses its images.
    set_availability(manager, "node3", "drain")
    wait_until(lambda: "node3" not in agents_of(engines), "the machine has no agent")
    engines["node3"].remove_image(image, force=True)

    version = {"version": str(service["Version"]["Index"])}
    headers = pull_headers("one that is over")
    post(manager, f"/services/{service['ID']}/update", service["Spec"], params=version, headers=headers)
    set_availability(manager, "node3", "active")

    def is_refused() -> bool:
        tasks = manager.tasks(filters={"service": service["ID"]})  # type: ignore[no-untyped-call]
        return any("No such image" in task["Status"].get("Err", "") for task in tasks)

    wait_until(is_refused, "the machine cannot pull its agent")
    (pid,) = first.service_pids()
    os.kill(pid, signal.SIGKILL)

    wait_until(lambda: set(agents_of(engines)) == set(engines), "each machine has its agent", seconds=120)
    after = agents_of(engines)
    assert {name for name in engines if after[name] != before[name]} == {"node3"}


@pytest.mark.usefixtures("agents_everywhere")
@pytest.mark.extended
def test_trials_on_all_machines_report_to_the_first_one(
    first: FirstMachine, engines: Mapping[str, docker.APIClient], base_image: str, job_id: str, tmp_path: Path
) -> None:
    image = f"{first.settings.image_prefix}/trial:1"
    push(engines["node1"], tmp_path, image, base_image, registry_login(first.settings))
    rate = ParameterSpec(parameter_name="lr", type=ParameterType.DOUBLE, min_value=0.1, max_value=1.0)
    training_input = TrainingInput(
        region="us-central1",
        master_config=ReplicaConfig(image_uri=image, container_command=["python3", "-c", REPORTS]),
        hyperparameters=HyperparameterSpec(
            goal=Goal.MAXIMIZE,
            hyperparameter_metric_tag="accuracy",
            params=[rate],
            max_trials=4,
            max_parallel_trials=3,
        ),
    )
    with first.client() as training:
        training.create_job(Job(job_id=job_id, training_input=training_input))
        wait_until(ran_everywhere(engines, job_id), "a trial ran on each machine", seconds=120)
        until_state(training, job_id, JobState.SUCCEEDED)
        warnings = [line for line in messages(training, job_id) if "lost" in line or "missing" in line]
    with first.ops() as ops:
        curves = ops.curves(job_id).curves

    assert [curve.steps for curve in curves] == [list(range(1, 31))] * 4
    assert warnings == []


@pytest.mark.usefixtures("agents_everywhere")
@pytest.mark.extended
def test_a_job_that_was_built_and_pushed_runs_on_all_machines_with_objects(
    first: FirstMachine, engines: Mapping[str, docker.APIClient], base_image: str, job_id: str, tmp_path: Path
) -> None:
    settings, engine = first.settings, engines["node1"]
    image = f"{settings.image_prefix}/meet:1"
    push(engine, tmp_path, image, base_image, registry_login(settings))
    first.store(
        "--data-binary",
        "what is it",
        "/upload/storage/v1/b/demo-bucket/o?uploadType=media&name=jobs/question",
    )
    config = ReplicaConfig(image_uri=image, container_args=[f"jobs/{job_id}"])
    training_input = TrainingInput(
        region="us-central1",
        scale_tier="CUSTOM",
        master_type="n1-standard-4",
        master_config=config,
        worker_type="n1-standard-4",
        worker_count=2,
        worker_config=config,
        job_dir=f"gs://demo-bucket/jobs/{job_id}",
    )

    with first.client() as training:
        training.create_job(Job(job_id=job_id, training_input=training_input))
        wait_until(ran_everywhere(engines, job_id), "a replica ran on each machine", seconds=120)
        until_state(training, job_id, JobState.SUCCEEDED)
        written = [line for line in messages(training, job_id) if "wrote" in line]

    listed = json.loads(first.store(f"/storage/v1/b/demo-bucket/o?prefix=jobs/{job_id}/"))["items"]
    names = sorted(item["name"] for item in listed)
    assert names == [f"jobs/{job_id}/{each}" for each in ("master-0", "worker-0", "worker-1")]
    assert {
        first.store(f"/storage/v1/b/demo-bucket/o/{name.replace('/', '%2F')}?alt=media") for name in names
    } == {"WHAT IS IT"}
    assert len(written) == 3


@pytest.mark.usefixtures("agents_everywhere")
@pytest.mark.extended
def test_jobs_of_packages_have_their_image_on_every_machine(
    first: FirstMachine, engines: Mapping[str, docker.APIClient], job_id: str
) -> None:
    config = ReplicaConfig(
        # One of Vertex AI's prebuilt ones, for which the stack runs its runtime image.
        image_uri="us-docker.pkg.dev/vertex-ai/training/any:1",
        container_command=["sh", "-c", "ls /opt/container-training/run_package.py; sleep 8"],
    )
    training_input = TrainingInput(
        region="us-central1",
        scale_tier="CUSTOM",
        master_type="n1-standard-4",
        master_config=config,
        worker_type="n1-standard-4",
        worker_count=2,
        worker_config=config,
    )

    with first.client() as training:
        training.create_job(Job(job_id=job_id, training_input=training_input))
        wait_until(ran_everywhere(engines, job_id), "a replica ran on each machine", seconds=120)
        until_state(training, job_id, JobState.SUCCEEDED)


def push(engine: docker.APIClient, folder: Path, image: str, base_image: str, login: dict[str, str]) -> None:
    """Build the trainer's image on the first machine, and push it to the stack's registry."""
    files = {"Dockerfile": DOCKERFILE.format(base=base_image), "trainer.py": TRAINER}
    for name, text in files.items():
        (folder / name).write_text(text)
    lines: list[dict[str, Any]] = list(engine.build(path=str(folder), tag=image, decode=True))
    repository, _, tag = image.rpartition(":")
    lines += engine.push(repository, tag=tag, stream=True, decode=True, auth_config=login)
    assert not [line for line in lines if "error" in line], lines[-5:]


def ran_everywhere(engines: Mapping[str, docker.APIClient], job_id: str) -> Callable[[], bool]:
    """Return a condition: each machine was seen with a running container of the job."""
    ran: set[str] = set()
    label = {"label": f"container-training.job={job_id}"}

    def look() -> bool:
        ran.update(name for name, engine in engines.items() if engine.containers(filters=label))
        return ran == set(engines)

    return look


@pytest.mark.usefixtures("agents_everywhere")
def test_down_says_what_it_leaves_and_the_next_start_finds_it(
    first: FirstMachine, engines: Mapping[str, docker.APIClient]
) -> None:
    swarm = engines["node1"].inspect_swarm()["ID"]

    printed = first.make("down")
    first.make("serve")
    assert first.gate_pids()

    assert "still manages its swarm, with 2 other machines (node2, node3)" in printed
    assert engines["node1"].inspect_swarm()["ID"] == swarm


@pytest.mark.usefixtures("agents_everywhere")
def test_without_the_address_nothing_listens_for_others_any_more(
    first: FirstMachine, engines: Mapping[str, docker.APIClient]
) -> None:
    first.make("serve", LOCAL_STACK_ADVERTISE_ADDRESS=None)

    # The engine's bridge is for containers of this machine.
    heard = {each for each in first.beyond_loopback("t") if not each.startswith("172.")}
    assert heard == {f"{first.node.address}:{port}" for port in (2377, 7946)}
    assert len(engines["node1"].nodes()) == 3
