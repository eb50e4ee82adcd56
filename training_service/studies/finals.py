"""Which measurement of a trial is its final one, by its study's choice."""

from __future__ import annotations

from collections.abc import Mapping

from training_api.job.tuning.search_terms import Selection
from training_api.job.tuning.study_spec import StudySpec
from training_service.store.measurement_store import Measurement, MeasurementStore


class FinalMeasurements:
    """
    Reads final measurements; not safe for threads.

    It remembers the best of each trial that it was asked for last, until the trial reports again: the best
    takes reading all reports, and the loop asks for that of running trials all the time.
    """

    def __init__(self, measurements: MeasurementStore) -> None:
        self._measurements = measurements
        self._known: dict[str, tuple[int, Measurement]] = {}

    def of(self, study: StudySpec, latest: Mapping[str, Measurement]) -> dict[str, Measurement]:
        """
        Return the final measurements of trials, by uid.

        The best one is the best of the finite values, and the first of equals; a trial that has reported no
        finite value has its newest one.

        :param latest: by uid, the newest measurement of each trial that has one.
        """
        if study.selection is Selection.LAST:
            return dict(latest)
        changed = {uid for uid, newest in latest.items() if self._read_to(uid) != newest.id}
        best = self._measurements.best(changed, study.metric_tag, study.goal)
        self._known = {
            uid: (newest.id, best.get(uid, newest)) if uid in changed else self._known[uid]
            for uid, newest in latest.items()
        }
        return {uid: final for uid, (_, final) in self._known.items()}

    def _read_to(self, uid: str) -> int:
        """Return the id of the newest report when the best was read; 0: it never was."""
        return self._known[uid][0] if uid in self._known else 0
