"""A tuning job's ``trainingOutput``: its trials, as the API shows them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from training_api.dialects.ml_v1.resources import HyperparameterMetric, HyperparameterOutput, TrainingOutput
from training_api.states import JobState
from training_service.model.records import JobRecord, TrialSummary
from training_service.store.measurement_store import Measurement, MeasurementStore
from training_service.store.trial_store import TrialStore


class TuningOutputs:
    """Reads the outputs of tuning jobs; safe for threads."""

    def __init__(self, trials: TrialStore, measurements: MeasurementStore) -> None:
        self._trials = trials
        self._measurements = measurements

    def of(self, jobs: Sequence[JobRecord], *, with_curves: bool = False) -> dict[str, TrainingOutput]:
        """
        Return the outputs of the tuning jobs among ``jobs``, by uid.

        :param with_curves: with every measurement, as ``allMetrics``; else with the newest of each trial only.
        """
        tuning = {job.uid: job for job in jobs if job.spec.study}
        by_study = defaultdict(list)
        for trial in self._trials.summaries(tuning):
            by_study[trial.study_uid].append(trial)
        outputs = {}
        for uid, job in tuning.items():
            tag = job.spec.study.metric_tag if job.spec.study else ""
            uids = [trial.uid for trial in by_study[uid]]
            latest = self._measurements.latest(uids, tag)
            curves = self._measurements.of_many(uids, tag) if with_curves else {}
            outputs[uid] = training_output(tag, by_study[uid], latest, curves)
        return outputs


def training_output(
    metric_tag: str,
    trials: Sequence[TrialSummary],
    latest: Mapping[str, Measurement],
    curves: Mapping[str, Sequence[Measurement]],
) -> TrainingOutput:
    """
    Return the output of one tuning job. Pure.

    All trials are shown, also those that run or failed; the document says "for each SUCCESSFUL trial" [discovery], and
    ``state`` tells them apart here.

    :param latest: by trial uid, its newest measurement.
    :param curves: by trial uid, all of them; may be empty.
    """
    return TrainingOutput(
        is_hyperparameter_tuning_job=True,
        hyperparameter_metric_tag=metric_tag,
        completed_trial_count=sum(trial.state is JobState.SUCCEEDED for trial in trials),
        trials=[
            HyperparameterOutput(
                trial_id=str(trial.number),
                hyperparameters=dict(trial.hyperparameters),
                state=trial.state,
                start_time=trial.running_at,
                end_time=trial.ended_at,
                final_metric=_metric(latest[trial.uid]) if trial.uid in latest else None,
                all_metrics=[_metric(each) for each in curves.get(trial.uid, ())] or None,
                is_trial_stopped_early=True if trial.stopped else None,
            )
            for trial in trials
        ]
        or None,
    )


def _metric(measurement: Measurement) -> HyperparameterMetric:
    report = measurement.report
    return HyperparameterMetric(objective_value=report.value, training_step=report.step)
