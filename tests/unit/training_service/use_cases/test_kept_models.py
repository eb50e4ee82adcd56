"""Models are read once a minute for readers of the same DAGs."""

from __future__ import annotations

from collections.abc import Sequence

from training_api.fleet.history import EndedJob, ModelHistory
from training_service.use_cases.kept_models import KEEP_SECONDS, MAX_LISTS, KeptModels


class Reading:
    """Counts how often models are read; ``now`` is the clock."""

    def __init__(self) -> None:
        self.now = 0.0
        self.count = 0
        self.kept = KeptModels(lambda: self.now)

    def ask(self, project: str = "p", dags: Sequence[str] | None = None) -> str:
        (model,) = self.kept.of(project, dags, self._read)
        return model.model

    def _read(self) -> list[ModelHistory]:
        self.count += 1
        ended = EndedJob(id="job", end_time=0, good=True)
        return [ModelHistory(model=f"m{self.count}", latest=ended, last_good=ended)]


def test_what_was_read_serves_for_a_minute() -> None:
    reading = Reading()

    seen = [reading.ask()]
    reading.now = KEEP_SECONDS - 1
    seen.append(reading.ask())
    reading.now = KEEP_SECONDS
    seen.append(reading.ask())

    assert seen == ["m1", "m1", "m2"]


def test_nobody_gets_the_models_of_other_readers() -> None:
    reading = Reading()

    seen = [
        reading.ask("p"),
        reading.ask("q"),
        reading.ask("p", []),
        reading.ask("p", ["a", "b"]),
        reading.ask("p", ["b", "a"]),
        reading.ask("p", ["a"]),
    ]

    assert seen == ["m1", "m2", "m3", "m4", "m4", "m5"]


def test_only_the_lists_that_were_read_last_are_kept() -> None:
    reading = Reading()
    reading.ask("first")
    for number in range(MAX_LISTS):
        reading.ask(f"p{number}")
    count = reading.count

    reading.ask(f"p{MAX_LISTS - 1}")
    assert reading.count == count
    reading.ask("first")
    assert reading.count == count + 1
