"""What a benchmark found, as a table for people and a JSON file for those who compare."""

from __future__ import annotations

import json
import os
import platform
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import psutil
from rich.console import Console
from rich.table import Table

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """
    One measured figure.

    :param limit: what it has to stay below; ``None``: it is only told.
    :param samples: the single measurements, in their order.
    """

    name: str
    value: float
    unit: str
    limit: float | None = None
    samples: Sequence[float] = field(default_factory=tuple)

    @property
    def holds(self) -> bool:
        """Whether the figure is within its limit."""
        return self.limit is None or self.value <= self.limit


def median_figure(name: str, samples: Sequence[float], unit: str = "s", limit: float | None = None) -> Figure:
    """Return the median of ``samples`` as a figure."""
    rounded = tuple(round(sample, 4) for sample in samples)
    return Figure(
        name=name, value=round(statistics.median(samples), 4), unit=unit, limit=limit, samples=rounded
    )


def percentile_figure(
    name: str, samples: Sequence[float], percent: int, unit: str = "s", limit: float | None = None
) -> Figure:
    """Return the ``percent``-th percentile (1 to 99) of ``samples`` as a figure."""
    value = statistics.quantiles(samples, n=100, method="inclusive")[percent - 1]
    return Figure(name=name, value=round(value, 5), unit=unit, limit=limit)


def tell(figures: Mapping[str, Sequence[Figure]], prefix: str = "") -> int:
    """Print and keep ``figures``; return 0 if each is within its limit."""
    holds = print_report(figures)
    print(f"written to {write_report(figures, prefix)}")
    return 0 if holds else 1


def print_report(figures: Mapping[str, Sequence[Figure]]) -> bool:
    """Print all figures by question; whether all hold."""
    table = Table(box=None, pad_edge=False)
    for column in ("question", "figure", "value", "limit", "samples", ""):
        table.add_column(column, justify="right" if column in ("value", "limit", "samples") else "left")
    for question, found in figures.items():
        for figure in found:
            limit = "" if figure.limit is None else f"{figure.limit:g} {figure.unit}"
            verdict = "" if figure.limit is None else ("ok" if figure.holds else "TOO MUCH")
            value = f"{figure.value:g} {figure.unit}"
            table.add_row(question, figure.name, value, limit, str(len(figure.samples) or ""), verdict)
    Console(width=None if Console().is_terminal else 140).print(table)
    return all(figure.holds for found in figures.values() for figure in found)


def write_report(figures: Mapping[str, Sequence[Figure]], prefix: str = "") -> Path:
    """
    Write all figures with a description of the machine; return the file.

    Its name is ``prefix`` and the day.
    """
    RESULTS.mkdir(parents=True, exist_ok=True)
    now = datetime.now(UTC)
    report = {
        "measured_at": now.isoformat(timespec="seconds"),
        "machine": {
            "cores": os.cpu_count(),
            "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
            "system": platform.platform(),
            "python": platform.python_version(),
        },
        "figures": {name: [asdict(figure) for figure in found] for name, found in figures.items()},
    }
    path = RESULTS / f"{prefix}{now:%Y-%m-%d}.json"
    path.write_text(json.dumps(report, indent=2) + "\n")
    return path
