"""
The program of the master: trains on the workers.

The variables are on the parameter servers.

The roles are those of ``TF_CONFIG``, in which the job must ask for a ``chief``. Alone, it trains by itself.
Writes a SavedModel below ``model/`` and ``metrics.json`` to the job directory. Exit code: 0 done, 1 failed
(the reason is on stderr), 2 wrong arguments.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import data
import model
import results
import storage
import tensorflow as tf
from cluster import cluster_of, wait_for_servers
from digits_options import digits_parser
from replica import ClusterError


def main(words: Sequence[str] | None = None) -> int:
    """Run the trainer; return its exit code."""
    options = parse_arguments(words)
    try:
        run(options)
    except (data.DataError, storage.StorageError, ClusterError, OSError) as error:
        print(f"tensorflow_ps chief: {error}", file=sys.stderr)
        return 1
    return 0


def run(options: argparse.Namespace) -> None:
    """Train, evaluate, and write the results. Raises what ``main`` catches."""
    rows = data.split(*data.load(None), test_fraction=0.2, seed=options.seed)
    steps = -(-len(rows.train_labels) // model.BATCH_ROWS)
    cluster = cluster_of(os.environ)
    if cluster is None:
        network = model.Network(hidden_units=options.hidden_units, seed=options.seed)
        train_epoch = alone(network, rows, options, steps)
    else:
        wait_for_servers(cluster)
        network, train_epoch = distributed(rows, options, steps)
    for variable in network.weights:
        print(f"variable {variable.shape} on {variable.device}")
    # Read from where they are, and from then on here: a model is saved by one process.
    local = model.Network(hidden_units=options.hidden_units, seed=options.seed)
    for epoch in range(1, options.epochs + 1):
        train_epoch()
        for here, there in zip(local.weights, network.weights, strict=True):
            here.assign(there.numpy())
        accuracy, loss = model.evaluate(local, rows)
        print(f"epoch {epoch}/{options.epochs}: test loss {loss:.4f}, test accuracy {accuracy:.4f}")
    metrics = {
        "accuracy": accuracy,
        "loss": loss,
        "epochs": options.epochs,
        "steps": options.epochs * steps,
        "workers": len(cluster["worker"]) if cluster else 0,
        "parameter_servers": len(cluster["ps"]) if cluster else 0,
        "variable_devices": sorted({variable.device for variable in network.weights}),
    }
    with tempfile.TemporaryDirectory() as folder:
        tf.saved_model.save(local, folder, signatures=local.scores)
        results.write_results(options.job_dir, results.files_below(Path(folder), "model"), metrics)


def alone(
    network: model.Network, rows: data.Split, options: argparse.Namespace, steps: int
) -> Callable[[], None]:
    """Return a function that trains for one epoch in this process."""
    step = model.make_step(network, options.learning_rate)
    iterator = iter(model.batches(rows, seed=options.seed))

    def train_epoch() -> None:
        for _ in range(steps):
            step(iterator)

    return train_epoch


def distributed(
    rows: data.Split, options: argparse.Namespace, steps: int
) -> tuple[model.Network, Callable[[], None]]:
    """
    Return the network and a function that lets the workers train for one epoch.

    The network is on the parameter servers.
    """
    strategy = tf.distribute.ParameterServerStrategy(tf.distribute.cluster_resolver.TFConfigClusterResolver())
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    scope: AbstractContextManager[Any] = strategy.scope()
    with scope:
        network = model.Network(hidden_units=options.hidden_units, seed=options.seed)
    step = model.make_step(network, options.learning_rate)
    iterator = iter(coordinator.create_per_worker_dataset(lambda: model.batches(rows, seed=options.seed)))

    def train_epoch() -> None:
        for _ in range(steps):
            coordinator.schedule(step, args=(iterator,))
        coordinator.join()

    return network, train_epoch


def parse_arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the options; on a wrong one print what is wrong and exit with 2."""
    return digits_parser("chief.py", learning_rate=0.2).parse_args(words)


if __name__ == "__main__":
    sys.exit(main())
