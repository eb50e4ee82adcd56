"""Adds trials to tuning jobs and stops them; a decision is written before it takes effect."""

from __future__ import annotations

from collections.abc import Sequence

from training_api.job.dialect import Dialects
from training_service.model.records import JobRecord
from training_service.search.search_space import SearchSpace
from training_service.store.trial_store import TrialStore
from training_service.studies.studies import Studies, is_within, seed_of
from training_service.studies.study import EndedTrial


class TrialPlanner:
    """Decides about trials; safe for threads, one call a tuning job at a time."""

    def __init__(self, trials: TrialStore, studies: Studies, dialects: Dialects) -> None:
        self._trials = trials
        self._dialects = dialects
        self._studies = studies

    def add(self, job: JobRecord) -> None:
        """
        Queue the next trial of the tuning job ``job``, unless it is ending or its grid is done.

        The next trial is a function of the study's seed, the ended trials and the active ones, so a kill
        between the suggestion and the write changes nothing.
        """
        # NumPy is an extra that only a service that tunes needs.
        # NumPy is an extra, and only a service that tunes needs it.
        from training_service.search.suggest import Observation, suggest

        study = job.spec.study
        if study is None:
            raise ValueError(f"job {job.spec.job_id!r} is no tuning job")
        space = SearchSpace.of(study.parameters)
        prior = [trial for trial in self._studies.prior(job) if is_within(space, trial)]
        # Read the active ones first: one that ends meanwhile is then in both lists, never in none.
        running = self._trials.active(job.uid)
        ended = self._studies.ended(job)
        done = {trial.number for trial in ended}
        assignments = [
            space.parse(dict(trial.trial.hyperparameters))
            for trial in running
            if trial.trial and trial.trial.hyperparameters and trial.trial.number not in done
        ]
        assignment = suggest(
            space,
            [
                Observation(assignment=space.parse(dict(trial.hyperparameters)), value=trial.value)
                for trial in (*prior, *ended)
                if trial.hyperparameters  # a trial whose row cannot be read has none
            ],
            assignments,
            seed_of(job.spec),
            goal=study.goal,
            algorithm=study.algorithm,
        )
        if assignment is None:
            return
        number, given = self._next_number(job, ended, running), space.render(assignment)
        made = self._dialects[job.spec.dialect].trial(job.spec, job.request, number, given)
        self._trials.insert(job, number, given, made)

    def stop_early(self, trial: JobRecord, reason: str, *, is_spared: bool) -> bool:
        """Write that a running trial is stopped, or spared; return whether this call did it."""
        return self._trials.record_early_stop(trial, reason, is_spared=is_spared)

    def _next_number(self, job: JobRecord, ended: Sequence[EndedTrial], running: Sequence[JobRecord]) -> int:
        """Continue the numbers of the resumed study, so that no job directory is written twice."""
        numbers = [trial.number for trial in (*self._studies.prior(job), *ended)]
        numbers += [trial.trial.number for trial in running if trial.trial]
        return max(numbers, default=0) + 1
