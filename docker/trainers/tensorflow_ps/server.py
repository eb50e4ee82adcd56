"""
The program of workers and parameter servers: serves the chief until the job ends.

Takes and ignores the arguments of the job, which are the chief's. Alone, it starts, runs one operation, and
exits with 0: what a test of the image can see.
"""

from __future__ import annotations

import os
import sys

import tensorflow as tf
from cluster import cluster_of, task_of
from replica import ClusterError


def main() -> int:
    """Serve; return the exit code of a server that is alone, or cannot serve."""
    try:
        cluster = cluster_of(os.environ)
        role, index = task_of(os.environ)
    except ClusterError as error:
        print(f"tensorflow_ps server: {error}", file=sys.stderr)
        return 1
    if cluster is None:
        server = tf.distribute.Server.create_local_server()
        total = tf.reduce_sum(tf.constant([1.0, 2.0]))
        print(f"no cluster: a server at {server.target} started, 1 + 2 = {float(total):.0f}")
        return 0
    server = tf.distribute.Server(
        tf.train.ClusterSpec(cluster), job_name=role, task_index=index, protocol="grpc"
    )
    print(f"{role} {index} serves at {server.target}", flush=True)
    server.join()  # until SIGTERM, when the chief is done
    return 0


if __name__ == "__main__":
    sys.exit(main())
