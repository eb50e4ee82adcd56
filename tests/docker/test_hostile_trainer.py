"""
A trainer of our own that tries to leave its container, as a job of two real stacks.

One is as it comes, one wants tokens. What it reaches is the table in docs/access.md, which
``make hostile`` writes anew.
"""

from __future__ import annotations

import io
import json
import os
import socket
import tarfile
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker
import pytest

from container_engines.base import METRIC_FILE_NAME, METRIC_FOLDER
from container_engines.confinement import DROPPED_CAPABILITIES, PIDS_LIMIT
from container_engines.labels import SERVICE
from local_stack.parts.gateway import find_gateway
from local_stack.people.credentials import developers_header, registry_login
from local_stack.settings import PORTS, Part, StackSettings
from local_stack.stack import LocalStack
from object_store.server import MOST_OF_ONE as MOST_STORE_CONNECTIONS
from tests.support import web
from tests.support.bed import hostile_trainer
from tests.support.bed.job_watch import until_end, until_state
from tests.support.bed.link_local import run_neighbour
from tests.support.bed.real_parts import PROJECT
from tests.support.bed.service_process import service_id_of
from tests.support.dead_runs import remove_tree
from tests.support.kept_logs import logs_in
from tests.support.ports import reserve_port
from tests.support.run_id import current_run
from tests.support.waiting import wait_until
from training_api.clients.log_cursor import job_log_filter
from training_api.clients.training import TrainingClient
from training_api.cloud_logging import LogEntry
from training_api.dialects.ml_v1.resources import Job, ReplicaConfig, TrainingInput
from training_api.job.image_ref import ImageRef
from training_api.states import JobState
from training_service.metadata.server import MOST_OF_ONE as MOST_METADATA_CONNECTIONS

pytestmark = [pytest.mark.docker, pytest.mark.needs_root, pytest.mark.timeout(600)]

#: Of the machine, so that they can be tried in a container without confinement.
_OF_THE_CONTAINER = (
    *("host_port", "link_local", "engine", "raw_packets", "rights", "set_user_id", "host_files", "devices"),
    *("kernel_settings", "system_calls", "host_processes", "fork_bomb"),
)

DOCS = Path(__file__).parents[2] / "docs" / "access.md"
_BEGIN, _END = "<!-- hostile trainer -->\n", "<!-- end of hostile trainer -->\n"
_SET_USER_ID = "/usr/local/bin/set-user-id-python"
DOCKERFILE = f"""
FROM {{base}}
COPY trainer.py /trainer.py
RUN cp "$(readlink -f "$(command -v python3)")" {_SET_USER_ID} && chmod 4755 {_SET_USER_ID}
"""
#: A job that minds its own business.
_QUIET = """
import json, os, socket, time
with open(os.environ["CLOUD_ML_HP_METRIC_FILE"], "w") as file:
    print(json.dumps({"timestamp": time.time(), "own": "0.5", "global_step": "1"}), file=file)
with socket.create_server(("0.0.0.0", 2222)):
    print("up", flush=True)
    time.sleep(600)
"""
#: Docker's default capabilities, by their numbers in linux/capability.h.
_CAPABILITIES = {
    **{"CHOWN": 0, "DAC_OVERRIDE": 1, "FOWNER": 3, "FSETID": 4, "KILL": 5, "SETGID": 6, "SETUID": 7},
    **{"SETPCAP": 8, "NET_BIND_SERVICE": 10, "NET_RAW": 13, "SYS_CHROOT": 18, "MKNOD": 27},
    **{"AUDIT_WRITE": 29, "SETFCAP": 31},
}


@dataclass(frozen=True, slots=True)
class Seen:
    """What one attempt came to."""

    got_out: bool
    detail: str


Run = Mapping[str, Seen]


