"""
### Train a classifier of handwritten digits

From the Dockerfile in `docker/trainers/digits` to collected results: the image is built, tested, pushed and
submitted as a job, which is followed to its end; `train.collect` returns its metrics, files, image and
seconds per state.

The data, scikit-learn's 1,797 images, is put into the object store beside the jobs. Where that is, which
registry is used and which project runs the job, the connection `training_default` says.
"""

from __future__ import annotations

from pathlib import Path

from airflow.sdk import DAG, Param, task

from container_training.pipeline import training_pipeline

TRAINER = Path(__file__).parents[1] / "docker" / "trainers" / "digits"

with DAG(
    dag_id="train_digits",
    schedule=None,
    catchup=False,
    tags=["container-training", "example"],
    doc_md=__doc__,
    params={
        "epochs": Param(
            30, type="integer", minimum=1, maximum=1000, description="Passes over the training rows"
        ),
        "learning_rate": Param(0.002, type="number", exclusiveMinimum=0, maximum=1, description="Step size"),
        "hidden_units": Param(
            128, type="integer", minimum=1, maximum=4096, description="Width of the hidden layer"
        ),
        "seed": Param(
            0,
            type="integer",
            minimum=0,
            maximum=2**32 - 1,
            description="Decides the split and the first weights",
        ),
    },
):

    @task(retries=2)
    def upload_data(uri: str) -> str:
        """Put the data into the object store, unless the same content is there; return its address."""
        import gzip
        from importlib.util import find_spec

        from container_training.hooks.storage import StorageHook

        # The file that ``sklearn.datasets.load_digits`` reads: 64 pixels and the digit a line. Importing
        # scikit-learn for it takes seconds, as long as the warm build beside this task.
        package = find_spec("sklearn")
        (folder,) = package.submodule_search_locations if package else ()
        content = gzip.decompress((Path(folder) / "datasets" / "data" / "digits.csv.gz").read_bytes())
        with StorageHook() as storage:
            is_new = storage.get_conn().write_if_changed(uri, content, "text/csv")
        print(f"{uri}: {'written' if is_new else 'unchanged'}")
        return uri

    data = upload_data("{{ conn.training_default.extra_dejson.job_bucket }}/data/digits.csv")

    # The job needs the data and the image; the two are made side by side.
    training_pipeline(
        context_dir=TRAINER,
        image="digits",
        test_args=["--epochs", "1"],
        args=[
            "--data",
            data,
            "--epochs",
            "{{ params.epochs }}",
            "--learning-rate",
            "{{ params.learning_rate }}",
            "--hidden-units",
            "{{ params.hidden_units }}",
            "--seed",
            "{{ params.seed }}",
        ],
        labels={"example": "digits"},
    )
