"""
### Restore the previous champion of the digits

One step: the champion before the present one is the champion again, by one conditional write. `expected`
names the version that is known to be bad: if another one is the champion by now, nothing is changed. A run
goes back once; start another one for another step.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, Asset, Param

from container_training.operators.models import RollbackModelOperator

with DAG(
    dag_id="rollback_digits",
    schedule=None,
    catchup=False,
    # Whoever needs it has no time to look for the switch that wakes it.
    is_paused_upon_creation=False,
    tags=["container-training", "retraining"],
    doc_md=__doc__,
    params={
        "expected": Param(
            "", type="string", description="Version id that must be the champion now; empty: whichever it is"
        ),
        "why": Param("rolled back by hand", type="string", description="Kept in the pointer's history"),
    },
):
    RollbackModelOperator(
        task_id="rollback",
        model_folder="{{ conn.training_default.extra_dejson.job_bucket }}/models/digits",
        expected="{{ params.expected }}",
        why="{{ params.why }}",
        outlets=[Asset("digits-champion")],
        retries=2,
        retry_delay=timedelta(seconds=10),
    )
