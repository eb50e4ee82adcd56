"""
What ``docs/fidelity.md`` cannot take from the code: effects, reasons, how sure we are.

Data only; tests refuse a name that the API does not have, and a field that is let through without an effect
and without a reason here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from docs.tools.fidelity.note import Certainty, Note, Sample, differs, each

_COUNT = Note(
    enforced="So many replicas run, all at once or none.",
    deviation="A job may have at most 128 replicas.",
    certainty=Certainty.UNVERIFIED,
)
_TYPE = Note(
    enforced="Limits the container's CPU and memory, to what this machine has at most.",
    deviation="A job that is larger than the machine is scaled down, and its log says so; legacy sizes are recalled.",
    certainty=Certainty.UNVERIFIED,
)
_SHELLS = "This service has no interactive shells."
_NO_OPERATIONS = differs("Nothing of training is a long-running operation, so that there are none to answer.")
_REGIONS = differs(
    "All regions are this machine, so that none has accelerators; their list is that of prediction's endpoints.",
    Certainty.UNVERIFIED,
)
_NO_PREDICTION = differs("This service trains; it does not predict.")

#: Method -> what differs; a method that is not served must be here.
METHOD_NOTES: Mapping[str, Note] = {
    "projects.explain": _NO_PREDICTION,
    "projects.predict": _NO_PREDICTION,
    "projects.getConfig": differs(
        "The project's number is derived from its id; `config.tpuServiceAccount` is never set."
    ),
    "projects.jobs.cancel": differs(
        "A job that has ended is left as it is, and the answer is 200; sources disagree on the real one's. "
        "See [the states](states.md).",
        Certainty.UNVERIFIED,
    ),
    "projects.jobs.setIamPolicy": differs(
        "The policy decides with `--require-auth` only; without, the service is open. Conditions grant nothing. "
        "See [access](access.md)."
    ),
    "projects.jobs.testIamPermissions": differs(
        "Without `--require-auth` the caller has every permission on a job that there is."
    ),
    "projects.locations.get": _REGIONS,
    "projects.locations.list": _REGIONS,
    "projects.operations.cancel": _NO_OPERATIONS,
    "projects.operations.get": _NO_OPERATIONS,
    "projects.operations.list": _NO_OPERATIONS,
}

#: ``Schema.field``, or ``Schema`` for all its fields that have no note.
NOTES: Mapping[str, Note] = {
    "Job.errorMessage": differs("Says what happened in this service's words.", Certainty.UNVERIFIED),
    "Job.etag": Note(
        enforced="`jobs.patch` refuses a stale one; the service makes it, so `jobs.create` ignores it."
    ),
    "Job.jobId": Note(
        enforced="Unique in its project: the second job of that id is a 409.",
        deviation="The pattern's wording is ours.",
        certainty=Certainty.UNVERIFIED,
    ),
    "Job.labels": Note(
        enforced="Stored; `jobs.list` filters by them, `jobs.patch` replaces them. "
        "Ours: `secret-NAME` names a [secret](access.md#secrets-for-trainers)."
    ),
    "Job.predictionOutput": _NO_PREDICTION,
    "Job.trainingInput": Note(enforced="What runs."),
    "Job.trainingOutput": differs("Of tuning jobs only: there are no ML units to count."),
    "TrainingInput.args": Note(enforced="Follow the image's entry point."),
    "TrainingInput.enableWebAccess": differs(
        "There are no interactive shells: `docker exec` on the machine gives one. `false` asks for none."
    ),
    "TrainingInput.encryptionConfig": differs(
        "Not used: what a job leaves lies on this machine's disk as it is."
    ),
    "TrainingInput.evaluatorConfig": Note(enforced="The containers of the evaluators."),
    "TrainingInput.evaluatorCount": _COUNT,
    "TrainingInput.evaluatorType": _TYPE,
    "TrainingInput.jobDir": Note(
        enforced="Passed on as `--job-dir PATH` after the other arguments.",
        deviation="Whether the bucket exists is not looked up; the flag's form is inferred.",
        certainty=Certainty.UNVERIFIED,
    ),
    "TrainingInput.masterConfig": Note(enforced="The container that runs."),
    "TrainingInput.masterType": _TYPE,
    "TrainingInput.network": differs(
        "There is nothing to peer with: jobs have networks of the service, closed to each other. A project's id is taken beside its number."
    ),
    "TrainingInput.packageUris": Note(
        enforced="Downloaded and installed, with what they require, when the job starts, in the generation that they had when it was created; see [trainers](trainers.md#packages).",
        deviation="An image excludes them, and a package that is not there is refused; the real service's rules were not found.",
        certainty=Certainty.UNVERIFIED,
    ),
    "TrainingInput.parameterServerConfig": Note(enforced="The containers of the parameter servers."),
    "TrainingInput.parameterServerCount": _COUNT,
    "TrainingInput.parameterServerType": _TYPE,
    "TrainingInput.pythonModule": Note(enforced="Runs as `python -m` after the packages were installed."),
    "TrainingInput.pythonVersion": Note(
        enforced="Must be one that the runtime version has.",
        deviation="The local runtime runs the base image's Python, 3.11 or later, and the job's log says so.",
        certainty=Certainty.DISCOVERY,
    ),
    "TrainingInput.region": differs("Any text is taken, and none is needed: this machine is every region."),
    "TrainingInput.runtimeVersion": Note(
        enforced="Chooses the image (`TRAINING_RUNTIME_IMAGES`); an unknown one is refused.",
        deviation="The stack's own image is Python and pip alone: what the old runtimes had, TensorFlow for one, the "
        "packages must require.",
        certainty=Certainty.DOCS,
    ),
    "TrainingInput.scaleTier": Note(
        enforced="The machines and the counts of all roles; `BASIC` where it is left out, as gcloud does.",
        deviation="There are no TPUs. The tiers' machines and counts are recalled.",
        certainty=Certainty.UNVERIFIED,
    ),
    "TrainingInput.scheduling": Note(enforced="When the job starts and when it must end."),
    "TrainingInput.serviceAccount": Note(
        enforced="The identity of the containers, by their metadata endpoint.",
        deviation="`actAs` is checked with `--require-auth` only; images are pulled by the service agent.",
        certainty=Certainty.DOCS,
    ),
    "TrainingInput.useChiefInTfConfig": Note(enforced="`TF_CONFIG` says `chief` for `master`."),
    "TrainingInput.workerConfig": Note(enforced="The containers of the workers."),
    "TrainingInput.workerCount": _COUNT,
    "TrainingInput.workerType": _TYPE,
    "ReplicaConfig.containerArgs": Note(enforced="Follow the command."),
    "ReplicaConfig.containerCommand": Note(enforced="Replaces the image's entry point."),
    "ReplicaConfig.diskConfig": differs("Not used: containers share this machine's disk."),
    "ReplicaConfig.imageUri": Note(
        enforced="Pulled and run.",
        deviation="May be in any registry.",
        certainty=Certainty.DISCOVERY,
    ),
    "ReplicaConfig.acceleratorConfig": Note(enforced="The GPUs of each replica of the role."),
    "AcceleratorConfig.count": Note(
        enforced=(
            "More than the machine has is a quota failure (429), or runs without, as "
            "[`TRAINING_ACCELERATORS`](settings.md) says."
        ),
        deviation="The numbers that a machine may have are recalled.",
        certainty=Certainty.UNVERIFIED,
    ),
    "AcceleratorConfig.type": differs(
        "The machine's GPUs are what they are: the type is checked, counted and not looked for.",
        Certainty.UNVERIFIED,
    ),
    "DiskConfig.bootDiskSizeGb": differs("Not used: `TRAINING_DISK_LIMIT_BYTES` bounds each container."),
    "DiskConfig.bootDiskType": differs("Not used: containers share this machine's disk, whatever its type."),
    "EncryptionConfig.kmsKeyName": differs(
        "Not used: what a job leaves lies on this machine's disk as it is."
    ),
    "Scheduling.maxRunningTime": Note(enforced="The job is cancelled at its end; seven days by default."),
    "Scheduling.maxWaitTime": Note(enforced="The job is cancelled if it does not run by then."),
    "Scheduling.priority": Note(
        enforced="Orders the queue, higher first.",
        deviation="There is one queue, not one for each type of accelerator.",
        certainty=Certainty.DISCOVERY,
    ),
    "HyperparameterSpec": Note(enforced="Followed by the search."),
    "HyperparameterSpec.maxTrials": differs(
        "At most 1,000, as AI Platform Vizier's quota says.", Certainty.DOCS
    ),
    "HyperparameterSpec.params": differs("At most 64.", Certainty.UNVERIFIED),
    "ParameterSpec": Note(enforced="Followed by the search."),
    "ParameterSpec.categoricalValues": differs(
        "Refused for another type; the real service may ignore them.", Certainty.UNVERIFIED
    ),
    "ParameterSpec.discreteValues": differs(
        "Refused for another type; the real service may ignore them.", Certainty.UNVERIFIED
    ),
    "ParameterSpec.maxValue": differs(
        "May equal `minValue`: the parameter is fixed. 2^53 at most for `INTEGER`.",
        Certainty.UNVERIFIED,
    ),
    "ParameterSpec.minValue": differs("Has to be written also where it is 0.", Certainty.UNVERIFIED),
    "ParameterSpec.parameterName": differs(
        "The pattern is inferred: what can be an argument `--NAME`.", Certainty.UNVERIFIED
    ),
    "TrainingInput.hyperparameters": Note(
        enforced="Makes the job a tuning job: its trials run, and not the job itself."
    ),
    "TrainingOutput.completedTrialCount": Note(
        enforced="Counts the trials that succeeded, those stopped early among them."
    ),
    "TrainingOutput.consumedMLUnits": differs("Never set: there are no ML units to count."),
    "TrainingOutput.hyperparameterMetricTag": Note(enforced="Set for tuning jobs."),
    "TrainingOutput.isHyperparameterTuningJob": Note(enforced="Set for tuning jobs."),
    "TrainingOutput.trials": differs(
        "Lists every trial, also those that run or failed; `state` tells them apart. "
        "`allMetrics` is set by `jobs.get` only."
    ),
    "TrainingOutput.webAccessUris": differs(_SHELLS),
    "TrainingOutput": differs("This service has no built-in algorithms."),
    "HyperparameterOutput.allMetrics": differs(
        "The last 1,000 reports of the metric of each trial, and at most 5,000 of all trials together, where the real "
        "service leaves it empty. The [ops API](ops-api.md) has all."
    ),
    "HyperparameterOutput.builtInAlgorithmOutput": differs("This service has no built-in algorithms."),
    "HyperparameterOutput.finalMetric": Note(
        enforced="The last report of the metric, while the trial runs the newest."
    ),
    "HyperparameterOutput.isTrialStoppedEarly": Note(
        enforced="`true` for a trial that was stopped; it has succeeded."
    ),
    "HyperparameterOutput": Note(enforced="As the trial's own run has it."),
    "HyperparameterOutput.webAccessUris": differs(_SHELLS),
    "HyperparameterMetric": Note(enforced="As reported."),
    "BuiltInAlgorithmOutput": differs("This service has no built-in algorithms."),
}

_CUSTOM = {"trainingInput.scaleTier": "CUSTOM"}
_N1 = {**_CUSTOM, "trainingInput.masterType": "n1-standard-4"}
_T4 = {**_N1, "trainingInput.masterConfig.acceleratorConfig.type": "NVIDIA_TESLA_T4"}
_COUNTED_ROLES = ("worker", "parameterServer", "evaluator")


def _role(role: str, **fields: Any) -> dict[str, Any]:
    """Return a custom job with replicas of ``role``, to set the role's other field beside it."""
    return {**_N1, **{f"trainingInput.{role}{name}": value for name, value in fields.items()}}


