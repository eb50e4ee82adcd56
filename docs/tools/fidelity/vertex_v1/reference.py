"""Vertex AI v1, as far as custom training goes."""

from __future__ import annotations

from docs.tools.fidelity.reference import Reference, Root
from docs.tools.fidelity.vertex_v1.notes import BAD_SAMPLES, METHOD_NOTES, NOTES, SAMPLES
from docs.tools.fidelity.vertex_v1.probe import CustomJobProbe, PipelineProbe, TuningJobProbe

_LOCATIONS = "projects.locations"
SERVED = ("customJobs", "hyperparameterTuningJobs", "trainingPipelines", "models", "operations")
_STUDY = "studySpec"
_PARAMETER = f"{_STUDY}.parameters[]"
_CHILD = f"{_PARAMETER}.conditionalParameterSpecs[]"
_POOL = "jobSpec.workerPoolSpecs[]"

VERTEX_V1 = Reference(
    document="aiplatform.v1.json",
    page="fidelity-vertex.md",
    title="Fidelity: what of Vertex AI is served",
    served_below="/vertex",
    resources=(_LOCATIONS, *(f"{_LOCATIONS}.{name}" for name in SERVED)),
    methods={_LOCATIONS: ("get", "list")},
    scope=_LOCATIONS,
    schema_prefixes=("GoogleCloudAiplatformV1", "GoogleRpc"),
    roots=(
        Root(
            probe=CustomJobProbe(),
            places={
                "CustomJob": "",
                "CustomJobSpec": "jobSpec",
                "WorkerPoolSpec": _POOL,
                "ContainerSpec": f"{_POOL}.containerSpec",
                "EnvVar": f"{_POOL}.containerSpec.env[]",
                "PythonPackageSpec": f"{_POOL}.pythonPackageSpec",
                "MachineSpec": f"{_POOL}.machineSpec",
                "ReservationAffinity": f"{_POOL}.machineSpec.reservationAffinity",
                "DiskSpec": f"{_POOL}.diskSpec",
                "Scheduling": "jobSpec.scheduling",
                "GcsDestination": "jobSpec.baseOutputDirectory",
                "PscInterfaceConfig": "jobSpec.pscInterfaceConfig",
                "DnsPeeringConfig": "jobSpec.pscInterfaceConfig.dnsPeeringConfigs[]",
                "EncryptionSpec": "encryptionSpec",
                "Status": "error",
            },
        ),
        Root(
            probe=TuningJobProbe(),
            places={
                "HyperparameterTuningJob": "",
                "StudySpec": _STUDY,
                "StudySpecMetricSpec": f"{_STUDY}.metrics[]",
                "StudySpecParameterSpec": _PARAMETER,
                "StudySpecParameterSpecDoubleValueSpec": f"{_PARAMETER}.doubleValueSpec",
                "StudySpecParameterSpecIntegerValueSpec": f"{_PARAMETER}.integerValueSpec",
                "StudySpecParameterSpecCategoricalValueSpec": f"{_PARAMETER}.categoricalValueSpec",
                "StudySpecParameterSpecDiscreteValueSpec": f"{_PARAMETER}.discreteValueSpec",
                "StudySpecParameterSpecConditionalParameterSpec": _CHILD,
                "StudySpecParameterSpecConditionalParameterSpecCategoricalValueCondition": (
                    f"{_CHILD}.parentCategoricalValues"
                ),
                "StudySpecParameterSpecConditionalParameterSpecDiscreteValueCondition": (
                    f"{_CHILD}.parentDiscreteValues"
                ),
                "StudySpecParameterSpecConditionalParameterSpecIntValueCondition": f"{_CHILD}.parentIntValues",
                "StudySpecDecayCurveAutomatedStoppingSpec": f"{_STUDY}.decayCurveStoppingSpec",
                "StudySpecMedianAutomatedStoppingSpec": f"{_STUDY}.medianAutomatedStoppingSpec",
                "StudySpecStudyStoppingConfig": f"{_STUDY}.studyStoppingConfig",
                "Trial": "trials[]",
                "TrialParameter": "trials[].parameters[]",
                "Measurement": "trials[].finalMeasurement",
                "MeasurementMetric": "trials[].finalMeasurement.metrics[]",
            },
        ),
        Root(probe=PipelineProbe(), places={"TrainingPipeline": ""}),
    ),
    outputs=("error", "trials"),
    notes=NOTES,
    method_notes=METHOD_NOTES,
    samples=SAMPLES,
    bad_samples=BAD_SAMPLES,
)
