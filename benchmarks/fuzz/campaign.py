"""So many requests to one program, and what became of it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from benchmarks.fuzz.requests import make_request
from benchmarks.fuzz.targets import Target
from benchmarks.fuzz.wire import Answer, Wire
from benchmarks.report import Figure

#: Of all requests, those before the memory is measured first: caches fill, libraries are loaded.
_WARM_UP = 0.2
MOST_GROWTH_PERCENT = 10.0
#: Faults that are told in full.
_TOLD = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """
    What became of the program.

    :param statuses: how many answers had each status.
    :param faults: requests that the program should have answered otherwise, with their number.
    :param fault_count: how many there were; ``faults`` has the first of them.
    :param memory: bytes after the warm-up, and at the end.
    :param tracebacks: unexpected errors in its log.
    :param outside: files that it changed outside its folder.
    """

    statuses: Counter[str]
    faults: Sequence[str]
    fault_count: int
    memory: tuple[int, int]
    tracebacks: Sequence[str]
    outside: Sequence[str]

    @property
    def growth_percent(self) -> float:
        """By how much its memory has grown after the warm-up."""
        warm, last = self.memory
        return round(100 * (last - warm) / warm, 1)

    def figures(self) -> list[Figure]:
        """Return the outcome as figures with their limits."""
        return [
            Figure(name="requests", value=self.statuses.total(), unit=""),
            *(
                Figure(name=f"answers {status}", value=count, unit="")
                for status, count in sorted(self.statuses.items())
            ),
            Figure(name="wrong answers", value=self.fault_count, unit="", limit=0),
            Figure(name="tracebacks in the log", value=len(self.tracebacks), unit="", limit=0),
            Figure(name="files outside its folder", value=len(self.outside), unit="", limit=0),
            Figure(name="memory after the warm-up", value=round(self.memory[0] / 2**20, 1), unit="MiB"),
            Figure(name="growth of memory", value=self.growth_percent, unit="%", limit=MOST_GROWTH_PERCENT),
        ]


def assault(target: Target, count: int, seed: int) -> Outcome:
    """Send ``count`` requests, one after the other."""
    wire, statuses = Wire(target.port), Counter[str]()
    faults: list[str] = []
    fault_count, warm = 0, 0
    for number in range(count):
        if number == int(count * _WARM_UP):
            warm = target.memory()
        # Not for secrets: the same seed must make the same requests.
        random = Random(f"{seed} {target.name} {number}")  # noqa: S311
        request = make_request(random, target.samples, target.words)
        answer = wire.ask(request)
        target.learn(answer)
        statuses[str(answer.status)] += 1
        if is_fault(answer) or not target.process.is_running():
            fault_count += 1
            if len(faults) < _TOLD:
                faults.append(f"{number}: {answer.status} {answer.body[:300]!r} to {request}")
    wire.close()
    return Outcome(
        statuses=statuses,
        faults=faults,
        fault_count=fault_count,
        memory=(warm, target.memory()),
        tracebacks=target.tracebacks(),
        outside=target.outside(),
    )


def is_fault(answer: Answer) -> bool:
    """Tell whether a program should not have answered so."""
    if isinstance(answer.status, str):
        # A request that is none may be answered by the end of its connection.
        return answer.status == "silent"
    return answer.status >= 500 and not _is_documented(answer)


def _is_documented(answer: Answer) -> bool:
    """Tell whether it is one of the two refusals that the store shares with Cloud Storage."""
    if answer.status == 501:
        return True
    try:
        message = json.loads(answer.body)["error"]["message"]
    except (ValueError, LookupError, TypeError):
        return False
    # A chunk of a resumable upload that does not begin where the one before has ended.
    return answer.status == 503 and "bytes before these are missing" in str(message)