#: A good parameter, to change one field of.
_RATE = {"parameterName": "rate", "type": "DOUBLE", "minValue": 0.1, "maxValue": 1.0}
_UNITS = {"parameterName": "units", "type": "INTEGER", "minValue": 8, "maxValue": 64}
_KERNEL = {"parameterName": "kernel", "type": "CATEGORICAL", "categoricalValues": ["rbf", "linear"]}
_DEPTH = {"parameterName": "depth", "type": "DISCRETE", "discreteValues": [1.0, 2.5, 4.0]}


def _param(param: Mapping[str, Any], *values: Any) -> tuple[Sample, ...]:
    """Return the values of a field of ``param``, a job's only one."""
    beside = {f"trainingInput.hyperparameters.params[].{name}": value for name, value in param.items()}
    return each(*values, beside=beside)


def _search(*values: Any) -> tuple[Sample, ...]:
    """Return the values of a field of a search that has one parameter."""
    return each(*values, beside={"trainingInput.hyperparameters.params": [_RATE]})


def _package(name: str, value: Any) -> tuple[Sample, ...]:
    """Return a value of one of the four package fields, in a job with the others and no image."""
    job = {
        "packageUris": ["gs://bucket/trainer-0.0.0.tar.gz"],
        "pythonModule": "trainer.task",
        "runtimeVersion": "2.11",
        "pythonVersion": "3.7",
    }
    others = {f"trainingInput.{other}": given for other, given in job.items() if other != name}
    return each(value, beside={"trainingInput.masterConfig": None, **others})


