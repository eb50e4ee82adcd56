"""AI Platform Training v1."""

from __future__ import annotations

from docs.tools.fidelity.ml_v1.notes import BAD_SAMPLES, METHOD_NOTES, NOTES, SAMPLES
from docs.tools.fidelity.ml_v1.probe import JobProbe
from docs.tools.fidelity.reference import Reference, Root

ML_V1 = Reference(
    document="ml.v1.json",
    page="fidelity.md",
    title="Fidelity: what of the API is served",
    resources=("projects", "projects.jobs", "projects.locations", "projects.operations"),
    schema_prefixes=("GoogleCloudMlV1__", "GoogleCloudMlV1_HyperparameterOutput_"),
    roots=(
        Root(
            probe=JobProbe(),
            places={
                "Job": "",
                "TrainingInput": "trainingInput",
                "ReplicaConfig": "trainingInput.masterConfig",
                "AcceleratorConfig": "trainingInput.masterConfig.acceleratorConfig",
                "DiskConfig": "trainingInput.masterConfig.diskConfig",
                "EncryptionConfig": "trainingInput.encryptionConfig",
                "Scheduling": "trainingInput.scheduling",
                "HyperparameterSpec": "trainingInput.hyperparameters",
                "ParameterSpec": "trainingInput.hyperparameters.params[]",
                "TrainingOutput": "trainingOutput",
                "HyperparameterOutput": "trainingOutput.trials[]",
                "HyperparameterMetric": "trainingOutput.trials[].finalMetric",
                "BuiltInAlgorithmOutput": "trainingOutput.builtInAlgorithmOutput",
            },
        ),
    ),
    outputs=("trainingOutput", "predictionOutput"),
    notes=NOTES,
    method_notes=METHOD_NOTES,
    samples=SAMPLES,
    bad_samples=BAD_SAMPLES,
)
