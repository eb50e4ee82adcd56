"""
### Retrain a classifier of handwritten digits

Every night, and when new data are written to `<job_bucket>/datasets/digits/`, and by hand: the data are taken
as they are, checked, and a challenger is trained on them. Challenger and champion are evaluated on the same
held-out rows; if the challenger is better, and that is no chance, it becomes the champion. The chance that
any of all nights promotes a model that is no better is at most `alpha`. `rollback_digits` goes back. How it
works: `docs/retraining.md`.

The first task puts scikit-learn's 1,797 images there if the folder is empty, so that the example runs by
itself. A run whose data were judged before ends after `validate`, unless it was started by hand.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import (
    DAG,
    Asset,
    AssetOrTimeSchedule,
    AssetWatcher,
    CronTriggerTimetable,
    Param,
    task,
)

from container_training.comparison import compare_with_champion
from container_training.operators.data import MANIFEST_URI, URIS, SnapshotDataOperator, ValidateDataOperator
from container_training.operators.models import (
    CleanUpModelsOperator,
    PromoteModelOperator,
    RegisterModelOperator,
)
from container_training.pipeline import training_pipeline
from container_training.triggers.object_changes import ObjectChangeTrigger

TRAINER = Path(__file__).parents[1] / "docker" / "trainers" / "digits"
DATA = "{{ conn.training_default.extra_dejson.job_bucket }}/datasets/digits/"
MODEL = "{{ conn.training_default.extra_dejson.job_bucket }}/models/digits"
RETRIES = {"retries": 2, "retry_delay": timedelta(seconds=10)}

NEW_DATA = Asset(
    "digits-data",
    watchers=[
        AssetWatcher(
            name="digits-data",
            trigger=ObjectChangeTrigger(uri="{job_bucket}/datasets/digits/", poll_interval_seconds=10),
        )
    ],
)
CHAMPION = Asset("digits-champion")

with DAG(
    dag_id="retrain_digits",
    schedule=AssetOrTimeSchedule(
        timetable=CronTriggerTimetable("0 3 * * *", timezone="UTC"), assets=[NEW_DATA]
    ),
    start_date=datetime(2026, 1, 1),
    # Nights that were missed are not made up for: the newest data are all that a model is trained on.
    catchup=False,
    # One after the other: the second of two compares with the champion that the first may have made.
    max_active_runs=1,
    is_paused_upon_creation=True,
    default_args=RETRIES,
    tags=["container-training", "retraining"],
    doc_md=__doc__,
    params={
        "epochs": Param(30, type="integer", minimum=1, maximum=1000, description="Passes over the rows"),
        "learning_rate": Param(0.002, type="number", exclusiveMinimum=0, maximum=1, description="Step size"),
        "hidden_units": Param(
            128, type="integer", minimum=1, maximum=4096, description="Width of the hidden layer"
        ),
        "seed": Param(
            0, type="integer", minimum=0, maximum=2**32 - 1, description="Decides the first weights"
        ),
        "min_rows": Param(1000, type="integer", minimum=1, description="Fewer rows stop the run"),
        "max_drift": Param(
            0.25,
            type="number",
            exclusiveMinimum=0,
            description="Population stability index against the champion's data above which the run stops",
        ),
        "alpha": Param(
            0.05,
            type="number",
            exclusiveMinimum=0,
            exclusiveMaximum=1,
            description="Chance that any challenger that is no better is promoted, over all runs together",
        ),
        "min_gain": Param(
            0.0,
            type="number",
            minimum=0,
            maximum=1,
            description="Accuracy that the challenger must be better by",
        ),
        "min_accuracy": Param(
            0.9, type="number", minimum=0, maximum=1, description="Accuracy that any champion must have"
        ),
        "approval": Param(
            False, type="boolean", description="Ask a person before the challenger becomes the champion"
        ),
        "keep_models": Param(10, type="integer", minimum=0, description="Newest versions that are kept"),
        "keep_days": Param(
            7, type="number", minimum=0, description="Younger versions and snapshots are kept"
        ),
    },
):

    @task(retries=2)
    def sample_data(folder: str) -> str:
        """Put scikit-learn's images into the folder of the data, if it is empty."""
        import gzip
        from importlib.util import find_spec

        from container_training.hooks.storage import StorageHook

        with StorageHook() as storage:
            store = storage.get_conn()
            if store.list_files(folder, 1)[0]:
                print(f"{folder} has data")
                return folder
            package = find_spec("sklearn")
            (library,) = package.submodule_search_locations if package else ()
            content = gzip.decompress((Path(library) / "datasets" / "data" / "digits.csv.gz").read_bytes())
            store.write_if_changed(f"{folder}digits.csv", content, "text/csv")
        print(f"{folder} had no data, and has scikit-learn's now")
        return folder

    snapshot = SnapshotDataOperator(task_id="snapshot", sources=sample_data(DATA), model_folder=MODEL)
    validate = ValidateDataOperator(
        task_id="validate",
        snapshot=snapshot.output,
        model_folder=MODEL,
        skip_tried="{{ dag_run.run_type != 'manual' }}",
        rules={
            "columns": 65,
            "label": "64",
            "labels": [str(digit) for digit in range(10)],
            "low": 0,
            "high": 16,
            "min_rows": "{{ params.min_rows }}",
            "min_label_share": 0.05,
            "max_drift": "{{ params.max_drift }}",
        },
    )
    train = training_pipeline(
        context_dir=TRAINER,
        image="digits",
        test_args=["--epochs", "1"],
        args=[
            "--data",
            snapshot.output[URIS],
            "--hold-out",
            "content",
            "--epochs",
            "{{ params.epochs }}",
            "--learning-rate",
            "{{ params.learning_rate }}",
            "--hidden-units",
            "{{ params.hidden_units }}",
            "--seed",
            "{{ params.seed }}",
        ],
        labels={"model": "digits"},
    )
    register = RegisterModelOperator(
        task_id="register",
        result=train.result,
        snapshot_uri=snapshot.output[MANIFEST_URI],
        model_folder=MODEL,
    )
    compare = compare_with_champion(
        challenger=register.output,
        model_folder=MODEL,
        command=["python", "evaluate.py"],
        args=["--data", snapshot.output[URIS]],
        alpha="{{ params.alpha }}",
        min_gain="{{ params.min_gain }}",
        min_accuracy="{{ params.min_accuracy }}",
        labels={"evaluates": "digits"},
    )

    @task.branch
    def route(decision: dict, approval: str) -> str | None:  # type: ignore[type-arg]
        """Go on with a challenger that is to be promoted: to a person, if one is to be asked."""
        if not decision["promote"]:
            return None
        return "approve" if approval == "True" else "promote"

    approve = ApprovalOperator(
        task_id="approve",
        subject="Shall version {{ ti.xcom_pull(task_ids='register')['version_id'] }} become the champion?",
        body="{{ ti.xcom_pull(task_ids='compare.decide')['why'] }}",
        response_timeout=timedelta(days=3),
    )
    promote = PromoteModelOperator(
        task_id="promote",
        version=register.output,
        decision=compare.decision,
        model_folder=MODEL,
        outlets=[CHAMPION],
        trigger_rule="none_failed_min_one_success",
    )
    clean_up = CleanUpModelsOperator(
        task_id="clean_up",
        model_folder=MODEL,
        keep="{{ params.keep_models }}",
        min_age="{{ params.keep_days * 86400 }}",
        trigger_rule="none_failed",
    )
    chosen = route(compare.decision, "{{ params.approval }}")
    validate >> train.group
    chosen >> [approve, promote]
    approve >> promote >> clean_up
