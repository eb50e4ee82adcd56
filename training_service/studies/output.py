"""The trials of tuning jobs with their measurements, to be shown."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from training_service.model.records import JobRecord, TrialSummary
from training_service.model.tuning_output import TrialOutput, TuningOutput
from training_service.store.measurement_store import Measurement, MeasurementStore
from training_service.store.trial_store import TrialStore
from training_service.studies.finals import FinalMeasurements

#: The most measurements that a tuning job shows per trial and in all, the last ones; the ops API has the
#: older ones. The real service shows none: "not currently populated" [discovery].
MAX_METRICS_OF_TRIAL, MAX_METRICS = 1000, 5000


class TuningOutputs:
    """Reads the outputs of tuning jobs; safe for threads."""

    def __init__(self, trials: TrialStore, measurements: MeasurementStore) -> None:
        self._trials = trials
        self._measurements = measurements

    def of(self, jobs: Sequence[JobRecord], *, with_curves: bool = False) -> dict[str, TuningOutput]:
        """
        Return the outputs of the tuning jobs among ``jobs``, by uid.

        :param with_curves: include the last measurements, else only each trial's final one.
        """
        tuning = {job.uid: job for job in jobs if job.spec.study}
        by_study = defaultdict(list)
        for trial in self._trials.summaries(tuning):
            by_study[trial.study_uid].append(trial)
        outputs = {}
        for uid, job in tuning.items():
            if job.spec.study is None:
                continue
            tag = job.spec.study.metric_tag
            uids = [trial.uid for trial in by_study[uid]]
            finals = FinalMeasurements(self._measurements).of(
                job.spec.study, self._measurements.latest(uids, tag)
            )
            each = max(min(MAX_METRICS_OF_TRIAL, MAX_METRICS // max(len(uids), 1)), 1)
            curves = self._measurements.last_of_many(uids, tag, each) if with_curves else {}
            outputs[uid] = tuning_output(tag, by_study[uid], finals, curves)
        return outputs


def tuning_output(
    metric_tag: str,
    trials: Sequence[TrialSummary],
    finals: Mapping[str, Measurement],
    curves: Mapping[str, Sequence[Measurement]],
) -> TuningOutput:
    """
    Return the output of one tuning job. Pure.

    :param finals: by trial uid, its final measurement so far.
    :param curves: by trial uid, its last measurements in order; may be empty.
    """
    return TuningOutput(
        metric_tag=metric_tag,
        trials=[
            TrialOutput(
                trial=trial,
                final=finals[trial.uid].report if trial.uid in finals else None,
                reports=[each.report for each in curves.get(trial.uid, ())],
            )
            for trial in trials
        ],
    )
