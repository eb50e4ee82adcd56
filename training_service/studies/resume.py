"""Whether a tuning job can resume an earlier one and go on with its trials. Pure."""

from __future__ import annotations

from training_api.errors import FieldViolation, InvalidJobSpec
from training_api.job.tuning.study_spec import StudySpec
from training_service.model.records import JobRecord


def check_resume(study: StudySpec, previous: JobRecord) -> None:
    """
    Check that a study asks the same question as that of ``previous``.

    The parameters' names and types, the metric and the goal must be the same. Ranges and limits may differ;
    trials outside the new ranges are left out. The rules are ours [unverified]: the document only says
    "resume the study".

    :raises InvalidJobSpec: in the specification's words, with every broken rule.
    """
    name = previous.spec.job_id
    before = previous.spec.study
    if before is None:
        raise InvalidJobSpec([_violation("resume_job_id", f"job {name!r} is no tuning job")])
    found = []
    if not previous.state.is_terminal:
        found.append(
            _violation("resume_job_id", f"job {name!r} is {previous.state}; wait until it has ended")
        )
    if study.metric_tag != before.metric_tag:
        found.append(
            _violation(
                "metric_tag",
                f"must be {before.metric_tag!r}, as in job {name!r}; got {study.metric_tag!r}",
            )
        )
    if study.goal is not before.goal:
        found.append(_violation("goal", f"must be {before.goal}, as in job {name!r}; got {study.goal}"))
    if _parameters(study) != _parameters(before):
        found.append(
            _violation(
                "parameters",
                f"must have the names and types of job {name!r}: {_text(before)}; got {_text(study)}",
            )
        )
    if found:
        raise InvalidJobSpec(found)


def _parameters(study: StudySpec) -> dict[str, str]:
    return {each.name: each.kind.value for each in study.parameters}


def _text(study: StudySpec) -> str:
    return ", ".join(f"{name} ({kind})" for name, kind in sorted(_parameters(study).items()))


def _violation(field: str, description: str) -> FieldViolation:
    return FieldViolation(field=f"study.{field}", description=description)