def own_address() -> str:
    """Return this machine's address on the way out of it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.connect(("198.51.100.1", 9))  # sends nothing
        return str(sender.getsockname()[0])


def kept_capabilities() -> str:
    """Return the capabilities that a trainer has, as /proc/self/status shows them."""
    kept = (number for name, number in _CAPABILITIES.items() if name not in DROPPED_CAPABILITIES)
    return f"{sum(1 << number for number in kept):016x}"


@pytest.fixture(scope="module")
def image(
    stack: LocalStack, engine_client: docker.APIClient, pushed_image: ImageRef, base_image: str
) -> Iterator[str]:
    """The trainer's image, in the registry; by digest."""
    name = pushed_image.name
    context = io.BytesIO()
    with tarfile.open(fileobj=context, mode="w") as archive:
        trainer = Path(hostile_trainer.__file__).read_bytes()
        for path, content in (
            ("Dockerfile", DOCKERFILE.format(base=base_image).encode()),
            ("trainer.py", trainer),
        ):
            entry = tarfile.TarInfo(path)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    context.seek(0)
    lines = engine_client.build(fileobj=context, custom_context=True, tag=f"{name}:hostile", rm=True)
    assert b"Successfully tagged" in b"".join(lines)
    login = registry_login(stack.settings)
    pushed = list(engine_client.push(name, tag="hostile", stream=True, decode=True, auth_config=login))
    (digest,) = [line["aux"]["Digest"] for line in pushed if "aux" in line]
    yield f"{name}@{digest}"
    engine_client.remove_image(f"{name}:hostile", force=True)


@pytest.fixture(scope="module")
def guarded_stack(base_image: str) -> Iterator[LocalStack]:
    """A second stack, which wants a token with every request; it has no registry."""
    folder = current_run().make_folder("guarded")
    ports = {name: reserve_port() for name in PORTS}
    settings = StackSettings(state_dir=folder, require_auth=True, base_image=base_image, **ports)  # type: ignore[arg-type]
    with LocalStack(settings) as stack, logs_in(settings.log_dir, "the stack that wants tokens"):
        stack.up([Part.OBJECT_STORE, Part.TRAINING])
        current_run().own_label(SERVICE, service_id_of(f"sqlite:///{settings.key_dir / 'jobs.db'}"))
        yield stack
    remove_tree(folder)


@pytest.fixture(scope="module")
def surroundings(stack: LocalStack) -> Iterator[dict[str, Any]]:
    """What there is around a trainer, whichever stack runs it."""
    secret = current_run().make_folder("hostile") / "secret"
    report = {"timestamp": time.time(), "forged": "0.25", "global_step": "2"}
    secret.write_text(json.dumps(report) + "\n", "utf-8")
    # Not those of interfaces that other tests make: such an address may soon be somebody else's.
    hosts = [own_address(), *filter(None, [find_gateway(stack.settings.engine_url)])]
    with ExitStack() as around:
        listener = around.enter_context(socket.create_server(("0.0.0.0", 0)))  # noqa: S104  # that is what is tried
        yield {
            "hosts": hosts,
            "host_port": listener.getsockname()[1],
            "registry_port": stack.settings.registry_port,
            "link_local": around.enter_context(run_neighbour()),
            "host_file": str(secret),
            "metrics": METRIC_FOLDER,
            "metric_file": METRIC_FILE_NAME,
            "processes": PIDS_LIMIT + 200,
            "capabilities": kept_capabilities(),
            "set_user_id_python": _SET_USER_ID,
            "metadata_connections": MOST_METADATA_CONNECTIONS,
            "store_connections": MOST_STORE_CONNECTIONS,
        }
    remove_tree(secret.parent)


