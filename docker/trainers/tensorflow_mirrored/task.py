"""
Train a classifier of handwritten digits by MultiWorkerMirroredStrategy.

Every replica has all variables, and takes a part of each batch; all take the same step, by the mean of their
gradients. The roles are those of ``TF_CONFIG``: a ``chief`` and workers; without it, the chief is alone. The
chief writes a SavedModel below ``model/`` and ``metrics.json`` to the job directory. Exit code: 0 done,
1 failed (the reason is on stderr), 2 wrong arguments.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import data
import model
import order
import results
import storage
import tensorflow as tf
from cluster import cluster_of, task_of
from digits_options import digits_parser
from replica import ClusterError, wait_for_name

#: Of one replica; a step takes so many from each.
BATCH_ROWS = 16
ROLES = ("chief", "worker")

#: Returns the gradients of a replica's rows, and the mean of those of all replicas.
Gradients = Callable[[tf.Tensor, tf.Tensor], tuple[list[tf.Tensor], list[tf.Tensor]]]


def main(words: Sequence[str] | None = None) -> int:
    """Run the trainer; return its exit code."""
    options = parse_arguments(words)
    try:
        run(options)
    except (data.DataError, storage.StorageError, ClusterError, OSError, tf.errors.OpError) as error:
        print(f"tensorflow_mirrored: {error}", file=sys.stderr)
        return 1
    return 0


def run(options: argparse.Namespace) -> None:
    """
    Train with the other replicas; the chief evaluates and writes the results.

    It raises what ``main`` catches.
    """
    rows = data.split(*data.load(None), test_fraction=0.2, seed=options.seed)
    rank = meet()
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    replicas = strategy.num_replicas_in_sync
    print(f"rank {rank} of {replicas} is there")
    own = slice(rank, None, replicas)
    with strategy.scope():
        network = model.Network(hidden_units=options.hidden_units, seed=options.seed)
    # The same weights, in this process alone.
    local = model.Network(hidden_units=options.hidden_units, seed=options.seed)
    gradients = make_gradients(strategy, network)
    differences: dict[str, float] = {}
    for epoch in range(1, options.epochs + 1):
        for batch in order.batches(
            len(rows.train_labels), size=replicas * BATCH_ROWS, seed=options.seed + epoch
        ):
            images, labels = rows.train_images[batch].astype("float32"), rows.train_labels[batch]
            unshared, shared = gradients(tf.constant(images[own]), tf.constant(labels[own]))
            if not differences:
                whole = gradients_of(local, images, labels)
                differences = {
                    "gradient_difference": distance(shared, whole),
                    "gradient_difference_unshared": distance(unshared, whole),
                }
                print(f"rank {rank}: {json.dumps(differences)}")
            with strategy.scope():
                for variable, gradient in zip(network.weights, shared, strict=True):
                    variable.assign_sub(options.learning_rate * gradient)
        print(f"epoch {epoch}/{options.epochs}")
    if rank == 0:
        for here, there in zip(local.weights, network.weights, strict=True):
            here.assign(there.numpy())
        accuracy, loss = model.evaluate(local, rows)
        metrics = {"accuracy": accuracy, "loss": loss, "replicas": replicas, "epochs": options.epochs}
        with tempfile.TemporaryDirectory() as folder:
            tf.saved_model.save(local, folder, signatures=local.scores)
            files = results.files_below(Path(folder), "model")
            results.write_results(options.job_dir, files, metrics | differences)


def meet() -> int:
    """
    Return the rank of this replica once all others have a name.

    0 is the chief, 1 the first worker.

    :raises ClusterError: one has none.
    """
    role, index = task_of(os.environ)
    for addresses in (cluster_of(os.environ, ROLES) or {}).values():
        for address in addresses:
            wait_for_name(address.rpartition(":")[0])
    return index + (role == "worker")


def make_gradients(strategy: Any, network: model.Network) -> Gradients:
    """
    Return the function of the gradients.

    Every replica must call it as often as the others.
    """

    def of_replica(images: tf.Tensor, labels: tf.Tensor) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
        own = gradients_of(network, images, labels)
        context = tf.distribute.get_replica_context()
        return own, context.all_reduce(tf.distribute.ReduceOp.MEAN, own)

    @tf.function
    def gradients(images: tf.Tensor, labels: tf.Tensor) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
        return strategy.run(of_replica, args=(images, labels))

    return gradients


def gradients_of(network: model.Network, images: tf.Tensor, labels: tf.Tensor) -> list[tf.Tensor]:
    """Return the gradients of the mean loss."""
    with tf.GradientTape() as tape:
        loss = model.loss_of(network, images, labels)
    return list(tape.gradient(loss, network.weights))


def distance(left: list[tf.Tensor], right: list[tf.Tensor]) -> float:
    """Return the largest difference of two values."""
    return max(float(tf.reduce_max(tf.abs(one - other))) for one, other in zip(left, right, strict=True))


def parse_arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the options; on a wrong one print what is wrong and exit with 2."""
    return digits_parser("task.py", learning_rate=0.2).parse_args(words)


if __name__ == "__main__":
    sys.exit(main())