#: Values that the discovery document's rules allow, for fields where the type alone does not make a value
#: good, or where one good value is not like another.
SAMPLES: Mapping[str, tuple[Sample, ...]] = {
    "Job.jobId": each("digits_1"),
    "Job.labels": each({"env": "dev"}),
    "Job.trainingInput": each({"masterConfig": {"imageUri": "registry.example/project/trainer:2"}}),
    "TrainingInput.enableWebAccess": each(True, False),
    "TrainingInput.jobDir": each("gs://bucket/folder"),
    "TrainingInput.masterConfig": each({"imageUri": "registry.example/project/trainer:2"}),
    "TrainingInput.masterType": each(
        "n1-standard-8", "large_model", "standard_gpu", "cloud_tpu", beside=_CUSTOM
    ),
    **{
        f"TrainingInput.{role}Count": each("2", beside=_role(role, Type="n1-standard-4"))
        for role in _COUNTED_ROLES
    },
    **{
        f"TrainingInput.{role}Type": each("n1-standard-8", "cloud_tpu", beside=_role(role, Count="2"))
        for role in _COUNTED_ROLES
    },
    "TrainingInput.network": each("projects/12345/global/networks/myVPC"),
    "TrainingInput.packageUris": _package("packageUris", ["gs://bucket/job/trainer-0.0.0.tar.gz"]),
    "TrainingInput.pythonModule": _package("pythonModule", "trainer.task"),
    "TrainingInput.pythonVersion": _package("pythonVersion", "3.7"),
    "TrainingInput.runtimeVersion": _package("runtimeVersion", "2.11"),
    "TrainingInput.scaleTier": each("BASIC", "CUSTOM", "STANDARD_1", "PREMIUM_1", "BASIC_GPU", "BASIC_TPU"),
    "TrainingInput.serviceAccount": each("trainer@project.iam.gserviceaccount.com"),
    "ReplicaConfig.acceleratorConfig": each({"count": "1", "type": "NVIDIA_TESLA_T4"}, beside=_N1),
    "AcceleratorConfig.count": each("1", beside=_T4),
    "AcceleratorConfig.type": each("NVIDIA_TESLA_T4", beside=_N1),
    "ReplicaConfig.imageUri": each("registry.example/project/trainer:2"),
    "DiskConfig.bootDiskType": each("pd-ssd", "pd-standard"),
    "EncryptionConfig.kmsKeyName": each("projects/p/locations/us-central1/keyRings/r/cryptoKeys/k"),
    "TrainingInput.hyperparameters": each({"params": [_RATE]}),
    "HyperparameterSpec.algorithm": (
        *_search("ALGORITHM_UNSPECIFIED", "RANDOM_SEARCH"),
        *each("GRID_SEARCH", beside={"trainingInput.hyperparameters.params": [_UNITS, _KERNEL, _DEPTH]}),
    ),
    "HyperparameterSpec.enableTrialEarlyStopping": _search(True, False),
    "HyperparameterSpec.goal": _search("GOAL_TYPE_UNSPECIFIED", "MAXIMIZE", "MINIMIZE"),
    "HyperparameterSpec.hyperparameterMetricTag": _search("accuracy"),
    "HyperparameterSpec.maxFailedTrials": _search(2),
    "HyperparameterSpec.maxParallelTrials": _search(2),
    "HyperparameterSpec.maxTrials": _search(20),
    "HyperparameterSpec.params": each([_RATE, _UNITS, _KERNEL, _DEPTH]),
    "HyperparameterSpec.resumePreviousJobId": _search("digits_0"),
    "ParameterSpec.categoricalValues": _param(_KERNEL, ["rbf"]),
    "ParameterSpec.discreteValues": _param(_DEPTH, [1.5, 2.5]),
    "ParameterSpec.maxValue": _param(_RATE, 2.5),
    "ParameterSpec.minValue": _param(_RATE, 0.01),
    "ParameterSpec.parameterName": _param(_RATE, "learning_rate"),
    "ParameterSpec.scaleType": _param(
        _RATE, "NONE", "UNIT_LINEAR_SCALE", "UNIT_LOG_SCALE", "UNIT_REVERSE_LOG_SCALE"
    ),
    "ParameterSpec.type": (*_param(_RATE, "DOUBLE"), *_param(_UNITS, "INTEGER"), *_param(_DEPTH, "DISCRETE")),
    "Scheduling.maxRunningTime": each("7200s"),
    "Scheduling.maxWaitTime": each("3600s"),
}

