"""One DAG run that is kept in one phase, and what is seen of it."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass, field

import psutil

from tests.e2e.airflow_run import Run
from tests.e2e.kill_table.bed import ABSENT_IMAGE, Bed
from tests.e2e.kill_table.table import Act, Job, Next, Outcome, Phase, Task
from tests.e2e.kill_table.watch import TaskSeen, View
from training_api.clients.backend import TrainingBackend
from training_api.dialects.ml_v1.resources import Job as WireJob
from training_api.states import JobState

#: The state that the job of a wait is kept in.
WAITS = {
    Phase.QUEUED: JobState.QUEUED,
    Phase.PREPARING: JobState.PREPARING,
    Phase.RUNNING: JobState.RUNNING,
    Phase.ONE_RUNNING: JobState.RUNNING,
    Phase.VERTEX_RUNNING: JobState.RUNNING,
}
#: The job is over before the run begins.
_COLLECTS = (Phase.COLLECTING, Phase.VERTEX_COLLECTING)
_ONE_TASK = (Phase.ONE_SUBMITTING, Phase.ONE_RUNNING, Phase.ONE_COLLECTING)
_TASK = {
    Phase.BUILDING: "build",
    Phase.PUSHING: "push",
    Phase.SUBMITTING: "submit",
    Phase.VERTEX_SUBMITTING: "submit",
    **dict.fromkeys(_COLLECTS, "collect"),
    **dict.fromkeys(_ONE_TASK, "train"),
}
_STEP = {
    Phase.BUILDING: Next.BUILDS,
    Phase.PUSHING: Next.PUSHES,
    **dict.fromkeys(_COLLECTS, Next.COLLECTS),
}
_ENDS = {"failed": Task.FAILED, "success": Task.SUCCESS, "skipped": Task.SKIPPED}


@dataclass
class Case:
    """
    One run.

    :param limit: ending of the DAG's name, for what the DAG itself sets: limits of time, or the mode of the
        wait.
    :param first_try: the task's try that is in the phase; what a later one does is the next attempt.
    :param is_left_alone: nobody marks the task; then its success is its own.
    :param must_finish: the task cannot stay where it is: it goes on only if it comes to its end.
    """

    bed: Bed
    name: str
    phase: Phase
    limit: str = ""
    first_try: int = 1
    is_left_alone: bool = False
    must_finish: bool = False
    _collected_id: str = field(default="", init=False)

    @property
    def dag_id(self) -> str:
        """The DAG that has the phase."""
        return f"kill_{self.phase}{self.limit}"

    @property
    def task_id(self) -> str:
        """The task that is in the phase."""
        return _TASK.get(self.phase, "wait")

    @property
    def run(self) -> Run:
        """The run, as a person has it."""
        return Run(self.bed.api, self.dag_id, self.name)

    def prepare(self) -> None:
        """Make what the run works on."""
        if self.phase is Phase.PUSHING:
            self.bed.tag_for_push(self.name)
        if self.phase in _COLLECTS:
            self._collected_id = self.bed.make_collected(
                self.service, f"collected_{self.name.replace('-', '_')}"
            )
        if self.phase is Phase.ONE_COLLECTING:
            self.bed.leave_metrics(self.bed.folder(self.name))

    def start(self) -> None:
        """Start the run; it reaches its phase by itself."""
        conf = {
            "cell": self.name,
            "image": self.bed.image,
            "absent_image": ABSENT_IMAGE,
            "job_id": self._collected_id,
            "job_dir": self.bed.folder(self.name),
        }
        body = {"logical_date": None, "conf": conf, "dag_run_id": self.name}
        self.bed.api.call("POST", f"/api/v2/dags/{self.dag_id}/dagRuns", json=body)

    def task(self, view: View) -> TaskSeen:
        """Return the task that is in the phase."""
        return view.tasks.get((self.name, self.task_id), TaskSeen())

    @property
    def service(self) -> TrainingBackend:
        """The training service that has its jobs."""
        if self.phase.startswith("vertex"):
            return self.bed.vertex
        return self.bed.full if self.phase is Phase.QUEUED else self.bed.training

    def jobs(self, view: View) -> list[WireJob]:
        """Return the jobs of this case, the first one first."""
        return list(view.jobs.get(self.name, ()))

    def is_there(self, view: View) -> bool:
        """Whether the phase is reached, and the task is in the middle of it."""
        task = self.task(view)
        if task.try_number != self.first_try:
            return False
        if self.phase is Phase.BUILDING:
            return task.pid is not None and self.name in view.building
        if gate := self.bed.gates.get(self.phase):
            # The gate is asked now, the task was seen before: it may have been without a process then.
            return task.pid is not None and gate.is_held(self._key)
        jobs = self.jobs(view)
        return bool(jobs) and jobs[0].state is WAITS[self.phase] and self._is_waiting(task)

    def has_missed(self, view: View) -> bool:
        """
        Tell whether the phase was over before it was seen.

        On a busy machine a time limit may come first.
        """
        task = self.task(view)
        return task.try_number > self.first_try or task.state in {*_ENDS, "up_for_retry", "upstream_failed"}

    def observe(self, view: View) -> Outcome:
        """Return what is so now."""
        jobs, task = self.jobs(view), self.task(view)
        if task.try_number > self.first_try:
            is_at_work = task.state == "success" or self._is_waiting(task)
            fate = Task.AGAIN if is_at_work else Task.CONTINUES
        else:
            fate = _ENDS.get(task.state, Task.CONTINUES)
            if fate is Task.SUCCESS and self.is_left_alone:
                fate = Task.CONTINUES
        return Outcome(
            job=self._job(jobs), task=fate, next=self._next(jobs) if fate is Task.AGAIN else Next.NONE
        )

    def is_at_rest(self, view: View) -> bool:
        """
        Tell whether nothing of the case is in progress.

        A wait has its triggerer, and of what has ended no process or build is left.
        """
        task = self.task(view)
        if task.state == "deferred":
            return task.is_watched
        if task.state == "running":
            is_still_there = task.try_number == self.first_try and not self.must_finish
            return is_still_there or self._is_waiting(task)
        return self._is_gone(task) and self.name not in view.building

    def act(self, act: Act, view: View) -> None:
        """Do what a person does, or kill the worker; limits of time act by themselves."""
        match act:
            case Act.USER_KILL:
                self.run.mark_run("failed")
            case Act.CLEAR:
                self.run.clear(self.task_id)
            case Act.MARK_SUCCESS:
                self.run.mark(self.task_id, "success")
            case Act.MARK_FAILED:
                self.run.mark(self.task_id, "failed")
            case Act.WORKER_SIGKILL:
                self._kill_worker(view)

    def clear_for_next(self, view: View) -> None:
        """Clear, as a person does who wants the work to be done after all."""
        self.first_try = self.task(view).try_number
        if self.phase in WAITS and self.phase not in _ONE_TASK:
            self.run.clear("submit", include_downstream=True)
        else:
            self.run.clear(self.task_id)

    def next_attempt(self, view: View) -> Next:
        """Return what has come of that."""
        if self.phase in WAITS:
            return Next.SUBMITS if len(self.jobs(view)) > 1 else Next.NONE
        return self.observe(view).next

    def leftovers(self) -> list[str]:
        """Return what a killed push has left behind, once its answer is let go."""
        if self.phase is not Phase.PUSHING:
            return []
        return ["the registry has the image"] if self.bed.is_pushed(self.name) else []

    def let_go(self, view: View) -> None:
        """
        Release all held answers once the act is over.

        A killed push must have no effect all the same.

        The next try would wait, too: the engine sends a layer once, even if two pushes have it. And a task
        without its worker ends when it is answered.
        """
        task = self.task(view)
        is_ended = task.state in _ENDS and self._is_gone(task)
        gate = self.bed.gates.get(self.phase)
        if gate and (task.try_number > self.first_try or is_ended):
            gate.release(self._key)

    def kill_process(self, view: View) -> None:
        """SIGKILL to the task and its worker, as when their machine dies."""
        task = self._process(view)
        worker = task.parent()
        assert worker is not None
        for process in (worker, task):
            process.kill()

    def tell_where_it_hangs(self, view: View) -> None:
        """Have its running tasks write the stacks of their threads to their logs."""
        for (run_id, _), seen in view.tasks.items():
            if run_id == self.name and seen.state == "running" and not self._is_gone(seen):
                assert seen.pid is not None
                os.kill(seen.pid, signal.SIGUSR2)

    def describe(self, view: View) -> str:
        """Return what is so now, for a message."""
        tasks = {task_id: seen for (run_id, task_id), seen in view.tasks.items() if run_id == self.name}
        return f"{self.name}: tasks {tasks}, jobs {[job.state for job in self.jobs(view)]}"

    @property
    def _key(self) -> str:
        """What the gate of its phase knows it by."""
        return self._collected_id or self.name

    @staticmethod
    def _is_gone(task: TaskSeen) -> bool:
        return task.pid is None or not psutil.pid_exists(task.pid)

    def _is_waiting(self, task: TaskSeen) -> bool:
        if not self.may_wait:
            return False
        return (
            task.state == "running" if self.limit == "_poke" else task.state == "deferred" and task.is_watched
        )

    @property
    def may_wait(self) -> bool:
        """Whether the task, or its next try, comes to wait for a job that does not end."""
        return self.phase in WAITS or self.phase is Phase.ONE_SUBMITTING

    def _job(self, jobs: list[WireJob]) -> Job:
        if self.phase in _COLLECTS:
            return Job.OVER
        if not jobs:
            return Job.NONE
        if jobs[0].state is JobState.SUCCEEDED:
            return Job.OVER
        is_cancelled = jobs[0].state in (JobState.CANCELLED, JobState.CANCELLING)
        return Job.CANCELLED if is_cancelled else Job.KEPT

    def _next(self, jobs: list[WireJob]) -> Next:
        if self.phase in _STEP:
            return _STEP[self.phase]
        if len(jobs) > 1:
            return Next.SUBMITS
        if self.phase is Phase.ONE_COLLECTING:
            return Next.COLLECTS
        return Next.WAITS if self.phase in WAITS else Next.ADOPTS

    def _process(self, view: View) -> psutil.Process:
        """Return the process of the task."""
        pid = self.task(view).pid
        assert pid is not None  # to psutil that would be this process
        return psutil.Process(pid)

    def _kill_worker(self, view: View) -> None:
        """
        SIGKILL the worker alone, as the kernel does when memory is short.

        The task is left without a worker.
        """
        worker = self._process(view).parent()
        assert worker is not None
        worker.kill()
