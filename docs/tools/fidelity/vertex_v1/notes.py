"""
What ``docs/fidelity-vertex.md`` cannot take from the code: effects and reasons.

Data only; tests refuse a name that the API does not have, and a field that is let through without an effect
and without a reason here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from docs.tools.fidelity.note import Certainty, Note, Sample, differs, each
from training_api.dialects.vertex_v1.pipelines.reader import CUSTOM_TASK

_HERE = "projects.locations.customJobs"
_POOL = "jobSpec.workerPoolSpecs[]"
_ONE_MACHINE = differs("Checked and kept, without an effect: there is no such network on one machine.")
_DONE = "Of deletions and uploads, which are done when they are answered; the newest 1,000 are kept until the service ends."
_NOTHING_TO_DO = differs("An operation is done when it is answered: there is nothing to cancel or to forget.")
_REGIONS = differs("All regions are this machine: any name of the form of a location is served.")
_UNSET = differs("Never set: reserved for Google's own use.")

_RESOURCES = "projects.locations"
_NO_CHANGES = differs("What was asked for stays as it is.", Certainty.DISCOVERY)
_OF_MODELS = differs("Models are uploaded, read and deleted, and have one version.")
_STUDY, _SEARCHED = "studySpec", Note(enforced="Followed by the search.")
#: The schema of a conditional parameter, and how those of its conditions begin.
_CHILD = "StudySpecParameterSpecConditionalParameterSpec"
_NO_DEFAULT = differs("Checked and shown, without an effect.", Certainty.DISCOVERY)
_ELAPSED = Note(enforced="Curves are compared by the time since each trial's start.")

#: Method -> what differs; a method that is not served must be here.
METHOD_NOTES: Mapping[str, Note] = {
    f"{_HERE}.cancel": differs(
        "A job that has ended is left as it is, and the answer is 200.", Certainty.UNVERIFIED
    ),
    f"{_HERE}.delete": differs("A job that has not ended is refused with 400.", Certainty.UNVERIFIED),
    f"{_RESOURCES}.hyperparameterTuningJobs.cancel": differs(
        "A job that has ended is left as it is, and the answer is 200.", Certainty.UNVERIFIED
    ),
    f"{_RESOURCES}.hyperparameterTuningJobs.delete": differs(
        "A job that has not ended is refused with 400.", Certainty.UNVERIFIED
    ),
    f"{_RESOURCES}.trainingPipelines.cancel": differs("It cancels the pipeline's job.", Certainty.UNVERIFIED),
    f"{_RESOURCES}.trainingPipelines.delete": differs("Its job and its model stay.", Certainty.UNVERIFIED),
    **{
        f"{_RESOURCES}.models.{name}": _OF_MODELS
        for name in (
            *("copy", "deleteVersion", "export", "getIamPolicy", "listCheckpoints", "listVersions"),
            *("mergeVersionAliases", "patch", "setIamPolicy", "testIamPermissions"),
            "updateExplanationDataset",
        )
    },
    f"{_RESOURCES}.models.upload": differs(
        "The artifacts are not looked at. `parentModel` and `serviceAccount` are refused. A `modelId` is used once "
        "in a project, whatever the location."
    ),
    "projects.locations.get": _REGIONS,
    "projects.locations.list": _REGIONS,
    "projects.locations.operations.cancel": _NOTHING_TO_DO,
    "projects.locations.operations.delete": _NOTHING_TO_DO,
    "projects.locations.operations.get": differs(_DONE, Certainty.UNVERIFIED),
    "projects.locations.operations.list": differs(_DONE, Certainty.UNVERIFIED),
    "projects.locations.operations.wait": differs(_DONE, Certainty.UNVERIFIED),
}

#: ``Schema.field``, or ``Schema`` for all its fields that have no note.
NOTES: Mapping[str, Note] = {
    "HyperparameterTuningJob.displayName": Note(
        enforced="Stored; `hyperparameterTuningJobs.list` filters by it."
    ),
    "HyperparameterTuningJob.encryptionSpec": differs(
        "Not used: what a job leaves lies on this machine's disk as it is."
    ),
    "HyperparameterTuningJob.labels": Note(
        enforced="Stored; `hyperparameterTuningJobs.list` filters by them."
    ),
    "HyperparameterTuningJob.maxFailedTrialCount": Note(
        enforced="So many failed trials fail the job.",
        deviation="0: five without a success do.",
        certainty=Certainty.UNVERIFIED,
    ),
    "HyperparameterTuningJob.maxTrialCount": Note(enforced="At most so many trials; 1,000 at most."),
    "HyperparameterTuningJob.parallelTrialCount": Note(enforced="So many run at the same time."),
    "HyperparameterTuningJob.satisfiesPzi": _UNSET,
    "HyperparameterTuningJob.satisfiesPzs": _UNSET,
    "HyperparameterTuningJob.studySpec": Note(enforced="The search."),
    "HyperparameterTuningJob.trialJobSpec": Note(
        enforced="What each trial runs; its fields are those of a [CustomJobSpec](#customjobspec)."
    ),
    "StudySpec": _SEARCHED,
    "StudySpecMetricSpec": _SEARCHED,
    "StudySpecParameterSpec": _SEARCHED,
    **{
        f"StudySpecParameterSpec{kind}ValueSpec": _SEARCHED
        for kind in ("Double", "Integer", "Categorical", "Discrete")
    },
    **{
        f"StudySpecParameterSpec{kind}ValueSpec.defaultValue": _NO_DEFAULT
        for kind in ("Double", "Integer", "Categorical", "Discrete")
    },
    "StudySpec.convexAutomatedStoppingSpec": differs("Its rule is not documented."),
    "StudySpec.observationNoise": differs("The search estimates the noise."),
    "StudySpecParameterSpec.conditionalParameterSpecs": Note(
        enforced="A trial has the parameters whose conditions hold.",
        deviation="With `RANDOM_SEARCH` and `GRID_SEARCH`; the Bayesian search, the default, refuses it. An id is "
        "one parameter: siblings with disjoint conditions may not share one, as they may on Vertex AI.",
        certainty=Certainty.DISCOVERY,
    ),
    _CHILD: _SEARCHED,
    **{f"{_CHILD}{kind}ValueCondition": _SEARCHED for kind in ("Categorical", "Discrete", "Int")},
    "StudySpecMetricSpec.safetyConfig": differs("The search has no bounds of safety."),
    "StudySpecDecayCurveAutomatedStoppingSpec.useElapsedDuration": _ELAPSED,
    "StudySpecMedianAutomatedStoppingSpec.useElapsedDuration": _ELAPSED,
    "StudySpecStudyStoppingConfig": Note(enforced="Ends the search; trials that run end by themselves."),
    "StudySpecStudyStoppingConfig.maxDurationNoProgress": differs("Time does not end a search here."),
    "StudySpecStudyStoppingConfig.maximumRuntimeConstraint": differs("Time does not end a search here."),
    "StudySpecStudyStoppingConfig.minimumRuntimeConstraint": differs("Time does not end a search here."),
    "StudySpecStudyStoppingConfig.shouldStopAsap": differs(
        "Trials that run end by themselves; `false` asks for that."
    ),
    "Trial.clientId": differs("Of studies without jobs only."),
    "Trial.measurements": differs("The [ops API](ops-api.md) has them."),
    "Trial.name": differs("A trial of a job is found by its job."),
    "Trial.webAccessUris": differs("This service has no interactive shells."),
    "TrainingPipeline.displayName": Note(enforced="Stored; `trainingPipelines.list` filters by it."),
    "TrainingPipeline.encryptionSpec": differs(
        "Not used: what a job leaves lies on this machine's disk as it is."
    ),
    "TrainingPipeline.labels": Note(enforced="Stored, and the job's, too."),
    "TrainingPipeline.modelToUpload": Note(enforced="A Model, once the job has succeeded."),
    "TrainingPipeline.trainingTaskDefinition": Note(
        enforced="`custom_task_1.0.0.yaml`.", deviation="Others are refused.", certainty=Certainty.DOCS
    ),
    "TrainingPipeline.trainingTaskInputs": Note(enforced="The [CustomJobSpec](#customjobspec) of its job."),
    "CustomJob.displayName": Note(enforced="Stored; `customJobs.list` filters by it."),
    "CustomJob.encryptionSpec": differs("Not used: what a job leaves lies on this machine's disk as it is."),
    "CustomJob.error": Note(
        enforced="Code and words as the real service has them where they are known.",
        deviation="The hint at the log is a filter, not a link to Google's console.",
        certainty=Certainty.CAPTURED,
    ),
    "CustomJob.jobSpec": Note(enforced="What runs."),
    "CustomJob.labels": Note(
        enforced="Stored; `customJobs.list` filters by them. "
        "Ours: `secret-NAME` names a [secret](access.md#secrets-for-trainers)."
    ),
    "CustomJob.satisfiesPzi": _UNSET,
    "CustomJob.satisfiesPzs": _UNSET,
    "CustomJob.webAccessUris": differs("This service has no interactive shells."),
    "CustomJobSpec.baseOutputDirectory": Note(
        enforced="`AIP_MODEL_DIR`, `AIP_CHECKPOINT_DIR` and `AIP_TENSORBOARD_LOG_DIR` lie below it."
    ),
    "CustomJobSpec.network": _ONE_MACHINE,
    "CustomJobSpec.pscInterfaceConfig": _ONE_MACHINE,
    "CustomJobSpec.reservedIpRanges": _ONE_MACHINE,
    "CustomJobSpec.enableDashboardAccess": differs(
        "There are no dashboards of containers; `false` asks for none."
    ),
    "CustomJobSpec.enableWebAccess": differs("There are no interactive shells; `false` asks for none."),
    "CustomJobSpec.scheduling": Note(
        enforced="When the job starts, when it must end, what is started again."
    ),
    "CustomJobSpec.serviceAccount": Note(
        enforced="The identity of the containers, by their metadata endpoint.",
        deviation="`actAs` is checked with `--require-auth` only; images are pulled by the custom code service agent.",
        certainty=Certainty.DOCS,
    ),
    "CustomJobSpec.workerPoolSpecs": Note(enforced="The chief, workers, parameter servers and evaluators."),
    "ContainerSpec.args": Note(enforced="Follow the command; `$(NAME)` is expanded."),
    "ContainerSpec.command": Note(enforced="Replaces the image's entry point; `$(NAME)` is expanded."),
    "ContainerSpec.env": Note(enforced="Variables of the container; `$(NAME)` is expanded."),
    "ContainerSpec.imageUri": Note(
        enforced="Pulled and run.", deviation="May be in any registry.", certainty=Certainty.DISCOVERY
    ),
    "DiskSpec.bootDiskSizeGb": differs("Not used: `TRAINING_DISK_LIMIT_BYTES` bounds each container."),
    "DiskSpec.bootDiskType": differs("Not used: containers share this machine's disk, whatever its type."),
    "DnsPeeringConfig": _ONE_MACHINE,
    "EncryptionSpec.kmsKeyName": differs("Not used: what a job leaves lies on this machine's disk as it is."),
    "EnvVar.name": Note(enforced="The variable's name."),
    "EnvVar.value": Note(enforced="The variable's value."),
    "GcsDestination.outputUriPrefix": Note(
        enforced="What the three `AIP_*` variables begin with.",
        deviation="Whether the bucket exists is not looked up.",
        certainty=Certainty.UNVERIFIED,
    ),
    "MachineSpec.acceleratorCount": Note(
        enforced="More than the machine has is a quota failure, or runs without, as "
        "[`TRAINING_ACCELERATORS`](settings.md) says."
    ),
    "MachineSpec.acceleratorType": differs(
        "The machine's GPUs are what they are: the type is checked, counted and not looked for. There are no TPUs.",
        Certainty.UNVERIFIED,
    ),
    "MachineSpec.machineType": Note(
        enforced="Limits the container's CPU and memory, to what this machine has at most.",
        deviation="A job that is larger than the machine is scaled down, and its log says so. There are no TPUs.",
        certainty=Certainty.DISCOVERY,
    ),
    "MachineSpec.reservationAffinity": differs("There are no reservations: `NO_RESERVATION` asks for none."),
    "PscInterfaceConfig": _ONE_MACHINE,
    "ReservationAffinity.key": differs("Of a specific reservation only, which is refused."),
    "ReservationAffinity.reservationAffinityType": differs("There are no reservations to consume."),
    "ReservationAffinity.values": differs("Of a specific reservation only, which is refused."),
    "Scheduling.disableRetries": Note(enforced="Nothing is started again."),
    "Scheduling.maxWaitDuration": Note(
        enforced="With `FLEX_START`: a job that does not run by then is cancelled; 24 hours by default, 0 for ever."
    ),
    "Scheduling.restartJobOnWorkerRestart": Note(enforced="A lost replica restarts the whole job."),
    "Scheduling.strategy": Note(
        enforced="`FLEX_START` waits for `maxWaitDuration`.",
        deviation="The others run as `STANDARD`: the machine is there, and costs nothing.",
        certainty=Certainty.DISCOVERY,
    ),
    "Scheduling.timeout": Note(enforced="The job is cancelled at its end; seven days by default."),
    "Status.details": differs("Never set."),
    "WorkerPoolSpec.containerSpec": Note(enforced="The container that runs."),
    "WorkerPoolSpec.diskSpec": differs("Not used: containers share this machine's disk."),
    "WorkerPoolSpec.machineSpec": Note(enforced="The limits of each replica of the pool."),
    "WorkerPoolSpec.pythonPackageSpec": Note(
        enforced="Installed in any image with `python3` and pip, and run; see [packages](vertex.md#packages)."
    ),
    "PythonPackageSpec.args": Note(enforced="Follow the module; `$(NAME)` is expanded."),
    "PythonPackageSpec.env": Note(enforced="Variables of the container; `$(NAME)` is expanded."),
    "PythonPackageSpec.executorImageUri": Note(enforced="Pulled and run."),
    "PythonPackageSpec.packageUris": Note(
        enforced="Downloaded and installed when the job starts, in the generation that they had when it was created."
    ),
    "PythonPackageSpec.pythonModule": Note(enforced="Runs as `python -m` after the packages were installed."),
    "WorkerPoolSpec.replicaCount": Note(
        enforced="So many replicas run, all at once or none.",
        deviation="A job may have at most 128 replicas.",
        certainty=Certainty.UNVERIFIED,
    ),
}

_N1 = {f"{_POOL}.machineSpec.machineType": "n1-standard-4"}
_T4 = {**_N1, f"{_POOL}.machineSpec.acceleratorType": "NVIDIA_TESLA_T4"}
_CONTAINER = {"imageUri": "registry.example/project/trainer:2"}
_MACHINE = {"machineType": "n1-standard-8"}
_CHIEF = {"machineSpec": _MACHINE, "replicaCount": "1", "containerSpec": _CONTAINER}
_PACKAGE = {
    "executorImageUri": "registry.example/project/python:1",
    "packageUris": ["gs://bucket/trainer-0.tar.gz"],
    "pythonModule": "trainer.task",
}
_KEY = "projects/p/locations/us-central1/keyRings/r/cryptoKeys/k"


def _package(value: Any, name: str = "") -> tuple[Sample, ...]:
    """Return a value of a field of a package, or of the package, in a pool without an image."""
    package = {f"{_POOL}.pythonPackageSpec.{other}": given for other, given in _PACKAGE.items() if name}
    return each(value, beside={f"{_POOL}.containerSpec": None, **package})


#: A good parameter, to change one field of.
_RATE = {"parameterId": "rate", "doubleValueSpec": {"minValue": 0.1, "maxValue": 1.0}}
_UNITS = {"parameterId": "units", "integerValueSpec": {"minValue": "8", "maxValue": "64"}}


def _kind(name: str, value: Any) -> tuple[Sample, ...]:
    """Return a parameter's values of another kind than the one that it has."""
    return each(value, beside={f"{_STUDY}.parameters[].doubleValueSpec": None})


