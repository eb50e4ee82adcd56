"""
The fields of a job that have arguments of their own, and where each is in the API's form.

The one table of them: the request of a task, the options of ``plan`` and what ``migrate`` writes go by it.
The arguments' types are in ``job_request.py``, and what they mean in ``JobDescriptionOperator``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from training_api.dialects.ml_v1.roles import OTHER_ROLES


@dataclass(frozen=True, slots=True, kw_only=True)
class JobField:
    """
    One field.

    :param name: of the argument.
    :param part: the object within ``trainingInput`` that has the field; empty: ``trainingInput`` itself.
    :param wire: its name there.
    :param is_merged: an object, merged with the job's own member by member.
    :param is_words: a list of words, which a text is split into.
    :param meaning: in a few words, as an option of the command line; empty: there is no such option.
    """

    name: str
    part: str = ""
    wire: str
    is_merged: bool = False
    is_words: bool = False
    meaning: str = ""


def _of_roles() -> Iterator[JobField]:
    for role in OTHER_ROLES:
        is_single = role.name == "evaluator"
        of = f"the {role.title}" if is_single else f"each {role.title}"
        yield JobField(
            name=f"{role.name}_count", wire=f"{role.wire}Count", meaning=f"number of {role.title}s"
        )
        yield JobField(name=f"{role.name}_type", wire=f"{role.wire}Type", meaning=f"machine type of {of}")
        yield JobField(name=f"{role.name}_config", wire=f"{role.wire}Config", is_merged=True)


#: In the order in which they are written into a migrated DAG. ``args`` moves to the master's container beside
#: a command.
JOB_FIELDS = (
    JobField(
        name="image",
        part="masterConfig",
        wire="imageUri",
        meaning="image of the master; with --context: HOST/PROJECT/NAME to push it as; or a name below image_prefix",
    ),
    JobField(name="command", part="masterConfig", wire="containerCommand", is_words=True),
    JobField(name="args", wire="args", is_words=True),
    JobField(
        name="job_dir", wire="jobDir", meaning="gs:// folder for the results; {job_id} in it is the job's id"
    ),
    JobField(name="region", wire="region", meaning="default us-central1"),
    JobField(name="scale_tier", wire="scaleTier", meaning="like BASIC or CUSTOM"),
    JobField(name="master_type", wire="masterType", meaning="machine type of the master"),
    JobField(name="master_config", wire="masterConfig", is_merged=True),
    *_of_roles(),
    JobField(name="use_chief_in_tf_config", wire="useChiefInTfConfig"),
    JobField(name="service_account", wire="serviceAccount", meaning="as whom the job runs"),
    JobField(name="network", wire="network", meaning="peered network"),
    JobField(name="package_uris", wire="packageUris", is_words=True),
    JobField(name="python_module", wire="pythonModule"),
    JobField(name="runtime_version", wire="runtimeVersion"),
    JobField(name="python_version", wire="pythonVersion"),
    JobField(name="hyperparameters", wire="hyperparameters", is_merged=True),
    JobField(
        name="max_wait_time",
        part="scheduling",
        wire="maxWaitTime",
        meaning="limit on waiting for a machine, like 3600s",
    ),
    JobField(
        name="max_running_time",
        part="scheduling",
        wire="maxRunningTime",
        meaning="limit on running, like 3600s",
    ),
    JobField(name="priority", part="scheduling", wire="priority", meaning="0 to 1000, higher first"),
)


def fields_of_part(part: str) -> tuple[JobField, ...]:
    """Return the fields of an object of ``trainingInput``; empty: of ``trainingInput`` itself."""
    return tuple(field for field in JOB_FIELDS if field.part == part)
