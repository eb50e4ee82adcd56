"""
Docker Swarm: one service per run of a replica, and one overlay network per job.

Everything goes through a manager's engine (``docker_host``). docs/more-machines.md says what a swarm reports
less well than a single engine does, and what follows from it for users.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from container_engines.base import (
    Engine,
    EngineView,
    LogLine,
    ObservedReplica,
    PulledImage,
    ReplicaLaunch,
    StillStarting,
    Usage,
)
from container_engines.disk_use import DiskUse
from container_engines.docker.errors import engine_error, engine_errors
from container_engines.docker.logs import read_frames
from container_engines.labels import JOB_UID, attempt_of, replica_labels, replica_of
from container_engines.pull_watch import PullWatch
from container_engines.swarm.agent import AgentLaunch, agent_service_name
from container_engines.swarm.agents import MachineAgents
from container_engines.swarm.api import SwarmApi
from container_engines.swarm.facts import NodeFacts
from container_engines.swarm.images import SwarmImages
from container_engines.swarm.limits import EgressLimits
from container_engines.swarm.logs import LogFollowers
from container_engines.swarm.spec import job_prefix, secret_name, service_name, service_spec
from container_engines.swarm.tasks import REPLICA_STATES, Run, TaskPhase, job_in
from training_api.errors import (
    EngineBusy,
    EngineError,
    EngineUnavailable,
    ImageNotFound,
    RegistryUnavailable,
)
from training_api.job.image_ref import ImageRef
from training_api.job.machines import Resources
from training_api.states import ReplicaState

_POLL_SECONDS = 0.1
_IDLE_POLL_SECONDS = 1.0
#: How long a replica may wait for a machine before that is an error and the start is retried.
_PLACE_SECONDS = 10.0
#: How long a start waits for a machine that pulls the image. The caller asks again, so that a cancel takes
#: effect, and others get its thread.
_PREPARE_SECONDS = 3.0
#: A stop takes three seconds longer than its grace period: first the swarm withdraws the container's name.
_STOP_SECONDS = 30.0
_REMOVE_SECONDS = 60.0
#: How often a start is tried if the machine could not pull an image that the registry has.
_PULLS, _PULL_PAUSE_SECONDS = 3, 2.0
_KILLED = 137
#: How long the end of a run by SIGKILL waits for the agent of its machine, which asks every two seconds.
_FACTS_SECONDS = 15.0


class _NotPlaced(EngineUnavailable):
    """No machine of the swarm has taken the replica yet."""


class SwarmEngine(Engine):
    """
    One training service's view of a swarm; a ``container_id`` is the id of a Swarm service.

    :param service_id: marks this service's services and networks; it neither sees nor touches others.
    :param docker_host: a manager, as in ``DockerEngine``.
    :param stop_grace_seconds: the grace period of new containers; a swarm fixes it at their start.
    :param prepare_seconds: how long a start waits for its machine before it is ``StillStarting``.
    :param agent: the agent of each machine, which reads what containers write there; ``None``: there is none.
        With its ``egress``, replicas run only on machines whose agent has put the rules in place.
    """

    def __init__(
        self,
        service_id: str,
        docker_host: str = "",
        *,
        stop_grace_seconds: float = 10.0,
        prepare_seconds: float = _PREPARE_SECONDS,
        agent: AgentLaunch | None = None,
    ) -> None:
        self._service_id = service_id
        self._grace_seconds = stop_grace_seconds
        self._prepare_seconds = prepare_seconds
        self._agent = agent
        self._swarm = SwarmApi(service_id, docker_host)
        self._agents = MachineAgents(service_id, self._swarm)
        self._images = SwarmImages()
        self._followers = LogFollowers()
        #: What was seen of services and is not reported later, by service id.
        self._started_at: dict[str, datetime] = {}
        self._out_of_memory: dict[str, bool] = {}
        self._ended_at: dict[str, float] = {}
        #: The machine and the container of each.
        self._containers: dict[str, tuple[str, str]] = {}
        #: The job of each running container, by its machine and its id there.
        self._jobs: Mapping[tuple[str, str], str] = {}
        #: What the agents say of containers.
        self.facts = NodeFacts()
        self._limits = EgressLimits(agent.egress, self.facts) if agent and agent.egress else None
        #: How often in a row a machine could not get the image, by service name.
        self._failed_pulls: dict[str, int] = {}

    def close(self) -> None:
        self._swarm.close()

    @property
    def can_read_metrics(self) -> bool:
        return self._agent is not None

    def confine(self) -> None:
        if self._agent:
            self._agents.keep(self._agent)
        else:
            self._agents.remove()
        if self._limits:
            self._limits.keep()
        else:
            self._swarm.remove_way_out()

    def ping(self) -> str:
        return self._swarm.version()

    def hosts(self) -> Mapping[str, Resources]:
        ready = [node for node in self._swarm.nodes().values() if node.is_open]
        if not ready:
            raise EngineUnavailable("no machine of the swarm is ready and active (docker node ls shows them)")
        limited = [node for node in ready if self._limits is None or self._limits.hold_on(node)]
        if not limited:
            raise EngineUnavailable(
                "no machine of the swarm limits what jobs reach yet, as TRAINING_EGRESS says: its agent puts the rules in "
                f"place (docker service logs {agent_service_name(self._service_id, ready[0].node_id)} shows why it has "
                "not)"
            )
        return {node.node_id: node.resources for node in limited}

    def max_networks(self) -> int | None:
        return self._swarm.address_pools().networks

    def max_job_replicas(self) -> int | None:
        # Each machine that runs one of the job's containers takes an address, too; assume that all do.
        return max(self._swarm.address_pools().addresses - len(self._swarm.nodes()), 1)

    def find_image(self, ref: ImageRef) -> PulledImage | None:
        return self._images.find(self._swarm.client, ref)

    def pull_image(self, ref: ImageRef, token: str = "", watch: PullWatch | None = None) -> PulledImage:
        return self._images.look_up(self._swarm.connection, ref, token, watch)

    def start_replica(self, launch: ReplicaLaunch) -> None:
        if launch.metric_folder and not self.can_read_metrics:
            raise EngineError(
                "the metrics of a trial are read by an agent on its machine, and this swarm has none: set TRAINING_AGENT_IMAGE "
                "and TRAINING_AGENT_URL, or run tuning jobs on one machine, with TRAINING_ENGINE=docker"
            )
        if self._limits:
            self._limits.check(self._swarm.nodes().get(launch.machine))
        self._remove_lost_runs(launch)
        name = service_name(launch)
        while True:
            service_id = self._ensure_service(launch)
            self._wait_for_place(launch, service_id)
            run = self._wait_while(TaskPhase.PREPARES, service_id, self._prepare_seconds)
            failed_pulls = self._failed_pulls.pop(name, 0) + 1
            if run.phase in (TaskPhase.RUNS, TaskPhase.ENDED):
                return
            # This run never starts: another one takes its place, now or at the next call.
            self._swarm.remove_service(service_id)
            if run.phase is TaskPhase.LOST:
                raise EngineUnavailable(f"machine {run.node_name} went away while it started a replica")
            self._check_refusal(launch, run, may_try_again=failed_pulls < _PULLS)
            self._failed_pulls[name] = failed_pulls
            time.sleep(_PULL_PAUSE_SECONDS)

    def observe(self) -> EngineView:
        # Services before tasks: a missing run is then one that the swarm has not made yet.
        services, networks = self._swarm.services(), self._swarm.networks()
        runs = self._swarm.runs([item["ID"] for item in services])
        self._followers.end_all_but({key for key, run in runs.items() if run and run.phase is TaskPhase.RUNS})
        self._forget_all_but(runs)
        replicas = [self._replica(item, runs[item["ID"]]) for item in services]
        self._jobs = {
            (run.node_id, run.container_id): item["Spec"]["Labels"][JOB_UID]
            for item in services
            if (run := runs[item["ID"]]) and run.phase is TaskPhase.RUNS
        }
        labels = [*(item["Spec"]["Labels"] for item in services), *(item["Labels"] for item in networks)]
        return EngineView(
            replicas=tuple(replica for replica in replicas if replica is not None),
            job_uids=frozenset(each[JOB_UID] for each in labels),
        )

    def job_at(self, address: str) -> str | None:
        # Outside, a container has its machine's address; towards the manager's own machine, one of that
        # machine's networks. Which container it is cannot be told: any, or none.
        return "" if self._swarm.is_inside(address) else None

    def job_on(self, machine: str, container_id: str) -> str | None:
        if not container_id:
            return None
        known = self._jobs.get((machine, container_id))
        # A container asks as soon as it runs, and the next observation may come later.
        return known or job_in(self._swarm.tasks(), machine, container_id)

    def stop_replica(self, container_id: str, grace_seconds: float) -> None:
        deadline = time.monotonic() + max(grace_seconds, self._grace_seconds) + _STOP_SECONDS
        while self._swarm.order_stop(container_id):
            run = self._swarm.runs([container_id])[container_id]
            if run is not None and run.phase in (TaskPhase.ENDED, TaskPhase.LOST, TaskPhase.REFUSED):
                return
            if time.monotonic() > deadline:
                raise EngineError(f"service {container_id} was told to stop and has not ended")
            time.sleep(_POLL_SECONDS)

    def remove_job(self, job_uid: str) -> None:
        for name in list(self._failed_pulls):
            if name.startswith(job_prefix(job_uid)):
                self._failed_pulls.pop(name, None)
        for item in self._swarm.services(job_uid):
            self._swarm.remove_service(item["ID"])
        deadline = time.monotonic() + self._grace_seconds + _REMOVE_SECONDS
        while left := self._containers_of(job_uid):
            if time.monotonic() > deadline:
                raise EngineError(f"{len(left)} containers of job {job_uid} do not go away")
            time.sleep(_POLL_SECONDS)
        # Before the network, by which a job is seen that has nothing else.
        self._swarm.remove_secrets(job_uid)
        # The manager's machine holds its end of a network a moment longer than the tasks do.
        while networks := self._swarm.networks(job_uid):
            for item in networks:
                self._swarm.remove_network(item["Id"])
            if time.monotonic() > deadline:
                raise EngineError(f"the network of job {job_uid} does not go away")
            time.sleep(_POLL_SECONDS)

    def read_logs(self, container_id: str, since_ns: int, *, follow: bool = True) -> Iterator[LogLine]:
        run = self._swarm.runs([container_id])[container_id]
        if run is None or run.phase not in (TaskPhase.RUNS, TaskPhase.ENDED):
            where = f": machine {run.node_name} is down" if run and run.phase is TaskPhase.LOST else ""
            raise EngineError(f"the log of service {container_id} cannot be had{where}")
        doing = f"read the log of service {container_id}"
        with engine_errors(doing), self._swarm.connection.fresh() as client:
            if follow and run.phase is TaskPhase.RUNS:
                yield from self._followers.follow(client, container_id, run.task_id, since_ns)
            else:
                yield from read_frames(client, f"tasks/{run.task_id}", since_ns, follow=False)

    def read_usage(self, container_id: str) -> Usage | None:
        # A manager cannot ask the engines of other machines; their agents do.
        where = self._containers.get(container_id)
        return self.facts.usage(*where) if where else None

    def read_disk(self, container_id: str, most: DiskUse) -> DiskUse | None:
        # Bytes alone, as the engine of its machine counts them.
        where = self._containers.get(container_id)
        size = self.facts.disk(*where) if where else None
        return None if size is None else DiskUse(bytes=size)

    def events(self) -> Iterator[None]:
        # A manager reports events of services and machines, but not of tasks: poll these.
        before: set[tuple[str, int]] | None = None
        while True:
            tasks = self._swarm.tasks()
            now = {(task["ID"], int(task["Version"]["Index"])) for task in tasks}
            if before is not None and now != before:
                yield
            before = now
            time.sleep(_POLL_SECONDS if tasks else _IDLE_POLL_SECONDS)

    def _ensure_service(self, launch: ReplicaLaunch) -> str:
        labels = replica_labels(self._service_id, launch)
        way_out = self._limits.way_out(self._swarm.ensure_way_out()) if self._limits else None
        network_id = self._swarm.ensure_network(launch, is_internal=way_out is not None)
        spec = service_spec(
            launch,
            network_id=network_id,
            secret_ids={
                name: self._swarm.ensure_secret(secret_name(launch, name), labels, content)
                for name, content in {**launch.secrets.files, **launch.files}.items()
            },
            labels=labels,
            grace_seconds=self._grace_seconds,
            nodes=self._swarm.nodes().values(),
            way_out=way_out,
        )
        return self._swarm.ensure_service(spec, self._images.pull_headers(launch.image_id))

    def _wait_for_place(self, launch: ReplicaLaunch, service_id: str) -> None:
        """
        Return once a machine has taken the run; one that is down or drained is not waited for.

        :raises EngineUnavailable: none has; the next call may name another machine.
        """
        node = self._swarm.nodes().get(launch.machine)
        is_closed = bool(launch.machine) and (node is None or not node.is_open)
        try:
            self._wait_while(TaskPhase.WAITS, service_id, 0 if is_closed else _PLACE_SECONDS)
        except _NotPlaced as error:
            if launch.machine:
                # The next call may name another machine, which this service would not go to.
                self._swarm.remove_service(service_id)
            if is_closed:
                name = node.name if node else launch.machine
                raise EngineUnavailable(
                    f"machine {name} takes no replica: it is down, drained or gone; another one is chosen"
                ) from error
            raise

    def _wait_while(self, phase: TaskPhase, service_id: str, seconds: float) -> Run:
        """
        Return the service's run once it has left ``phase``.

        :raises StillStarting: it still PREPARES after ``seconds``.
        :raises _NotPlaced: it is still in another phase; the caller may wait again.
        """
        deadline = time.monotonic() + seconds
        while True:
            run = self._swarm.runs([service_id])[service_id]
            if run is not None and run.phase is not phase:
                return run
            if time.monotonic() > deadline:
                where = f" on machine {run.node_name}" if run and run.node_name else ""
                why = f": {run.why}" if run and run.why else ""
                kind = StillStarting if phase is TaskPhase.PREPARES else _NotPlaced
                raise kind(f"a replica still {phase}{where} after {seconds:g} s{why}")
            time.sleep(_POLL_SECONDS)

    def _remove_lost_runs(self, launch: ReplicaLaunch) -> None:
        """Remove the replica's runs on lost machines, so that none comes back with its machine."""
        services = [
            item["ID"]
            for item in self._swarm.services(launch.job_uid)
            if replica_of(item["Spec"]["Labels"]) == launch.replica
        ]
        for service_id, run in self._swarm.runs(services).items():
            if run is not None and run.phase is TaskPhase.LOST:
                self._swarm.remove_service(service_id)

    def _check_refusal(self, launch: ReplicaLaunch, run: Run, *, may_try_again: bool) -> None:
        """
        Raise the error that a refused start means; return if a retry may work.

        :raises ImageNotFound: the image is gone.
        :raises EngineBusy: its registry does not answer.
        :raises EngineError: the machine refuses it, or cannot get the image.
        """
        if "no such image" not in run.why.lower():
            raise engine_error(f"machine {run.node_name}", run.why or "it was stopped before it started")
        try:
            is_gone = self._images.is_gone(self._swarm.connection, launch.image_id)
        except RegistryUnavailable as error:
            raise EngineBusy(str(error)) from error
        if is_gone:
            raise ImageNotFound(f"machine {run.node_name}: {run.why}")
        if not may_try_again:
            raise EngineError(
                f"machine {run.node_name} could not get {launch.image_id}, which is there: every machine must reach the "
                "registry under this name, and have an image of no registry itself; the log of its engine says more"
            )

    def _replica(self, service: Mapping[str, Any], run: Run | None) -> ObservedReplica | None:
        """Return the replica behind a service; ``None`` if it is lost."""
        labels, service_id = service["Spec"]["Labels"], service["ID"]
        phase = run.phase if run else TaskPhase.WAITS
        if phase not in REPLICA_STATES:
            return None
        state = REPLICA_STATES[phase]
        if run is not None:
            self._containers[service_id] = run.node_id, run.container_id
            if state is ReplicaState.EXITED and not self._knows_end(service_id, run):
                state = ReplicaState.RUNNING
        started_at = exited = None
        if run is not None and state is not ReplicaState.CREATED:
            # A task has one time, that of its last change. After the end, use the start that was seen before.
            first = run.at if phase is TaskPhase.RUNS else run.created_at
            started_at = self._started_at.setdefault(service_id, first)
            exited = run if state is ReplicaState.EXITED else None
        return ObservedReplica(
            job_uid=labels[JOB_UID],
            replica=replica_of(labels),
            attempt=attempt_of(labels),
            container_id=service_id,
            state=state,
            machine=run.node_id if run else "",
            exit_code=exited.exit_code if exited else None,
            out_of_memory=exited is not None and self._out_of_memory.get(service_id, False),
            started_at=started_at,
            finished_at=exited.at if exited else None,
        )

    def _knows_end(self, service_id: str, run: Run) -> bool:
        """
        Whether it is known if the run ended for its memory.

        Of other machines their agents say so a moment later; without them, it did not.
        """
        if run.exit_code != _KILLED or service_id in self._out_of_memory:
            return True
        found = self._swarm.is_out_of_memory(run)
        if found is None and self._agent and self._agent.docker_socket:
            found = self.facts.out_of_memory(run.node_id, run.container_id)
            since = self._ended_at.setdefault(service_id, time.monotonic())
            if found is None and time.monotonic() - since < _FACTS_SECONDS:
                return False
        self._out_of_memory[service_id] = bool(found)
        return True

    def _forget_all_but(self, service_ids: Mapping[str, Any]) -> None:
        for known in (self._started_at, self._out_of_memory, self._ended_at, self._containers):
            for service_id in known.keys() - service_ids.keys():
                del known[service_id]

    def _containers_of(self, job_uid: str) -> list[str]:
        """Return the job's tasks that still hold its network; those of a lost machine hold nothing."""
        nodes = self._swarm.nodes()
        return [
            task["ID"]
            for task in self._swarm.tasks(job_uid=job_uid)
            if (node := nodes.get(task.get("NodeID", ""))) is not None and not node.is_down
        ]