class Campaign:
    """The trainer's job on one stack, beside the job of somebody else."""

    def __init__(
        self, stack: LocalStack, engine: docker.APIClient, image: str, surroundings: Mapping[str, Any]
    ) -> None:
        settings = self._settings = stack.settings
        self._stack, self._engine, self._image, self._surroundings = stack, engine, image, surroundings
        self._name = uuid.uuid4().hex[:8]
        self._own, self._other = f"hostile_{self._name}", f"quiet_{self._name}"
        self._headers = developers_header(settings)
        self._client = TrainingClient(settings.training_url, PROJECT, headers=self._headers)
        self._objects = f"{settings.object_store_url}/storage/v1/b"

    def run(self) -> Run:
        """Return what each attempt came to."""
        with closing(self._client):
            other_bucket = self._prepare()
            self._submit(self._other, ["python3", "-c", _QUIET], service_account=self._other_account)
            try:
                until_state(self._client, self._other, JobState.RUNNING)
                wait_until(lambda: self._values(self._other, "own") == [0.5], "the other job has reported")
                return self._attempts(other_bucket)
            finally:
                self._client.cancel_job(self._other)
                until_end(self._client, self._other)

    def _prepare(self) -> str:
        """Make the other job's model, and a bucket of another project."""
        other_bucket = f"other-{self._name}"
        web.post(self._objects, params={"project": "other"}, json={"name": other_bucket}).raise_for_status()
        for bucket, name in (
            (other_bucket, "secret"),
            (self._settings.bucket, f"jobs/{self._other}/model"),
        ):
            url = f"{self._settings.object_store_url}/upload/storage/v1/b/{bucket}/o"
            web.post(url, params={"name": name}, content=b"theirs").raise_for_status()
        return other_bucket

    def _attempts(self, other_bucket: str) -> Run:
        pid, folders = self._service_pid(), self._metric_folders()
        assert folders, "the other job has no folder for its metrics"
        told = {
            **self._surroundings,
            "is_job": True,
            "attempts": list(hostile_trainer.ATTEMPTS),
            "service_port": self._settings.training_port,
            "other_job": (self._address_of_other(), 2222),
            "other_job_id": self._other,
            "other_account": self._other_account,
            "bucket": self._settings.bucket,
            "other_bucket": other_bucket,
            "own_folder": f"jobs/{self._own}",
            "other_folder": f"jobs/{self._other}",
        }
        self._submit(self._own, ["python3", "-u", "/trainer.py", json.dumps(told)])
        job = until_end(self._client, self._own)
        entries = self._entries(self._own)
        assert job.state is JobState.SUCCEEDED, (job.error_message, [entry.message for entry in entries])
        said = [entry.json_payload for entry in entries if "attempt" in (entry.json_payload or {})]
        run = {each["attempt"]: Seen(each["got_out"], each["detail"]) for each in said if each}
        run["forged_log"] = self._judge_log(entries)
        run["forged_metrics"] = self._judge_metrics()
        wait_until(lambda: self._metric_folders() <= folders, "the trainer's folders are gone", seconds=60)
        healthy = web.get(f"{self._settings.training_url}/health").status_code == 200
        run["odd_folders"] = Seen(not healthy or self._service_pid() != pid, "the service is not as before")
        return run

    def _judge_log(self, entries: list[LogEntry]) -> Seen:
        forged = [entry for entry in entries if "FORGED" in entry.message]
        assert len(forged) >= 2, "the forged lines are not in the log"
        own = {(self._own, "master-replica-0", "")}
        claimed = {(e.resource.labels.get("job_id"), e.task_name, e.trial_id) for e in forged} - own
        names = {entry.log_name for entry in forged} - {e.log_name for e in entries if e not in forged}
        of_other = [entry for entry in self._entries(self._other) if "FORGED" in entry.message]
        return Seen(bool(claimed or names or of_other), f"{claimed} {names} {of_other}")

    def _judge_metrics(self) -> Seen:
        own, other = self._values(self._own, "forged"), self._values(self._other, "forged")
        return Seen(own != [1.0] or bool(other), f"its own values: {own}, the other job's: {other}")

    def _submit(self, job_id: str, command: list[str], **training_input: Any) -> None:
        config = ReplicaConfig(image_uri=self._image, container_command=command)
        directory = f"gs://{self._settings.bucket}/jobs/{job_id}"
        training = TrainingInput(
            region="us-central1", master_config=config, job_dir=directory, **training_input
        )
        self._client.create_job(Job(job_id=job_id, training_input=training))

    def _entries(self, job_id: str) -> list[LogEntry]:
        return self._client.list_log_entries(job_log_filter(job_id)).entries or []

    def _values(self, job_id: str, tag: str) -> list[float]:
        url = f"{self._settings.training_url}/ops/v1/projects/{PROJECT}/jobs/{job_id}/measurements"
        found = web.get(url, params={"tag": tag}, headers=self._headers)
        values: list[float] = found.json().get("values", []) if found.is_success else []
        return values

    def _address_of_other(self) -> str:
        label = f"container-training.job={self._other}"
        (container,) = self._engine.containers(filters={"label": label})
        (network,) = container["NetworkSettings"]["Networks"].values()
        return str(network["IPAddress"])

    def _metric_folders(self) -> set[Path]:
        return set((self._settings.key_dir / "metrics").glob("*/*"))

    def _service_pid(self) -> int | None:
        (pid,) = [each.pid for each in self._stack.processes.all().values() if each.name == Part.TRAINING]
        return pid

    @property
    def _other_account(self) -> str:
        return f"other@{PROJECT}.iam.gserviceaccount.com"