def _value(kind: str, value: Any, **others: Any) -> tuple[Sample, ...]:
    """Return a value of a field of a parameter's ``kind``, beside its other fields."""
    beside = {f"{_STUDY}.parameters[].{kind}.{name}": other for name, other in others.items()}
    return each(value, beside={f"{_STUDY}.parameters[].doubleValueSpec": None, **beside})


#: Values of parameters that others can depend on, by their kinds.
_PARENTS: Mapping[str, Any] = {
    "integerValueSpec": {"minValue": "1", "maxValue": "9"},
    "categoricalValueSpec": {"values": ["a", "b"]},
    "discreteValueSpec": {"values": [1.0, 2.0]},
}


def _below(parent: str, value: Any, **others: Any) -> tuple[Sample, ...]:
    """Return a value of a field of what depends on a ``parent``, beside its ``others``."""
    path = f"{_STUDY}.parameters[]"
    beside = {f"{path}.conditionalParameterSpecs[].{name}": other for name, other in others.items()}
    return each(
        value,
        beside={
            f"{_STUDY}.algorithm": "RANDOM_SEARCH",
            f"{path}.doubleValueSpec": None,
            f"{path}.{parent}": _PARENTS[parent],
            **beside,
        },
    )


#: Values that the discovery document's rules allow, for fields where the type alone does not make a value
#: good, or where one good value is not like another.
SAMPLES: Mapping[str, tuple[Sample, ...]] = {
    "CustomJob.encryptionSpec": each({"kmsKeyName": _KEY}),
    "CustomJob.jobSpec": each({"workerPoolSpecs": [_CHIEF]}),
    "CustomJob.labels": each({"env": "dev"}),
    "CustomJobSpec.baseOutputDirectory": each({"outputUriPrefix": "gs://bucket/folder"}),
    "CustomJobSpec.enableDashboardAccess": each(True),
    "CustomJobSpec.enableWebAccess": each(True),
    "CustomJobSpec.network": each("projects/12345/global/networks/myVPC"),
    "CustomJobSpec.serviceAccount": each("trainer@project.iam.gserviceaccount.com"),
    "CustomJobSpec.workerPoolSpecs": each([_CHIEF]),
    "ContainerSpec.env": each([{"name": "LEVEL", "value": "1"}]),
    "ContainerSpec.imageUri": each("registry.example/project/trainer:2"),
    "DiskSpec.bootDiskSizeGb": each(200),
    "DiskSpec.bootDiskType": each("pd-ssd", "pd-standard"),
    "EncryptionSpec.kmsKeyName": each(_KEY),
    "EnvVar.name": each("LEVEL"),
    "EnvVar.value": each("1", beside={f"{_POOL}.containerSpec.env[].name": "LEVEL"}),
    "GcsDestination.outputUriPrefix": each("gs://bucket/folder"),
    "MachineSpec.acceleratorCount": each(1, beside=_T4),
    "MachineSpec.acceleratorType": each(
        "NVIDIA_TESLA_T4", "TPU_V2", beside={**_N1, f"{_POOL}.machineSpec.acceleratorCount": 1}
    ),
    "MachineSpec.machineType": each("n1-standard-8", "cloud-tpu"),
    "MachineSpec.reservationAffinity": each({"reservationAffinityType": "NO_RESERVATION"}),
    "PscInterfaceConfig.dnsPeeringConfigs": each(
        [{"domain": "lan.", "targetProject": "p", "targetNetwork": "n"}]
    ),
    "ReservationAffinity.reservationAffinityType": each(
        "NO_RESERVATION", "ANY_RESERVATION", "SPECIFIC_RESERVATION"
    ),
    "Scheduling.maxWaitDuration": each("3600s"),
    "Scheduling.timeout": each("7200s"),
    "HyperparameterTuningJob.encryptionSpec": each({"kmsKeyName": _KEY}),
    "HyperparameterTuningJob.labels": each({"env": "dev"}),
    "HyperparameterTuningJob.studySpec": each(
        {"metrics": [{"metricId": "loss", "goal": "MINIMIZE"}], "parameters": [_RATE]}
    ),
    "HyperparameterTuningJob.trialJobSpec": each({"workerPoolSpecs": [_CHIEF]}),
    "StudySpec.algorithm": (
        *each("RANDOM_SEARCH"),
        *each("GRID_SEARCH", beside={f"{_STUDY}.parameters": [_UNITS]}),
    ),
    "StudySpec.measurementSelectionType": each("LAST_MEASUREMENT", "BEST_MEASUREMENT"),
    "StudySpec.metrics": each([{"metricId": "loss", "goal": "MINIMIZE"}]),
    "StudySpec.parameters": each([_RATE, _UNITS]),
    "StudySpec.studyStoppingConfig": each({"maxNumTrials": 5}),
    "StudySpecMetricSpec.goal": each("MAXIMIZE", "MINIMIZE"),
    "StudySpecMetricSpec.safetyConfig": each({"safetyThreshold": 0.5}),
    "StudySpecParameterSpec.conditionalParameterSpecs": _below(
        "discreteValueSpec", [{"parameterSpec": _UNITS, "parentDiscreteValues": {"values": [1.0]}}]
    ),
    f"{_CHILD}.parameterSpec": _below(
        "categoricalValueSpec", _UNITS, parentCategoricalValues={"values": ["a"]}
    ),
    f"{_CHILD}.parentCategoricalValues": _below(
        "categoricalValueSpec", {"values": ["a"]}, parameterSpec=_UNITS
    ),
    f"{_CHILD}.parentDiscreteValues": _below("discreteValueSpec", {"values": [1.0]}, parameterSpec=_UNITS),
    f"{_CHILD}.parentIntValues": _below("integerValueSpec", {"values": ["1"]}, parameterSpec=_UNITS),
    f"{_CHILD}CategoricalValueCondition.values": _below("categoricalValueSpec", ["a"], parameterSpec=_UNITS),
    f"{_CHILD}DiscreteValueCondition.values": _below("discreteValueSpec", [1.0], parameterSpec=_UNITS),
    f"{_CHILD}IntValueCondition.values": _below("integerValueSpec", ["1"], parameterSpec=_UNITS),
    "StudySpecParameterSpec.doubleValueSpec": each({"minValue": 0.2, "maxValue": 2.0}),
    "StudySpecParameterSpec.scaleType": each("UNIT_LINEAR_SCALE", "UNIT_LOG_SCALE"),
    "StudySpecParameterSpec.integerValueSpec": _kind("integerValueSpec", {"minValue": "1", "maxValue": "9"}),
    "StudySpecParameterSpec.categoricalValueSpec": _kind("categoricalValueSpec", {"values": ["a", "b"]}),
    "StudySpecParameterSpec.discreteValueSpec": _kind("discreteValueSpec", {"values": [1.0, 2.0]}),
    "StudySpecParameterSpecDoubleValueSpec.defaultValue": each(0.5),
    "StudySpecParameterSpecDoubleValueSpec.maxValue": each(2.0),
    "StudySpecParameterSpecDoubleValueSpec.minValue": each(0.2),
    "StudySpecParameterSpecIntegerValueSpec.defaultValue": _value("integerValueSpec", "5", maxValue="9"),
    "StudySpecParameterSpecIntegerValueSpec.maxValue": _value("integerValueSpec", "9"),
    "StudySpecParameterSpecIntegerValueSpec.minValue": _value("integerValueSpec", "1", maxValue="9"),
    "StudySpecParameterSpecCategoricalValueSpec.defaultValue": _value(
        "categoricalValueSpec", "a", values=["a", "b"]
    ),
    "StudySpecParameterSpecCategoricalValueSpec.values": _value("categoricalValueSpec", ["a", "b"]),
    "StudySpecParameterSpecDiscreteValueSpec.defaultValue": _value(
        "discreteValueSpec", 1.0, values=[1.0, 2.0]
    ),
    "StudySpecParameterSpecDiscreteValueSpec.values": _value("discreteValueSpec", [1.0, 2.0]),
    "StudySpecStudyStoppingConfig.maxDurationNoProgress": each("60s"),
    "StudySpecStudyStoppingConfig.maximumRuntimeConstraint": each({"maxDuration": "60s"}),
    "StudySpecStudyStoppingConfig.minimumRuntimeConstraint": each({"maxDuration": "60s"}),
    "TrainingPipeline.encryptionSpec": each({"kmsKeyName": _KEY}),
    "TrainingPipeline.inputDataConfig": each({"datasetId": "1"}),
    "TrainingPipeline.labels": each({"env": "dev"}),
    "TrainingPipeline.modelToUpload": each(
        {"displayName": "model", "containerSpec": {"imageUri": "registry.example/project/server:1"}},
        beside={"trainingTaskInputs.baseOutputDirectory.outputUriPrefix": "gs://bucket/folder"},
    ),
    "TrainingPipeline.trainingTaskDefinition": each(CUSTOM_TASK),
    "TrainingPipeline.trainingTaskInputs": each({"workerPoolSpecs": [_CHIEF]}),
    "WorkerPoolSpec.containerSpec": each(_CONTAINER),
    "WorkerPoolSpec.machineSpec": each(_MACHINE),
    "WorkerPoolSpec.pythonPackageSpec": _package(_PACKAGE),
    "WorkerPoolSpec.replicaCount": each("1"),
    "PythonPackageSpec.args": _package(["-v"], "args"),
    "PythonPackageSpec.env": _package([{"name": "LEVEL", "value": "1"}], "env"),
    "PythonPackageSpec.executorImageUri": _package("registry.example/project/python:1", "executorImageUri"),
    "PythonPackageSpec.packageUris": _package(["gs://bucket/trainer-1.tar.gz"], "packageUris"),
    "PythonPackageSpec.pythonModule": _package("trainer.main", "pythonModule"),
}

