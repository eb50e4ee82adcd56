"""
The file of the package ``cloudml-hypertune``: its lines, and newly added reports. Pure.

A report appends to a queue of the newest 100 and writes all of the queue, one JSON a line, over the file in
place (cloudml-hypertune 0.1.0.dev6, ``hypertune.py``). So a reader sees a window of the reports, sometimes
cut short: what is new is found by laying the window over what is known. A trainer that makes a ``HyperTune``
anew for each report has a queue, and a window, of one.

That is exact as long as no report is wholly equal (tag, step, value and time) to two others: with three equal
ones, two readings that share one report look like two that share two.

The file is the trainer's, and so is not to be trusted: what is no report is counted and left out.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from training_api.job.tuning.measurement import Identity, Report

#: ``_MAX_NUM_METRIC_ENTRIES_TO_PRESERVE`` of cloudml-hypertune.
WINDOW_REPORTS = 100
#: A line is some 110 bytes, a tag of 256 characters and a checkpoint's path included under 6000.
_MAX_LINE_BYTES = 8192
#: All of a file that is looked at: a window of the longest lines.
MAX_FILE_BYTES = WINDOW_REPORTS * _MAX_LINE_BYTES
#: How many of the newest known reports a window may begin at; files that are read again after a crash begin
#: that far back.
KNOWN_REPORTS = 4 * WINDOW_REPORTS
_MAX_INT_DIGITS = 20
_OTHER_KEYS = frozenset({"checkpoint_path", "global_step", "timestamp", "trial"})
_US = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """
    What one look at the file added.

    :param new: reports that no earlier look has shown, in their order.
    :param has_gap: reports before ``new`` are lost, nobody knows how many.
    :param broken: whole lines that are no reports, and were not there before.
    """

    new: tuple[Report, ...]
    has_gap: bool = False
    broken: int = 0


class MetricFile:
    """
    One file through its life.

    :param known: its newest reports that were read by an earlier process; ``KNOWN_REPORTS`` are enough.
    """

    def __init__(self, known: Iterable[Report] = ()) -> None:
        self._known = deque((report.identity for report in known), maxlen=KNOWN_REPORTS)
        #: The lines of the newest look, as each look shows most of them again.
        self._lines: dict[bytes, Report | None] = {}

    def look(self, content: bytes) -> Look:
        """
        Return what the file's ``content`` adds to the looks before; never raises.

        A line without its end is still being written, and left out.
        """
        lines = content.split(b"\n")[:-1][-WINDOW_REPORTS:]
        before, self._lines = self._lines, {}
        broken = 0
        window: list[Report] = []
        for line in lines:
            report = before[line] if line in before else _read_line(line)
            broken += report is None and line not in before
            self._lines[line] = report
            if report is not None:
                window.append(report)
        shared = shared_reports(list(self._known), [report.identity for report in window])
        # A queue that is not full has lost nothing: the trainer has made a new one.
        has_gap = bool(self._known) and shared == 0 and len(lines) >= WINDOW_REPORTS
        new = tuple(window[shared:])
        self._known.extend(report.identity for report in new)
        return Look(new=new, has_gap=has_gap, broken=broken)


def shared_reports(known: Sequence[Identity], window: Sequence[Identity]) -> int:
    """
    Return how many reports at the start of ``window`` are known.

    Pure. The window is laid over the known reports as early as it fits: as far as both reach, they must be
    equal.
    """
    for start, first in enumerate(known):
        shared = min(len(known) - start, len(window))
        if window and first == window[0] and known[start : start + shared] == window[:shared]:
            return shared
    return 0


def _read_line(line: bytes) -> Report | None:
    if len(line) > _MAX_LINE_BYTES:
        return None
    try:
        fields = json.loads(line)
        if not isinstance(fields, dict):
            return None
        (tag,) = fields.keys() - _OTHER_KEYS
        return Report(
            tag=tag,
            step=_integer(fields.get("global_step", 0)),
            value=_number(fields[tag]),
            reported_us=round(_number(fields["timestamp"]) * _US),
        )
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return None


def _integer(found: object) -> int:
    if isinstance(found, bool) or not isinstance(found, int | str):
        raise TypeError(f"no integer: {found!r:.50}")
    if isinstance(found, str) and len(found) > _MAX_INT_DIGITS:
        raise ValueError("too many digits")
    return int(found)


def _number(found: object) -> float:
    """
    Return a number, or the text of one.

    ``nan`` and ``inf`` are numbers as Python writes them.
    """
    if isinstance(found, bool) or not isinstance(found, int | float | str):
        raise TypeError(f"no number: {found!r:.50}")
    return float(found)