#: Values of the right type that a rule refuses.
BAD_SAMPLES: Mapping[str, tuple[Sample, ...]] = {
    "Job.jobId": each("1-digits"),
    "Job.labels": each({"Env": "dev"}),
    "TrainingInput.args": each(["-v"], beside={"trainingInput.masterConfig.containerArgs": ["-q"]}),
    "TrainingInput.jobDir": each("/tmp"),  # noqa: S108  # a wrong value, not a place
    "TrainingInput.masterType": each("m9", beside=_CUSTOM),
    **{
        f"TrainingInput.{role}Count": each("-1", beside=_role(role, Type="n1-standard-4"))
        for role in _COUNTED_ROLES
    },
    **{
        f"TrainingInput.{role}Type": each("standard", beside=_role(role, Count="2"))
        for role in _COUNTED_ROLES
    },
    "TrainingInput.network": each("myVPC"),
    "TrainingInput.packageUris": _package("packageUris", ["gs://bucket/trainer-0.0.0.tar.gz"] * 101),
    "TrainingInput.pythonModule": _package("pythonModule", "trainer/task.py"),
    "TrainingInput.pythonVersion": _package("pythonVersion", ""),
    "TrainingInput.runtimeVersion": _package("runtimeVersion", "latest"),
    "TrainingInput.serviceAccount": each("trainer"),
    "ReplicaConfig.imageUri": each("trainer"),
    "AcceleratorConfig.count": each("3", beside=_T4),
    "DiskConfig.bootDiskSizeGb": each(-1),
    "DiskConfig.bootDiskType": each("floppy"),
    "EncryptionConfig.kmsKeyName": each("key"),
    "HyperparameterSpec.hyperparameterMetricTag": _search("a\nb"),
    "HyperparameterSpec.maxFailedTrials": _search(-1),
    "HyperparameterSpec.maxParallelTrials": _search(-1),
    "HyperparameterSpec.maxTrials": _search(-1, 1001),
    "HyperparameterSpec.params": each([]),
    "HyperparameterSpec.resumePreviousJobId": _search("0-digits"),
    "ParameterSpec.categoricalValues": _param(_KERNEL, []),
    "ParameterSpec.discreteValues": _param(_DEPTH, []),
    "ParameterSpec.maxValue": _param(_RATE, 0.01),
    "ParameterSpec.minValue": _param({**_RATE, "scaleType": "UNIT_LOG_SCALE"}, 0.0),
    "ParameterSpec.parameterName": _param(_RATE, "job-dir"),
    "ParameterSpec.scaleType": _param(_KERNEL, "UNIT_LINEAR_SCALE"),
    "ParameterSpec.type": _param(_RATE, "PARAMETER_TYPE_UNSPECIFIED"),
    "Scheduling.maxRunningTime": each("2h", "0s"),
    "Scheduling.maxWaitTime": each("60s"),
    "Scheduling.priority": each(1001),
}
