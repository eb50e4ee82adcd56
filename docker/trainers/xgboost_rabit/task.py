"""
Train a classifier of handwritten digits on all replicas of a job, by XGBoost.

XGBoost's tracker runs beside the master.

Each replica has a part of the rows, and all grow the same trees. Who is who comes from ``CLUSTER_SPEC``;
alone, one replica has all rows. The master writes ``model.json`` and ``metrics.json`` to the job directory.
Exit code: 0 done, 1 failed (the reason is on stderr), 2 wrong arguments.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import arguments
import data
import hypertune
import numpy as np
import results
import storage
import xgboost
from replica import PATIENCE_SECONDS, ClusterError, Replica, read_replica, wait_for_name
from xgboost import collective
from xgboost.tracker import RabitTracker

#: How often a worker asks for the tracker; before each attempt it waits two seconds longer, 90 s in all.
TRACKER_ATTEMPTS = 10


def main(words: Sequence[str] | None = None) -> int:
    """Run the trainer; return its exit code."""
    options = parse_arguments(words)
    try:
        run(options, read_replica(os.environ))
    except (data.DataError, storage.StorageError, ClusterError, OSError) as error:
        print(f"xgboost_rabit: {error}", file=sys.stderr)
        return 1
    return 0


def run(options: argparse.Namespace, replica: Replica) -> None:
    """
    Train with the other replicas; the master evaluates and writes the results.

    It raises what ``main`` catches.
    """
    rows = load_rows(options)
    own = slice(replica.rank, None, replica.world_size)
    with communicator(replica):
        replicas = collective.get_world_size()
        train_rows = collective.allreduce(np.array([len(rows.train_labels[own])]), collective.Op.SUM)
        booster = xgboost.train(
            {
                "objective": "multi:softprob",
                "num_class": len(data.DIGITS),
                "learning_rate": options.learning_rate,
                "max_depth": options.max_depth,
                "tree_method": "hist",
                "seed": options.seed,
                "nthread": 1,
            },
            xgboost.DMatrix(rows.train_images[own], rows.train_labels[own]),
            num_boost_round=options.epochs,
        )
    if replica.is_master:
        metrics = {
            "epochs": booster.num_boosted_rounds(),
            "replicas": replicas,
            "train_rows": int(train_rows[0]),
        }
        if len(rows.test_labels):
            metrics |= tested(booster, rows)
            # Only the service reads this report, and only for tuning jobs.
            hypertune.HyperTune().report_hyperparameter_tuning_metric(
                hyperparameter_metric_tag="accuracy",
                metric_value=metrics["accuracy"],
                global_step=booster.num_boosted_rounds(),
            )
        results.write_results(options.job_dir, {"model.json": bytes(booster.save_raw("json"))}, metrics)


def load_rows(options: argparse.Namespace) -> data.Split:
    """
    Return the rows to train and to test on.

    All of them to train on, or a fifth held out by chance. It raises what ``data.load`` raises.
    """
    images, labels = data.load_all(options.data)
    if not options.all_rows:
        return data.split(images, labels, test_fraction=0.2, seed=options.seed)
    return data.Split(
        train_images=images, train_labels=labels, test_images=images[:0], test_labels=labels[:0]
    )


def tested(booster: xgboost.Booster, rows: data.Split) -> dict[str, float]:
    """Return accuracy (0 to 1) and mean cross-entropy on the rows that were held out; pure."""
    chances = booster.predict(xgboost.DMatrix(rows.test_images))
    return {
        "accuracy": float((chances.argmax(axis=1) == rows.test_labels).mean()),
        "loss": float(-np.log(chances[np.arange(len(chances)), rows.test_labels]).mean()),
    }


@contextmanager
def communicator(replica: Replica) -> Iterator[None]:
    """
    Meet the other replicas at the master's tracker; leave when all are done.

    It raises ``ClusterError``.
    """
    address = wait_for_name(replica.master_host)
    tracker = None
    try:
        if replica.is_master:
            tracker = RabitTracker(replica.world_size, address, replica.port)
            tracker.start()
        with collective.CommunicatorContext(
            dmlc_communicator="rabit",
            dmlc_tracker_uri=address,
            dmlc_tracker_port=replica.port,
            dmlc_task_id=f"{replica.rank:06d}",
            dmlc_retry=TRACKER_ATTEMPTS,
            dmlc_timeout=int(PATIENCE_SECONDS),
        ):
            print(f"rank {replica.rank} of {replica.world_size} is there")
            yield
        if tracker is not None:
            tracker.wait_for()
    except xgboost.core.XGBoostError as error:
        raise ClusterError(f"the {replica.world_size} replicas lost each other: {error}") from error


def parse_arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the options; on a wrong one print what is wrong and exit with 2."""
    parser = argparse.ArgumentParser(
        prog="task.py", description="Train a classifier of handwritten digits.", allow_abbrev=False
    )
    results.add_job_dir(parser)
    parser.add_argument(
        "--data",
        nargs="+",
        help="CSV or NPZ files, local or gs://BUCKET/NAME[#GENERATION]; without it, scikit-learn's own copy of the data",
    )
    parser.add_argument(
        "--all-rows",
        action="store_true",
        help="train on all rows, and leave the accuracy to evaluate.py; without it, a fifth is held out by chance",
    )
    parser.add_argument(
        "--epochs", type=arguments.count, default=20, help="rounds of boosting (default: %(default)s)"
    )
    parser.add_argument("--learning-rate", type=arguments.rate, default=0.3)
    parser.add_argument(
        "--max-depth", type=arguments.count, default=4, help="levels of a tree (default: %(default)s)"
    )
    parser.add_argument("--seed", type=arguments.seed, default=0)
    return parser.parse_args(words)


if __name__ == "__main__":
    sys.exit(main())
