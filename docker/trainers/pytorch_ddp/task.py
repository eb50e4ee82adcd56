"""
Train a classifier of handwritten digits on all replicas of a job, by torch.distributed.

The backend is gloo.

Rank and world size come from ``CLUSTER_SPEC``; alone, the world is one process. The master writes
``model.pt`` and ``metrics.json`` to the job directory. Exit code: 0 done, 1 failed (the reason is on stderr),
2 wrong arguments, 138 a peer is gone: the service starts this replica again, and all begin anew.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import data
import gradient
import model
import results
import storage
import torch
from digits_options import digits_parser
from replica import PATIENCE_SECONDS, ClusterError, Replica, read_replica, wait_for_name
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

#: 128 + SIGUSR1, by which a replica asks to be started again.
START_AGAIN = 138


class PeerLost(Exception):
    """Another replica is gone, perhaps to come back; the message has gloo's words."""


def main(words: Sequence[str] | None = None) -> int:
    """Run the trainer; return its exit code."""
    options = parse_arguments(words)
    try:
        run(options, read_replica(os.environ))
    except (data.DataError, storage.StorageError, ClusterError, OSError) as error:
        print(f"pytorch_ddp: {error}", file=sys.stderr)
        return 1
    except PeerLost as error:
        print(f"pytorch_ddp: a peer is gone, starting again: {error}", file=sys.stderr)
        return START_AGAIN
    return 0


def run(options: argparse.Namespace, replica: Replica) -> None:
    """
    Train with the other replicas; the master evaluates and writes the results.

    It raises what ``main`` catches.
    """
    rows = data.split(*data.load(None), test_fraction=0.2, seed=options.seed)
    with process_group(replica):
        network = DistributedDataParallel(
            model.make_network(hidden_units=options.hidden_units, seed=options.seed)
        )
        metrics: dict[str, Any] = {"replicas": distributed.get_world_size(), "epochs": options.epochs}
        if options.check_gradient:
            batch = next(model.batches(rows, world_size=replica.world_size, seed=options.seed))
            metrics |= gradient.compare_gradients(network, replica, *batch)
        train(network, rows, options, replica)
    if replica.is_master:
        metrics["accuracy"], metrics["loss"] = model.evaluate(network.module, rows)
        weights = io.BytesIO()
        torch.save(network.module.state_dict(), weights)
        results.write_results(options.job_dir, {"model.pt": weights.getvalue()}, metrics)


def train(
    network: DistributedDataParallel, rows: data.Split, options: argparse.Namespace, replica: Replica
) -> None:
    """Train ``network`` in place; every replica takes its rows of each batch."""
    optimizer = torch.optim.Adam(network.parameters(), lr=options.learning_rate)
    own = slice(replica.rank, None, replica.world_size)
    for epoch in range(1, options.epochs + 1):
        for images, labels in model.batches(rows, world_size=replica.world_size, seed=options.seed + epoch):
            optimizer.zero_grad()
            loss = model.loss_of(network, images[own], labels[own])
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}/{options.epochs}: loss {loss.item():.4f} of the last batch")


@contextmanager
def process_group(replica: Replica) -> Iterator[None]:
    """
    Meet the other replicas at the master's address, and part from them when all are done.

    :raises ClusterError: the master has no address.
    :raises PeerLost: one of them did not come, or went away.
    """
    wait_for_name(replica.master_host)
    try:
        distributed.init_process_group(
            "gloo",
            init_method=f"tcp://{replica.master_host}:{replica.port}",
            rank=replica.rank,
            world_size=replica.world_size,
            timeout=timedelta(seconds=PATIENCE_SECONDS),
        )
        print(f"rank {replica.rank} of {replica.world_size} is there")
        yield
        distributed.barrier()
    except RuntimeError as error:  # the only class of gloo's errors
        if replica.world_size == 1:
            raise
        raise PeerLost(str(error).splitlines()[0]) from error
    distributed.destroy_process_group()


def parse_arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the options; on a wrong one print what is wrong and exit with 2."""
    parser = digits_parser("task.py", learning_rate=0.005)
    parser.add_argument(
        "--check-gradient",
        action="store_true",
        help="compare the first gradient of all replicas with that of one process, and add the difference to the metrics",
    )
    return parser.parse_args(words)


if __name__ == "__main__":
    sys.exit(main())
