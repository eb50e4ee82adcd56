"""All models are read once a minute for readers of the same DAGs; new ends are seen at once."""

from __future__ import annotations

from collections.abc import Sequence

from training_api.fleet.history import EndedJob, ModelHistory
from training_service.use_cases.kept_models import KEEP_SECONDS, MAX_LISTS, KeptModels


def ended(job_id: str, end_time: float, *, good: bool = True) -> EndedJob:
    return EndedJob(id=job_id, end_time=end_time, good=good)


def model(name: str, latest: EndedJob, last_good: EndedJob | None) -> ModelHistory:
    return ModelHistory(model=name, latest=latest, last_good=last_good)


class Reading:
    """Remembers from when on models are read; ``now`` is the clock, in seconds."""

    def __init__(self) -> None:
        self.now = 0.0
        self.asked: list[int] = []
        self.all = [model("m", ended("bad", 9, good=False), ended("good", 5))]
        self.newer: list[ModelHistory] = []
        self.kept = KeptModels(lambda: self.now)

    def ask(self, project: str = "p", dags: Sequence[str] | None = None) -> list[ModelHistory]:
        return self.kept.of(project, dags, int(self.now * 1e6) + 1_000_000_000, self._read)

    def _read(self, since_us: int) -> list[ModelHistory]:
        self.asked.append(since_us)
        return self.newer if since_us else self.all

    @property
    def whole(self) -> int:
        return self.asked.count(0)


def test_all_are_read_once_a_minute_and_in_between_what_ended_since() -> None:
    reading = Reading()

    reading.ask()
    reading.now = KEEP_SECONDS - 1
    reading.ask()
    assert reading.asked == [0, 940_000_000]
    reading.now = KEEP_SECONDS
    reading.ask()

    assert reading.asked == [0, 940_000_000, 0]


def test_a_new_end_takes_the_place_of_an_older_one() -> None:
    reading = Reading()
    reading.ask()
    reading.newer = [model("m", ended("better", 12), ended("better", 12))]
    assert reading.ask() == reading.newer

    reading.newer = [
        model("n", ended("first", 20), ended("first", 20)),
        model("m", ended("worse", 13, good=False), None),
    ]

    assert reading.ask() == [
        model("n", ended("first", 20), ended("first", 20)),
        model("m", ended("worse", 13, good=False), ended("good", 5)),
    ]


def test_an_end_that_is_read_again_changes_nothing() -> None:
    reading = Reading()
    reading.ask()
    reading.newer = [model("m", ended("good", 5), ended("good", 5))]

    assert reading.ask() == reading.all


def test_nobody_gets_the_models_of_other_readers() -> None:
    reading = Reading()
    readers: list[tuple[str, list[str] | None]] = [
        *(("p", None), ("q", None), ("p", [])),
        *(("p", ["a", "b"]), ("p", ["b", "a"]), ("p", ["a"])),
    ]

    for project, dags in readers:
        reading.ask(project, dags)

    assert reading.whole == len(readers) - 1


def test_only_the_lists_that_were_read_last_are_kept() -> None:
    reading = Reading()
    reading.ask("first")
    for number in range(MAX_LISTS):
        reading.ask(f"p{number}")

    reading.ask(f"p{MAX_LISTS - 1}")
    assert reading.whole == MAX_LISTS + 1
    reading.ask("first")
    assert reading.whole == MAX_LISTS + 2
