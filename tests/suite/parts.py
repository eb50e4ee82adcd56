"""The parts of the suite: what each selects and needs, and how long it may take. Data only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

#: The marker of a further case of a promise, and of a unit test that takes seconds: only ``make test-all``
#: runs them.
EXTENDED = "extended"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """
    Tests that one pytest process runs.

    :param selection: paths, and other arguments of pytest.
    :param markers: pytest's expression of the markers; each test of the suite is in exactly one part.
    :param budget_seconds: how long all of it takes at most on two idle cores, beside the other parts.
    :param short_budget_seconds: the same without the tests that are marked :data:`EXTENDED`; None: it has
        none of these.
    :param niceness: of its processes (nice(1)); parts that only compute leave the cores to those that have
        deadlines.
    """

    name: str
    selection: tuple[str, ...]
    budget_seconds: int
    short_budget_seconds: int | None = None
    markers: str = ""
    niceness: int = 0

    def without_extended(self) -> Part:
        """Return the same part as ``make test`` runs it."""
        others = f"not {EXTENDED}"
        return replace(
            self,
            markers=f"({self.markers}) and {others}" if self.markers else others,
            budget_seconds=self.short_budget_seconds or self.budget_seconds,
        )

    def arguments(self) -> list[str]:
        """Return what pytest is called with."""
        return [*self.selection, *(["-m", self.markers] if self.markers else [])]


#: The marker expression of what needs neither an engine nor a database server.
_NO_OTHER_PROGRAMS = "not docker and not postgresql"

#: Started in this order. The kill table goes first, for its forty tasks at once slow all others. The worker
#: hosts and Airflow's other tests follow one after the other: two stacks of Airflow at a time take most of a
#: run's memory, above all beside the hosts' disks, which are in memory. For the memory's sake, what only
#: computes is two processes, ``quick`` and ``integration``. The rest: longest first.
PARTS: tuple[Part, ...] = (
    Part(name="kill", selection=("tests/e2e/kill_table",), budget_seconds=900, short_budget_seconds=500),
    Part(
        name="docker",
        selection=(
            *("tests/docker", "tests/contract", "tests/integration"),
            "--ignore=tests/docker/test_compose.py",
        ),
        markers="docker or postgresql",
        budget_seconds=3200,
        short_budget_seconds=1700,
    ),
    Part(
        name="quick",
        selection=("tests/unit", "tests/contract", "tests/dags"),
        markers=_NO_OTHER_PROGRAMS,
        budget_seconds=1800,
        short_budget_seconds=800,
        niceness=5,
    ),
    Part(name="hosts", selection=("tests/e2e/two_hosts",), budget_seconds=720, short_budget_seconds=300),
    Part(
        name="e2e",
        selection=("tests/e2e", "--ignore=tests/e2e/kill_table", "--ignore=tests/e2e/two_hosts"),
        budget_seconds=2400,
        short_budget_seconds=1200,
    ),
    Part(
        name="integration",
        selection=("tests/integration",),
        markers=_NO_OTHER_PROGRAMS,
        budget_seconds=1200,
        short_budget_seconds=700,
        niceness=5,
    ),
    Part(
        name="wheels",
        selection=("tests/packaging",),
        budget_seconds=540,
        short_budget_seconds=150,
        niceness=5,
    ),
    Part(name="gcloud", selection=("tests/conformance",), budget_seconds=400, short_budget_seconds=300),
)
#: Parts that need the machine to themselves: only ``make test ONLY=...`` runs them.
ALONE: tuple[Part, ...] = (
    Part(name="compose", selection=("tests/docker/test_compose.py",), budget_seconds=400),
)
#: How many parts run at once: each waits for containers and schedulers for much of the time, and four keep
#: two cores so busy that all of them spend it on heartbeats and polls.
WIDTH = 3

#: What ``make test ONLY=...`` runs: the name of a part, or of a marker.
MARKERS: tuple[str, ...] = ("browser", "swarm")
#: What runs without an engine, without Airflow's processes and database, and in minutes: one part a core;
#: both take the same time.
QUICK: tuple[Part, ...] = (
    Part(
        name="service",
        selection=("tests/unit/training_service",),
        markers="not docker",
        budget_seconds=180,
    ),
    Part(
        name="others",
        selection=("tests/unit", "tests/contract", "tests/dags", "--ignore=tests/unit/training_service"),
        markers=_NO_OTHER_PROGRAMS,
        budget_seconds=180,
    ),
)


def parts_for(only: str) -> Sequence[Part]:
    """
    Return the parts to run.

    :param only: empty for all; a part's name, or a marker's.
    :raises ValueError: ``only`` is neither.
    """
    if not only:
        return PARTS
    if only == "e2e":
        return [part for part in PARTS if part.name in ("kill", "e2e", "hosts")]
    if only in MARKERS:
        return [Part(name=only, selection=("tests",), markers=only, budget_seconds=900)]
    found = [part for part in (*PARTS, *ALONE) if part.name == only]
    if not found:
        known = sorted({part.name for part in (*PARTS, *ALONE)} | set(MARKERS))
        raise ValueError(f"ONLY must be one of {', '.join(known)}, got {only!r}")
    return found
