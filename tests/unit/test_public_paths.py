"""Import paths that users' DAGs and Airflow's database contain. They must not change."""

from __future__ import annotations

import importlib

import pytest

#: Module of ``container_training`` -> what DAGs import from it.
IMPORTED_BY_DAGS = {
    "callbacks": ["job_report"],
    "comparison": ["Comparison", "compare_with_champion"],
    "pipeline": ["ImageTasks", "RoleImage", "TrainingPipeline", "training_pipeline"],
    "step": ["TrainingStep", "training_step"],
    "hooks.airflow_api": ["AirflowApiHook"],
    "hooks.cloud_build": ["CloudBuildHook"],
    "hooks.image": ["ImageHook"],
    "hooks.model_registry": ["ModelRegistryHook"],
    "hooks.registry_iam": ["RegistryIamHook"],
    "hooks.storage": ["StorageHook"],
    "hooks.training": ["TrainingHook"],
    "operators.bill_of_materials": ["ImageBillOfMaterialsOperator"],
    "operators.burst": ["Burst", "ChooseServiceOperator"],
    "operators.cloud_build": ["CloudBuildImageOperator"],
    "operators.data": ["SnapshotDataOperator", "ValidateDataOperator"],
    "operators.image": [
        "BuildAndPushImageOperator",
        "BuildImageOperator",
        "PushImageOperator",
        "TestImageOperator",
    ],
    "operators.models": [
        "CleanUpModelsOperator",
        "PromoteModelOperator",
        "RegisterModelOperator",
        "RollbackModelOperator",
    ],
    "operators.orphans": ["CancelOrphanJobsOperator"],
    "operators.package": ["PackageTrainerOperator"],
    "operators.plan": ["PlanTrainingOperator"],
    "operators.plots": ["PlotTrialsOperator"],
    "operators.preflight": ["PreflightOperator"],
    "operators.promotion": ["DecidePromotionOperator", "PrepareEvaluationsOperator"],
    "operators.registry_iam": ["GrantRegistryAccessOperator", "RevokeRegistryAccessOperator"],
    "operators.repository": ["EnsureRepositoryOperator"],
    "operators.results": ["CollectTrainingResultsOperator"],
    "operators.training": ["SubmitTrainingJobOperator"],
    "sensors.training": ["TrainingJobSensor"],
}
#: In the database: triggers of deferred tasks and of assets, buttons of serialized DAGs.
STORED_BY_AIRFLOW = {
    "links.training": ["JobFolderLink", "JobLogLink", "JobPageLink"],
    "operators.plots": ["BestSoFarLink", "ParallelCoordinatesLink"],
    "triggers.cloud_build": ["CloudBuildTrigger"],
    "triggers.object_changes": ["ObjectChangeTrigger"],
    "triggers.training": ["JobTrigger"],
}
#: Old homes of what was moved.
IMPORTED_FROM_OLD_HOMES = {"core.retraining.promotion": ["Decision", "PromotionRule"]}
#: Modules that Airflow imports by name: the plugin's listener, the provider's description.
NAMED_IN_CONFIGURATION = ["listener", "get_provider_info"]


@pytest.mark.parametrize(
    ("module", "name"),
    [
        (module, name)
        for paths in (IMPORTED_BY_DAGS, STORED_BY_AIRFLOW)
        for module, names in paths.items()
        for name in names
    ],
)
def test_a_path_of_an_earlier_version_is_there_and_is_where_the_thing_is_defined(
    module: str, name: str
) -> None:
    found = getattr(importlib.import_module(f"container_training.{module}"), name)

    assert found.__module__ == f"container_training.{module}"


@pytest.mark.parametrize(
    ("module", "name"),
    [(module, name) for module, names in IMPORTED_FROM_OLD_HOMES.items() for name in names],
)
def test_an_old_home_leads_to_the_new_one(module: str, name: str) -> None:
    assert hasattr(importlib.import_module(f"container_training.{module}"), name)


@pytest.mark.parametrize("module", NAMED_IN_CONFIGURATION)
def test_a_module_that_airflow_imports_by_name_exists(module: str) -> None:
    assert importlib.import_module(f"container_training.{module}")
