"""
One poller for all waits of one service and project in one triggerer.

It lives on the event loop of the waits, from the first to the last of them, and asks one question for all
(``container_training/work/waiting/roster.py``). A wait gets its job when that is not as it was, or the
error of a question that got no answer.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager

from container_training.hooks.backends import BackendAddress
from container_training.hooks.metrics import count_poll_error
from container_training.work.waiting.duplicates import duplicates
from container_training.work.waiting.roster import PAGE_SIZE, Roster, log_pause_seconds
from training_api.dialects.ml_v1.resources import Job
from training_api.errors import ServiceError, TrainingError
from training_api.retrying import TRANSIENT, backoff_seconds, draw_jitter
from training_api.states import ACTIVE

#: Requests that waits make for themselves - pages of logs - side by side; the others queue up.
_SIDE_BY_SIDE = 8
#: Where a poll lists all living jobs, each of its calls costs so many seconds of the pause after it. That is
#: half of what Vertex AI's default quota allows, 600 requests a minute and region [unverified].
_CALL_SECONDS = 0.2

_log = logging.getLogger(__name__)
_pollers: dict[tuple[asyncio.AbstractEventLoop, BackendAddress], JobPoller] = {}


@asynccontextmanager
async def watch_job(address: BackendAddress, job_id: str, interval_seconds: float) -> AsyncIterator[JobNews]:
    """
    Watch ``job_id`` until the block ends, by the poller that the waits of ``address`` share.

    The last wait to leave closes the poller's connections before it goes: its event loop may end with it, as
    in ``dag.test()``.

    :param interval_seconds: the pause between two looks that this wait asks for, while something is about to
        change.
    """
    key = (asyncio.get_running_loop(), address)
    if key not in _pollers or _pollers[key].has_ended:
        _pollers[key] = JobPoller(address)
    poller = _pollers[key]
    news = poller.join(job_id, interval_seconds)
    try:
        yield news
    finally:
        poller.leave(news)
        if poller.is_idle:
            if _pollers.get(key) is poller:
                del _pollers[key]
            await poller.stop()


class JobNews:
    """
    What one wait hears of its job.

    Only the newest state is kept: a slow reader misses those between.
    """

    def __init__(self, poller: JobPoller, job_id: str, interval_seconds: float) -> None:
        self.poller = poller
        self.job_id = job_id
        self.interval_seconds = interval_seconds
        self.job: Job | None = None
        self.has_error = False
        self._newest: Job | Exception | None = None
        self._arrived = asyncio.Event()

    async def next(self) -> Job:
        """
        Return the job once it has changed, or once the service answers again.

        The first call returns after the first poll.

        :raises TrainingError: the last look failed, or there is no such job.
        """
        while self._newest is None:
            self._arrived.clear()
            await self._arrived.wait()
        newest, self._newest = self._newest, None
        if isinstance(newest, Exception):
            # All waits are told the same error; each would leave its frames in the one traceback.
            raise newest.with_traceback(None)
        return newest

    def tell(self, job: Job) -> None:
        """Pass on the job."""
        self.job = self._newest = job
        self.has_error = False
        self._arrived.set()

    def fail(self, error: Exception) -> None:
        """Pass on why there is no job."""
        self._newest = error
        self.has_error = True
        self._arrived.set()


class JobPoller:
    """The poller itself; belongs to the event loop that it was made on."""

    def __init__(self, address: BackendAddress) -> None:
        self.client = address.connect_async()
        #: Taken by a wait for each request of its own.
        self.turn = asyncio.Semaphore(_SIDE_BY_SIDE)
        self._roster = Roster(address.min_poll_seconds, lists_by_id=self.client.capabilities.lists_by_id)
        self._news: dict[str, list[JobNews]] = defaultdict(list)
        self._log_readers: set[JobNews] = set()
        self._joined = asyncio.Event()
        self._failures = 0
        self._may_list = True
        self._loop = asyncio.get_running_loop()
        # Not in the context of the wait that came first: what is logged here is about none of them.
        self._task = self._loop.create_task(
            self._run(), name=f"watch {address.project}", context=contextvars.Context()
        )
        self._task.add_done_callback(self._tell_of_a_bug)

    @property
    def is_idle(self) -> bool:
        """Whether nobody waits."""
        return not self._news

    @property
    def has_ended(self) -> bool:
        """Whether a bug ended the poller."""
        return self._task.done()

    def join(self, job_id: str, interval_seconds: float) -> JobNews:
        """Add a wait."""
        news = JobNews(self, job_id, interval_seconds)
        self._news[job_id].append(news)
        self._roster.join(job_id, interval_seconds, self._loop.time())
        self._joined.set()
        return news

    def leave(self, news: JobNews) -> None:
        """Remove a wait."""
        self._log_readers.discard(news)
        self._roster.leave(news.job_id, news.interval_seconds)
        self._news[news.job_id].remove(news)
        if not self._news[news.job_id]:
            del self._news[news.job_id]

    async def stop(self) -> None:
        """End the poller; return when its connections are closed."""
        self._task.cancel()
        await asyncio.wait([self._task])

    def log_pause(self, news: JobNews, *, reads: bool) -> float | None:
        """
        Return how long ``news`` should wait for its next page of the log.

        ``None``: it does not read now.
        """
        if not reads:
            self._log_readers.discard(news)
            return None
        self._log_readers.add(news)
        return log_pause_seconds(len(self._log_readers))

    async def _run(self) -> None:
        async with self.client:
            while True:
                started = self._loop.time()
                pause = await self._look_and_tell()
                await self._nap(started, pause)

    async def _look_and_tell(self) -> float:
        """Look once; return how long to pause then."""
        try:
            calls = await self._look()
        except TRANSIENT as error:
            self._failures += 1
            count_poll_error(error)
            self._tell_all(error)
            pause = self._roster.pause_seconds(self._loop.time()) if self._news else 0.0
            return max(pause, backoff_seconds(self._failures, pause, error, draw_jitter()))
        self._failures = 0
        for news in [*self._all_news()]:
            # What they were told does not hold any more.
            if news.has_error and news.job is not None:
                news.tell(news.job)
        if not self._news:
            return 0.0
        pause = self._roster.pause_seconds(self._loop.time())
        if not self.client.capabilities.lists_by_id:
            return max(pause, calls * _CALL_SECONDS)
        # More than a page is there only when much has changed at once: the mean stays at one call an
        # interval.
        return calls * pause

    async def _look(self) -> int:
        """
        Poll until every new job was seen; return the number of calls that were about other jobs.

        A list of all jobs is read once: what it lacks is asked for one by one, as much as a poll may.
        """
        while True:
            if not self._may_list:
                await self._ask_for_each(self._roster.due())
                return 1
            had_newcomers = self._roster.has_newcomers
            calls = await self._ask_for_all()
            is_seen = not (had_newcomers and self._news and self._roster.has_newcomers)
            if is_seen or (self._may_list and not self.client.capabilities.lists_by_id):
                return calls
            await asyncio.sleep(0)

    async def _ask_for_all(self) -> int:
        """One question; returns its number of pages, and of jobs that were asked for beside it."""
        if not self._news:
            return 1
        question = self._roster.question(self._loop.time())
        jobs: list[Job] = []
        token, pages = "", 0
        while token or not pages:
            try:
                page = await self.client.list_jobs(question.filter, PAGE_SIZE, token)
            except TRANSIENT:
                raise
            except ServiceError as error:
                # Whoever may not list may still be let see each job; and if not, that answer says so better.
                _log.warning("jobs cannot be listed, so each is asked for by itself: %s", error)
                self._may_list = False
                return 1
            jobs += page.jobs or []
            token, pages = page.next_page_token or "", pages + 1
        found = self._roster.take(question, jobs, self._loop.time())
        self._tell(found.changed)
        asked = await self._ask_for_each(found.missing)
        if not self.client.capabilities.has_unique_ids:
            # A job that is too new for the list may have an older one beside it that is shown.
            await self._cancel_duplicates([*jobs, *asked])
        return pages if self.client.capabilities.lists_by_id else pages + len(found.missing)

    async def _cancel_duplicates(self, seen: Sequence[Job]) -> None:
        """Cancel the jobs that lost answers have made; the next poll tries again where it fails."""
        for job, of in duplicates(seen, self._news):
            try:
                # A list may be late: the job that is waited for may have ended, and the other be the next.
                if (await self.client.get_job(of)).state not in ACTIVE:
                    continue
                _log.warning("job %s is a second job of the task of job %s: it is cancelled", job.job_id, of)
                await self.client.cancel_job(job.job_id or "")
            except TrainingError as error:
                _log.warning("job %s could not be cancelled: %s", job.job_id, error)
                count_poll_error(error)

    async def _ask_for_each(self, job_ids: Sequence[str]) -> list[Job]:
        """Ask for the jobs one by one; return those that exist."""
        jobs: list[Job] = []
        for job_id in job_ids:
            try:
                job = await self.client.get_job(job_id)
            except TRANSIENT:
                raise
            except TrainingError as error:
                for news in self._news.get(job_id, ()):
                    news.fail(error)
            else:
                jobs.append(job)
                if job.job_id != job_id:  # asked for by the id that its task chose
                    job = job.model_copy(update={"job_id": job_id})
                if self._roster.see(job, self._loop.time()):
                    self._tell([job])
        return jobs

    async def _nap(self, started: float, pause: float) -> None:
        """
        Wait for ``pause``, or less if a new wait joins.

        Polls never come closer together than they may.
        """
        end = self._loop.time() + pause
        while self._news and (left := end - self._loop.time()) > 0:
            self._joined.clear()
            try:
                async with asyncio.timeout(left):
                    await self._joined.wait()
            except TimeoutError:
                return
            if not self._failures:
                end = min(end, started + self._roster.pause_seconds(self._loop.time()))
        if not self._news:
            # Whoever left last is about to stop this task.
            await asyncio.sleep(0)

    def _tell(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            for news in self._news.get(job.job_id or "", ()):
                news.tell(job)

    def _tell_all(self, error: Exception) -> None:
        for news in self._all_news():
            news.fail(error)

    def _all_news(self) -> Iterator[JobNews]:
        for waits in self._news.values():
            yield from waits

    def _tell_of_a_bug(self, task: asyncio.Task[None]) -> None:
        """Nobody may wait for a poller that is no more."""
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Exception):
            self._tell_all(error)
