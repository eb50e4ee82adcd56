"""
Writes the event files beside it with the real TensorFlow.

In the framework image (``docker/frameworks/tensorflow``):

``docker run --rm -v $PWD:/out -w /out localhost/container-training/tensorflow:TAG
sh -c "pip install tensorboard && python3 make_events.py"``
"""

from pathlib import Path

import numpy as np
import tensorflow as tf


def write_tf1(folder: str) -> None:
    """``simple_value``, as TensorFlow 1's writers and estimators do."""
    with tf.Graph().as_default():
        writer = tf.compat.v1.summary.FileWriter(folder)
        for step in range(1, 6):
            values = [
                tf.compat.v1.Summary.Value(tag="accuracy", simple_value=step / 8),
                tf.compat.v1.Summary.Value(tag="loss", simple_value=float("nan") if step == 5 else 1 / step),
            ]
            writer.add_summary(tf.compat.v1.Summary(value=values), step)
        writer.close()


def write_tf2(folder: str) -> None:
    """Scalars as tensors; beside them what is no scalar."""
    with tf.summary.create_file_writer(folder).as_default():
        for step in range(1, 4):
            tf.summary.scalar("accuracy", step / 8, step=step)
        tf.summary.write("double", tf.constant(0.1, tf.float64), step=4)
        tf.summary.write("half", tf.constant(0.5, tf.float16), step=4)
        tf.summary.write("int", tf.constant(7, tf.int64), step=4)
        tf.summary.write("vector", tf.constant([1.0, 2.0]), step=4)
        tf.summary.text("words", "no number", step=4)
        tf.summary.histogram("weights", np.arange(10.0), step=4)


def write_keras(folder: str) -> None:
    """What ``model.fit`` writes through its callback."""
    model = tf.keras.Sequential([tf.keras.layers.Input((1,)), tf.keras.layers.Dense(1)])
    model.compile(loss="mse")
    callback = tf.keras.callbacks.TensorBoard(folder, write_graph=False)
    model.fit(np.ones((4, 1)), np.ones((4, 1)), epochs=2, verbose=0, callbacks=[callback])


if __name__ == "__main__":
    for write in (write_tf1, write_tf2, write_keras):
        name = write.__name__.removeprefix("write_")
        write(f"/tmp/{name}")
        for place, path in enumerate(sorted(Path(f"/tmp/{name}").rglob("events.out.tfevents.*"))):
            Path(f"{name}-{place}.tfevents").write_bytes(path.read_bytes())
