"""
Runs cells of the kill table side by side in one Airflow, and notes what happened.

First one run for each act upon one task, and for each limit of time: it is brought into its phase, acted
upon, and looked at until nothing moves any more. When all are there, one search for orphans; then the next
attempt of what has ended. Last, one run a phase that must outlive, one after the other, what happens to the
parts of the system.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import psycopg
import requests
from docker.errors import DockerException

from local_stack.settings import Part
from tests.e2e.kill_table.bed import Bed
from tests.e2e.kill_table.case import WAITS, Case
from tests.e2e.kill_table.table import Act, Cell, Job, Next, Outcome, Phase, Task
from tests.e2e.kill_table.watch import View
from tests.support.bed.real_parts import kill_program
from training_api.errors import TransportError

_LOOK_SECONDS = 0.5
#: How long nothing may follow upon what looks settled.
_QUIET_SECONDS = 4.0
#: After so long, on an idle machine, it never will be; more than any limit here.
_SETTLE_SECONDS = 120.0
_START_SECONDS = 90.0
#: Each start of a task keeps a core busy for a second.
_STARTS_AT_ONCE = 4
#: The engine uploads five layers at a time, for everybody; a push that is held keeps one of them.
_PUSHES_AT_ONCE = 3
#: Where a limit of time came before the phase was reached, which happens on a busy machine, the run is begun
#: again.
_RUNS_A_CASE = 3
#: Once so many runs have hung on their way, Airflow itself is down, and all others would wait for it in vain.
_MOST_HANGS = 3
#: In these the service is in the middle of an answer.
_ASKS_THE_SERVICE = (
    Phase.SUBMITTING,
    Phase.COLLECTING,
    Phase.ONE_SUBMITTING,
    Phase.VERTEX_SUBMITTING,
    Phase.VERTEX_COLLECTING,
)
_SURVIVED = (Act.TRIGGERER_RESTART, Act.TRIGGERER_SIGKILL, Act.SERVICE_RESTART, Act.SCHEDULER_RESTART)
_LIMITS = {Act.DEADLINE: "_deadline", Act.EXECUTION_TIMEOUT: "_execution_timeout"}
#: What takes long goes first.
_ORDER = (
    Act.DEADLINE,
    Act.WORKER_SIGKILL,
    Act.EXECUTION_TIMEOUT,
    Act.USER_KILL,
    Act.MARK_FAILED,
    Act.MARK_SUCCESS,
    Act.CLEAR,
)


class _NotThere(AssertionError):
    """A run did not get into its phase."""


class Campaign:
    """
    The cells that are run; all others of the table are left out.

    :attr:`outcomes` has what happened, :attr:`notes` what should not have been seen.
    """

    def __init__(self, bed: Bed, wanted: Iterable[Cell]) -> None:
        self.bed = bed
        self.outcomes: dict[Cell, Outcome] = {}
        self.notes: dict[Cell, list[str]] = {}
        self._begun = time.monotonic()
        self._hangs = 0
        self._cells = {(cell.act, cell.phase): cell for cell in wanted}
        self._view = View(tasks={}, jobs={}, building=frozenset(), triggerer=0)
        self._looks = 0
        self._looked = asyncio.Condition()
        self._starts = asyncio.Semaphore(_STARTS_AT_ONCE)
        self._pushes = asyncio.Semaphore(_PUSHES_AT_ONCE)

    async def run(self) -> None:
        """Run all cells."""
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(self._watch())
            await self._run()
            watching.cancel()

    async def _run(self) -> None:
        ended = self._wanted(*_ORDER)
        submission = self._cells.get((Act.MARK_FAILED, Phase.SUBMITTING))
        with self._timed("acts"):
            dead = asyncio.create_task(self._end_without_worker()) if submission else None
            reached = zip(ended, await asyncio.gather(*map(self._kill, ended)), strict=True)
            cases = {cell: case for cell, case in reached if case}
            if submission and dead:
                self.notes[submission] += await dead
        with self._timed("search for orphans"):
            await self._note_orphans(cases)
        with self._timed("next attempts"):
            survivors = asyncio.create_task(self._start_survivors(self._wanted(*_SURVIVED)))
            await asyncio.gather(*itertools.starmap(self._try_to_follow_up, cases.items()))
            outliving = await survivors
        for act in _SURVIVED:
            if not self._wanted(act):
                continue
            with self._timed(str(act)):
                if act is Act.SCHEDULER_RESTART:
                    # What the service's restart has let go is brought there again.
                    for phase in _ASKS_THE_SERVICE:
                        outliving.pop(phase, None)
                    again = [cell for cell in self._wanted(act) if cell.phase in _ASKS_THE_SERVICE]
                    outliving |= await self._start_survivors(again, "-anew")
                await self._survive(act, outliving)
        with self._timed("end of the survivors"):
            await self._note_orphans(self._by_cell(outliving, *_SURVIVED))
            await asyncio.gather(
                *(self._end(phase, case) for phase, case in outliving.items() if phase in WAITS)
            )

    def _wanted(self, *acts: Act) -> list[Cell]:
        """Return the cells of ``acts`` that are run, act by act."""
        return [self._cells[act, phase] for act in acts for phase in Phase if (act, phase) in self._cells]

    def _by_cell(self, cases: Mapping[Phase, Case], *acts: Act) -> dict[Cell, Case]:
        """Return the case of each cell of ``acts`` that got into its phase."""
        return {cell: cases[cell.phase] for cell in self._wanted(*acts) if cell.phase in cases}

    async def _watch(self) -> None:
        while True:
            # What is restarted does not answer, and on a busy machine the engine may not, either.
            with suppress(
                TransportError, psycopg.OperationalError, DockerException, requests.RequestException
            ):
                self._view = await asyncio.to_thread(self.bed.watch.look)
                self._looks += 1
                async with self._looked:
                    self._looked.notify_all()
            await asyncio.sleep(_LOOK_SECONDS)

    async def _next_view(self) -> View:
        """Return a view that was begun after this was called."""
        wanted = self._looks + 2
        async with self._looked:
            await self._looked.wait_for(lambda: self._looks >= wanted)
        return self._view

    async def _until(self, condition: Callable[[View], bool], seconds: float) -> bool:
        """Whether ``condition`` holds, before ``seconds`` of an idle machine are over."""
        deadline = time.monotonic() + seconds * self.bed.slowness
        while not condition(self._view):
            if time.monotonic() > deadline:
                return False
            await self._next_view()
        return True

    async def _ask(self, request: Callable[..., None], *args: Any) -> None:
        """Have a person do something."""
        await asyncio.to_thread(request, *args)

    async def _kill(self, cell: Cell) -> Case | None:
        """Bring a run into the cell's phase, act, and note the outcome once it is stable."""
        try:
            if cell.phase is not Phase.PUSHING:
                return await self._kill_now(cell)
            async with self._pushes:
                return await self._kill_now(cell)
        except _NotThere as error:
            self.notes[cell] = [f"not in its phase: {error}"]
            return None
        except Exception as error:  # fails this cell, and not the others
            self.notes[cell] = [f"cannot be tried: {error!r}"]
            return None

    async def _kill_now(self, cell: Cell) -> Case:
        is_poking = cell.act is Act.WORKER_SIGKILL and cell.phase in WAITS
        limit = "_poke" if is_poking else _LIMITS.get(cell.act, "")
        case = await self._reach(cell, limit)
        await self._ask(case.act, cell.act, self._view)
        await self._settle(cell, case)
        if self.outcomes[cell].task is not Task.AGAIN:
            self.notes[cell] += await asyncio.to_thread(case.leftovers)
        return case

    async def _reach(self, cell: Cell, limit: str) -> Case:
        """Return a run that is in the cell's phase. :raises _NotThere: none gets there."""
        return await self._bring(lambda attempt: Case(self.bed, _name(str(cell), attempt), cell.phase, limit))

    async def _bring(self, make: Callable[[int], Case]) -> Case:
        """Return a run in its phase. :param make: from a number to another run of that phase."""
        async with self._starts:
            for attempt in range(_RUNS_A_CASE):
                case = make(attempt)
                if self._hangs >= _MOST_HANGS:
                    raise _NotThere(f"{case.name}: not begun, because {self._hangs} runs before it hang")
                if await self._is_brought_there(case):
                    return case
                if not case.has_missed(self._view):
                    self._hangs += 1
                    case.tell_where_it_hangs(self._view)
                    break
        raise _NotThere(case.describe(self._view))

    async def _is_brought_there(self, case: Case) -> bool:
        await asyncio.to_thread(case.prepare)
        await self._ask(case.start)
        is_over = await self._until(lambda view: case.is_there(view) or case.has_missed(view), _START_SECONDS)
        return is_over and case.is_there(self._view)

    async def _settle(self, cell: Cell, case: Case) -> None:
        """Note the state once it is as expected and stays so, or once it will never be."""
        deadline = time.monotonic() + _SETTLE_SECONDS * self.bed.slowness
        settled_at: float | None = None
        view = await self._next_view()
        while time.monotonic() < deadline:
            seen = case.observe(view)
            case.let_go(view)
            if replace(cell.expected, next=seen.next) == seen and case.is_at_rest(view):
                settled_at = settled_at or time.monotonic()
                if time.monotonic() > settled_at + _QUIET_SECONDS:
                    break
            else:
                settled_at = None
            view = await self._next_view()
        self.outcomes[cell] = case.observe(view)
        self.notes[cell] = [] if settled_at else [case.describe(view)]

    async def _end_without_worker(self) -> list[str]:
        """
        Mark a submission as failed whose process and worker are dead; return what is wrong then.

        No process is left that could learn of it.
        """
        case = Case(self.bed, "mark-failed-dead-submitting", Phase.SUBMITTING)
        async with self._starts:
            if not await self._is_brought_there(case):
                return [f"not in its phase: {case.describe(self._view)}"]
        await asyncio.to_thread(case.kill_process, self._view)
        await self._ask(case.act, Act.MARK_FAILED, self._view)
        is_cancelled = await self._until(
            lambda view: case.observe(view).job is Job.CANCELLED, _SETTLE_SECONDS
        )
        return [] if is_cancelled else [f"the job of a dead submission goes on: {case.describe(self._view)}"]

    async def _try_to_follow_up(self, cell: Cell, case: Case) -> None:
        try:
            await self._follow_up(cell, case)
        except Exception as error:  # fails this cell, and not the others
            self.notes[cell] += [f"has no next attempt: {error!r}"]

    async def _follow_up(self, cell: Cell, case: Case) -> None:
        """
        Clear what has ended, and note what its next attempt does.

        A task that is at its next attempt already is ended.
        """
        if self.outcomes[cell].task is Task.AGAIN:
            if cell.act is Act.EXECUTION_TIMEOUT and case.may_wait:  # else it is at its limit again and again
                await self._ask(case.act, Act.USER_KILL, self._view)
            await self._cancel_jobs(case)
            return
        async with self._starts:
            await self._ask(case.clear_for_next, self._view)
            await self._until(lambda view: case.next_attempt(view) is not Next.NONE, _SETTLE_SECONDS)
        self.outcomes[cell] = replace(self.outcomes[cell], next=case.next_attempt(self._view))
        await self._cancel_jobs(case)

    async def _cancel_jobs(self, case: Case) -> None:
        """Cancel what lives, so that its containers leave their memory to the next ones."""
        for job in case.jobs(self._view):
            if job.state is not None and not job.state.is_terminal:
                await asyncio.to_thread(case.service.cancel_job, job.job_id or "")

    async def _start_survivors(self, wanted: Sequence[Cell], suffix: str = "") -> dict[Phase, Case]:
        """Return a run for each phase that one gets into; the cells of the others fail."""
        found: dict[Phase, Case] = {}

        async def start(phase: Phase) -> None:
            name = f"survivor-{phase}{suffix}"
            try:
                found[phase] = await self._bring(
                    lambda attempt: Case(self.bed, _name(name, attempt), phase, is_left_alone=True)
                )
            except _NotThere as error:
                for cell in wanted:
                    if cell.phase is phase:
                        self.notes[cell] = [f"not in its phase: {error}"]

        await asyncio.gather(*map(start, dict.fromkeys(cell.phase for cell in wanted)))
        return found

    async def _survive(self, act: Act, outliving: Mapping[Phase, Case]) -> None:
        """Do ``act`` to the part beneath all cases, and note what came of each."""
        cases = self._by_cell(outliving, act)
        for case in cases.values():
            case.first_try = case.task(self._view).try_number
            # What the service has not answered it asks again, and is done.
            case.must_finish = act is Act.SERVICE_RESTART and case.phase in _ASKS_THE_SERVICE
        before = self._view.triggerer
        await asyncio.to_thread(self._strike, act)
        if act in (Act.TRIGGERER_RESTART, Act.TRIGGERER_SIGKILL):
            await self._until(lambda view: view.triggerer > before, _SETTLE_SECONDS)
        await asyncio.gather(*itertools.starmap(self._settle, cases.items()))

    async def _end(self, phase: Phase, case: Case) -> None:
        """A wait that only looks alive does not notice the end of its job."""
        for job in case.jobs(self._view):
            await asyncio.to_thread(case.service.cancel_job, job.job_id or "")
        if not await self._until(lambda view: case.task(view).state == "failed", _SETTLE_SECONDS):
            for cell in self._wanted(*_SURVIVED):
                if cell.phase is phase:
                    self.notes[cell].append("afterwards the wait did not notice its job's end")

    def _strike(self, act: Act) -> None:
        stack = self.bed.stack
        match act:
            case Act.TRIGGERER_RESTART:
                stack.processes.stop("airflow-triggerer")
                stack.up([Part.AIRFLOW])
            case Act.TRIGGERER_SIGKILL:
                kill_program(stack, "airflow-triggerer")
                stack.up([Part.AIRFLOW])
            case Act.SCHEDULER_RESTART:
                stack.processes.stop("airflow-scheduler")
                stack.up([Part.AIRFLOW])
            case Act.SERVICE_RESTART:
                kill_program(stack, Part.TRAINING.value)
                self.bed.full_service.kill()
                stack.up([Part.TRAINING])
                self.bed.full_service.start()

    async def _note_orphans(self, cases: Mapping[Cell, Case]) -> None:
        found = await asyncio.to_thread(self.bed.orphans)
        for cell, case in cases.items():
            if case.name in found:
                self.notes[cell].append(f"its job is an orphan: {found[case.name]}")

    @contextmanager
    def _timed(self, what: str) -> Iterator[None]:
        begun = time.monotonic()
        yield
        now = time.monotonic()
        print(f"kill table: {now - self._begun:5.0f} s: {what} took {now - begun:.0f} s", flush=True)


def _name(of: str, attempt: int) -> str:
    """Return the name of a run, fit for a label, an image and a job id."""
    name = of.lower().replace("_", "-")
    return f"{name}-{attempt + 1}" if attempt else name