#: Values of the right type that a rule refuses.
BAD_SAMPLES: Mapping[str, tuple[Sample, ...]] = {
    "CustomJob.displayName": each("x" * 129),
    "CustomJob.labels": each({"Env": "dev"}),
    "CustomJobSpec.network": each("myVPC"),
    "CustomJobSpec.serviceAccount": each("trainer"),
    "CustomJobSpec.workerPoolSpecs": each([_CHIEF] * 5),
    "ContainerSpec.imageUri": each("trainer"),
    "DiskSpec.bootDiskSizeGb": each(-1),
    "DiskSpec.bootDiskType": each("floppy"),
    "EncryptionSpec.kmsKeyName": each("key"),
    "EnvVar.name": each("1-LEVEL"),
    "GcsDestination.outputUriPrefix": each("/tmp"),  # noqa: S108  # a wrong value, not a place
    "MachineSpec.acceleratorCount": each(3, beside=_T4),
    "MachineSpec.machineType": each("m9"),
    "Scheduling.maxWaitDuration": each("-1s"),
    "Scheduling.timeout": each("0s"),
    "WorkerPoolSpec.replicaCount": each("2"),
    "HyperparameterTuningJob.displayName": each("x" * 129),
    "HyperparameterTuningJob.maxTrialCount": each(1001),
    "HyperparameterTuningJob.parallelTrialCount": each(-1),
    "HyperparameterTuningJob.maxFailedTrialCount": each(-1),
    "StudySpec.metrics": each([{"metricId": "a"}, {"metricId": "b"}]),
    "StudySpec.parameters": each([]),
    f"{_CHILD}CategoricalValueCondition.values": _below("categoricalValueSpec", [], parameterSpec=_UNITS),
    f"{_CHILD}DiscreteValueCondition.values": _below("discreteValueSpec", [], parameterSpec=_UNITS),
    f"{_CHILD}IntValueCondition.values": _below("integerValueSpec", [], parameterSpec=_UNITS),
    "StudySpecStudyStoppingConfig.maxNumTrials": each(-1),
    "TrainingPipeline.displayName": each("x" * 129),
    "TrainingPipeline.trainingTaskDefinition": each("gs://bucket/other.yaml"),
}