@pytest.fixture(scope="module")
def runs(
    stack: LocalStack,
    guarded_stack: LocalStack,
    engine_client: docker.APIClient,
    image: str,
    surroundings: Mapping[str, Any],
) -> Mapping[str, Run]:
    """What the trainer came to on each stack."""
    stacks = {"by default": stack, "`--require-auth`": guarded_stack}
    return {name: Campaign(each, engine_client, image, surroundings).run() for name, each in stacks.items()}


def test_the_trainer_gets_out_nowhere(runs: Mapping[str, Run]) -> None:
    wrong = {
        (stack, name): seen.detail
        for stack, run in runs.items()
        for name, seen in run.items()
        if seen.got_out
    }
    assert wrong == {}
    assert all(run.keys() == hostile_trainer.ATTEMPTS.keys() for run in runs.values())


def test_the_docs_have_what_the_runs_showed(runs: Mapping[str, Run]) -> None:
    page = DOCS.read_text("utf-8")
    before, _, rest = page.partition(_BEGIN)
    after = rest.partition(_END)[2]
    made = f"{before}{_BEGIN}{table(runs)}{_END}{after}"
    if os.environ.get("HOSTILE_WRITES_DOCS"):
        DOCS.write_text(made, "utf-8")
        return

    assert page == made, "docs/access.md does not have what the runs showed: `make hostile` writes it"


def table(runs: Mapping[str, Run]) -> str:
    """Return the attempts and what they came to, as Markdown."""
    lines = [f"| a trainer tries to | {' | '.join(runs)} |", "|---|" + "---|" * len(runs)]
    for name, (words, _) in hostile_trainer.ATTEMPTS.items():
        ends = ["**gets through**" if run[name].got_out else "is refused" for run in runs.values()]
        lines.append(f"| {words} | {' | '.join(ends)} |")
    return "\n".join(lines) + "\n"


def test_the_attempts_get_out_of_a_container_without_confinement(
    engine_client: docker.APIClient, image: str, surroundings: Mapping[str, Any]
) -> None:
    """Otherwise the refusals above would say nothing."""
    host_file = surroundings["host_file"]
    told = {
        **surroundings,
        "is_job": False,
        "attempts": [name for name in hostile_trainer.ATTEMPTS if name in _OF_THE_CONTAINER],
        "host_file": f"/{Path(host_file).name}",
    }
    host_config = engine_client.create_host_config(
        # Not "privileged", which fails where this machine itself lacks a capability.
        cap_add=["ALL"],
        cap_drop=["SYS_RESOURCE"],
        security_opt=["seccomp=unconfined", "apparmor=unconfined"],
        devices=["/dev/kmsg"],
        network_mode="host",
        pid_mode="host",
        binds=[f"{Path(host_file).parent}:/host:ro", "/var/run/docker.sock:/var/run/docker.sock"],
    ) | {"MaskedPaths": [], "ReadonlyPaths": []}
    container = engine_client.create_container(
        image,
        ["python3", "-u", "/trainer.py", json.dumps(told)],
        host_config=host_config,
        labels=current_run().labels,
    )
    try:
        engine_client.start(container)
        assert engine_client.wait(container)["StatusCode"] == 0
        lines = engine_client.logs(container).decode().splitlines()
    finally:
        engine_client.remove_container(container, force=True, v=True)

    said = {each["attempt"]: each for each in map(json.loads, lines)}
    assert said.keys() == set(_OF_THE_CONTAINER)
    assert {name: each["detail"] for name, each in said.items() if not each["got_out"]} == {}
